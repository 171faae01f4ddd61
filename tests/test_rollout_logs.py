"""Logs of Inspect (one made by it) and of openai-evals (as its recorder writes them)."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from rollout_files import REAL, lines, zipped

from tailmiss import audit, read_rollouts

LOG = json.loads((REAL / "inspect_mock_n4.json").read_text())


@pytest.fixture
def write(tmp_path):
    def write(content, name="log"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def changed(change):
    """The log with every sample changed."""
    log = copy.deepcopy(LOG)
    for i, sample in enumerate(log["samples"]):
        change(i, sample)
    return json.dumps(log)


def test_an_inspect_log_gives_what_it_says_of_itself():
    got = read_rollouts(REAL / "inspect_mock_n4.json")
    assert got.format == "Inspect log"
    assert got.columns == {
        "prompt": "prompt_id", "reward": "match score", "answer": "model_answer", "step": None,
    }  # fmt: skip
    assert got.n.tolist() == [4, 4, 4]
    accuracy = LOG["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert got.c.sum() / got.n.sum() == pytest.approx(accuracy, abs=1e-15)
    right = [s["scores"]["match"]["value"] == "C" for s in LOG["samples"]]
    ids = [str(s["id"]) for s in LOG["samples"]]
    for prompt, c in zip(got.prompt, got.c, strict=True):
        assert c == sum(r for r, i in zip(right, ids, strict=True) if i == prompt)
    assert got.text.read() == [s["output"]["completion"] for s in LOG["samples"]]
    assert got.warnings == ()
    assert audit(got, k=[1], N=[2]).text.of_groups == 3


def test_the_archive_of_an_inspect_log_is_the_same(write):
    members = {f"samples/{s['id']}_epoch_{s['epoch']}.json": json.dumps(s) for s in LOG["samples"]}
    members |= {"header.json": "{}", "_journal/start.json": "{}", "summaries.json": "[]"}
    members["_journal/summaries/1.json"] = "[]"
    whole, parts = read_rollouts(REAL / "inspect_mock_n4.json"), write(zipped(members), "a.eval")
    got = read_rollouts(parts)
    assert got.format == "Inspect log"
    by_name = dict(zip(whole.prompt, whole.c, strict=True))
    assert dict(zip(got.prompt, got.c, strict=True)) == by_name
    packed = bytearray(zipped(members))
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = packed.find(mark)
        while at >= 0:
            packed[at + place] = 93
            at = packed.find(mark, at + 4)
    path = write(bytes(packed), "z.eval")
    with pytest.raises(ValueError, match=r"compressed by zstd, .*: inspect log dump .* > log.json"):
        read_rollouts(path)
    del members["samples/1_epoch_1.json"]
    with pytest.raises(ValueError, match=r"samples/1_epoch_2.json: not JSON"):
        read_rollouts(write(zipped({**members, "samples/1_epoch_2.json": "{"}), "b.eval"))
    with pytest.raises(ValueError, match="an Inspect log without samples"):
        read_rollouts(write(zipped({"header.json": "{}"}), "c.eval"))


def test_grades_numbers_and_missing_scores(write):
    grades = ["C", "I", "N", 1, 0, True, False, "C", "I", 1.0]

    def change(i, sample):
        sample["scores"] = {"s": {"value": grades[i]}} if i < len(grades) else {}

    got = read_rollouts(write(changed(change)))
    assert (got.n.sum(), got.c.sum(), got.unscored.sum()) == (10, 5, 2)

    def partly(i, sample):
        sample["scores"]["match"]["value"] = "P" if i else "C"

    with pytest.raises(ValueError, match=r"not binary: 0.5 \(11x\), 1 \(1x\)"):
        read_rollouts(write(changed(partly)))
    assert read_rollouts(write(changed(partly)), threshold=0.5).c.sum() == 12

    def several(i, sample):
        sample["scores"] |= {"other": {"value": {"a": i % 2, "b": 1}}, "bare": i % 3 == 0}

    path = write(changed(several))
    with pytest.raises(ValueError, match="choose one with --reward"):
        read_rollouts(path)
    found = {
        name: read_rollouts(path, reward=name).c.sum()
        for name in ("match score", "other a score", "other b score", "bare score")
    }
    right = sum(s["scores"]["match"]["value"] == "C" for s in LOG["samples"])
    assert found == {
        "match score": right, "other a score": 6, "other b score": 12, "bare score": 4,
    }  # fmt: skip


def test_inspect_logs_that_hold_no_rollouts_say_why(write):
    for log, said in (
        ({**LOG, "samples": None}, "an Inspect log without samples"),
        ({**LOG, "samples": []}, "an Inspect log without samples"),
        (json.loads(changed(lambda i, s: s.update(scores={}))), "without scores (status 'success"),
    ):
        path = write(json.dumps(log))
        with pytest.raises(ValueError, match=r".") as caught:
            read_rollouts(path)
        assert said in str(caught.value)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


def event(number, sample, kind, data):
    return {
        "run_id": "r", "event_id": number, "sample_id": sample, "type": kind, "data": data,
        "created_by": "", "created_at": "2026-01-01",
    }  # fmt: skip


SPEC = {"spec": {"run_id": "r", "eval_name": "e", "completion_fns": ["m"], "run_config": {}}}


def evals(*, kind="match", spec=True):
    """Three samples: their sampling events come before their matches, which are interleaved."""
    rows = [SPEC] if spec else []
    for i in range(3):
        rows.append(event(i, f"e.dev.{i}", "sampling", {"prompt": "p", "sampled": [f"text {i}"]}))
    for i in range(3):
        data = {"correct": i > 0, "expected": "4", "picked": str(i)}
        if kind == "metrics":
            data = {"score": float(i > 0), "choice": "Y"}
        rows.append(event(3 + i, f"e.dev.{i}", kind, data))
    return [*rows, {"final_report": {"accuracy": 2 / 3}}]


def test_openai_evals_logs_of_several_runs(write):
    paths = [write(lines(evals()), f"{run}.jsonl") for run in range(4)]
    got = read_rollouts(paths)
    assert got.format == "openai-evals log"
    assert got.prompt.tolist() == [f"e.dev.{i}" for i in range(3)]
    assert (got.n.tolist(), got.c.tolist()) == ([4, 4, 4], [0, 4, 4])
    assert got.columns["reward"] == "correct"
    assert got.answer[:3].tolist() == ["0", "1", "2"]
    assert got.text.read()[:3] == ["text 0", "text 1", "text 2"]
    for other in (evals(spec=False), evals(kind="metrics")):
        single = read_rollouts(write(lines(other)))
        assert (single.n.tolist(), single.c.tolist()) == ([1, 1, 1], [0, 1, 1])


def test_openai_evals_logs_without_outcomes_say_so(write):
    rows = [SPEC, event(0, "a", "sampling", {"sampled": "x"}), {"final_report": {}}]
    with pytest.raises(ValueError, match="an openai-evals log without 'match' or 'metrics' events"):
        read_rollouts(write(lines(rows)))
    broken = lines(evals())[:-20]
    with pytest.raises(ValueError, match=r"line 8: not JSON"):
        read_rollouts(write(broken))


def late(before, after, extra):
    rows = [{"prompt": i // 4, "reward": i % 2} for i in range(before + after)]
    return lines([*rows[:before], *({**row, **extra(i)} for i, row in enumerate(rows[before:]))])


def test_a_step_that_begins_late_is_not_passed_over(write):
    path = write(late(300, 400, lambda i: {"step": i // 100}))
    with pytest.raises(ValueError, match="line 1: no step in 'step'; --step none pools all"):
        read_rollouts(path)
    pooled = read_rollouts(path, step="none")
    assert f"'step' first appears at {path}: line 301 and is in 400 of 700 rollouts" in (
        pooled.warnings
    )
    few = write(late(300, 40, lambda i: {"step": i, "note": "x"}))
    got = read_rollouts(few)
    [note] = got.warnings
    assert note.startswith(f"'step' first appears at {few}: line 301 and is in 40 of 340")
    assert "left out; naming it as an option takes it" in note
    assert got.step is None
    with pytest.raises(ValueError, match="line 1: no step in 'step'"):
        read_rollouts(few, step="step")


def test_a_reward_that_begins_late_inside_an_object_is_read(write):
    rows = [{"id": i // 4, "info": {"x": 1}, "score": None} for i in range(240)]
    rows += [{"id": i // 4, "info": {"x": 1, "correct": i % 2}} for i in range(240, 960)]
    path = write(lines(rows))
    got = read_rollouts(path)
    assert got.columns["reward"] == "info.correct"
    assert (np.sum(got.n), np.sum(got.c), np.sum(got.unscored)) == (720, 360, 240)
    assert any("'info.correct' first appears at" in note for note in got.warnings)


def test_a_summary_after_many_rollouts_changes_nothing(write):
    rows = late(400, 0, dict)
    plain = read_rollouts(write(rows))
    for summary in (
        {"step": 10, "accuracy": 0.5, "n": 400, "c": 200}, {"total": 400, "acc": {"mean": 0.5}},
    ):  # fmt: skip
        got = read_rollouts(write(rows + json.dumps(summary) + "\n"))
        assert got.n.tolist() == plain.n.tolist()
        assert got.step is None
        assert got.columns == plain.columns


def test_lists_that_begin_late_beside_the_rewards_are_read(write):
    rows = [{"question": f"q{i}", "rewards": [1, 0]} for i in range(250)]
    rows += [
        {"question": f"q{i}", "rewards": [1, 0], "completions": ["a b", "c d"]}
        for i in range(250, 260)
    ]
    got = read_rollouts(write(lines(rows)))
    assert (got.text.size >= 0).sum() == 20
