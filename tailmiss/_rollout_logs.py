"""Logs of Inspect and of openai-evals as plain rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._rollout_names import label
from ._rollout_text import response_text

INSPECT, OPENAI = "Inspect log", "openai-evals log"
_GRADES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}
_EVENT = {"run_id", "event_id", "sample_id", "type", "data"}


def is_inspect(document: Any) -> bool:
    """An Inspect log as one JSON document."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("eval"), dict)
        and {"version", "status"} <= document.keys()
    )


def inspect_rollouts(document: dict[str, Any]) -> list[dict[str, Any]]:
    """One rollout a sample and epoch: its id, its response, and one score a scorer.

    The grades C, I, P and N (correct, incorrect, partly correct, no answer) are 1, 0, 0.5 and 0.
    """
    samples = document.get("samples")
    if not samples:
        raise ValueError("an Inspect log without samples: log them, or give a log that holds them")
    if not any(sample.get("scores") for sample in samples):
        raise ValueError(
            f"an Inspect log without scores (status {document['status']!r}): score it first with"
            " inspect score"
        )
    return [_sample(sample) for sample in samples]


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    rollout: dict[str, Any] = {"prompt_id": sample.get("id"), "epoch": sample.get("epoch")}
    output = sample.get("output") or {}
    choices = output.get("choices") or [{}]
    rollout["completion"] = response_text(choices[0].get("message"))
    if rollout["completion"] is None:
        rollout["completion"] = response_text(output.get("completion"))
    answers = []
    for scorer, score in (sample.get("scores") or {}).items():
        score = score if isinstance(score, dict) else {"value": score}
        value = score.get("value")
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, grade in parts:
            name = f"{scorer} {part}".strip() + " score"
            rollout[name] = _GRADES.get(grade, grade) if isinstance(grade, str) else grade
        answers.append(score.get("answer"))
    if len(set(map(str, answers))) == 1:
        rollout["model_answer"] = answers[0]
    return rollout


def is_event(record: Any) -> bool:
    """A line of an openai-evals log: the specification of a run, or one of its events."""
    if not isinstance(record, dict):
        return False
    spec = record.get("spec")
    return record.keys() >= _EVENT or (isinstance(spec, dict) and "run_id" in spec)


def openai_rollouts(records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """One rollout for each event "match", or for each event "metrics" where there is no match."""
    sampled: dict[str | None, str | None] = {}
    metrics: list[tuple[int, dict[str, Any]]] = []
    matches = 0
    for number, event in records:
        if not (isinstance(event, dict) and event.keys() >= _EVENT):
            continue
        data = event["data"] if isinstance(event["data"], dict) else {}
        sample_id = label(event["sample_id"])
        if event["type"] == "sampling":
            sampled[sample_id] = response_text(data.get("sampled"))
        elif event["type"] == "match" and "correct" in data:
            matches += 1
            yield number, _event(sample_id, data, sampled)
        elif event["type"] == "metrics":
            metrics.append((number, _event(sample_id, data, sampled)))
    if matches:
        return
    yield from metrics
    if not metrics:
        raise ValueError(
            "an openai-evals log without 'match' or 'metrics' events: export a table with one row a"
            " sample, its sample_id as prompt_id and a flag of correctness"
        )


def _event(
    sample_id: str | None, data: dict[str, Any], sampled: dict[str | None, str | None]
) -> dict[str, Any]:
    text = response_text(data.get("sampled"))
    scores = {k: v for k, v in data.items() if isinstance(v, (bool, int, float))}
    return {
        "prompt_id": sample_id,
        **scores,
        "model_answer": response_text(data.get("picked")),
        "sampled": sampled.get(sample_id) if text is None else text,
    }
