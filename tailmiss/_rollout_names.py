"""What the fields of rollout files are called, and how their values read as numbers."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

PROMPT_IDS = (
    "prompt_id", "task_id", "problem_id", "question_id", "doc_id", "example_id", "query_id",
    "instance_id", "prompt_idx", "prompt_index", "problem_idx", "problem_index", "question_idx",
    "task_idx", "group_id", "uid", "key",
)  # fmt: skip
PROMPT_TEXTS = ("prompt", "question", "problem", "input", "instruction", "query", "task")
PROMPT_LAST = ("id", "idx", "index", "row", "sample_idx", "name", "folder", "file")
MEMBER = ("folder", "file")
FLAGS = (
    "correct", "is_correct", "correctness", "passed", "pass", "is_passed", "success", "is_success",
    "succeeded", "solved", "resolved", "accepted", "acc", "accuracy", "exact_match", "em", "graded",
    "verified", "raw_scored_generation", "scored_generation", "base", "base_status", "flag",
)  # fmt: skip
SECOND_FLAGS = ("plus", "plus_status", "base+plus")
SCORES = ("score", "reward", "result", "status", "grade", "outcome")
ANSWERS = (
    "model_answer", "extracted_answer", "parsed_answer", "final_answer", "predicted_answer",
    "pred", "prediction", "predicted", "extracted", "answer",
)  # fmt: skip
STEPS = ("step", "global_step", "training_step", "train_step", "policy_version")
EPOCHS = ("epoch",)
COMPLETIONS = (
    "completion", "response", "output", "generation", "raw_generation", "full_model_response",
    "model_response", "model_output", "model_completion", "completion_text", "response_text",
    "output_text", "generated_text", "generated_response", "raw_response", "raw_output",
    "answer_text", "sampled", "output_list", "code", "code_list", "solution", "text", "content",
)  # fmt: skip
CHATS = (
    "message", "conversation", "chat", "dialogue", "dialog", "transcript", "trajectory", "traj",
    "turn", "resp",
)  # fmt: skip
TOTALS = (
    "n", "num_samples", "n_samples", "num_rollouts", "n_rollouts", "num_total", "n_total", "total",
    "samples", "rollouts", "attempts", "trials", "num_trials", "num_attempts", "k",
)  # fmt: skip
CONTAINERS = (
    "result", "data", "sample", "sample_result", "rollout", "record", "item", "row", "example",
    "evaluation", "eval", "detail", "log_history", "trajectory", "episode", "train", "test", "val",
    "validation", "dev",
)  # fmt: skip
METRICS = frozenset(("loss", "learning_rate", "grad_norm", "reward_std", "entropy"))
HARNESS = ("filter", "metrics", "resps", "doc_hash")
SUCCESSES = (
    "c", "num_correct", "n_correct", "correct_count", "correct", "num_success", "num_successes",
    "n_success", "successes", "num_passed", "n_passed", "passed", "passes", "pass", "num_solved",
    "solved",
)  # fmt: skip

_SUMMARY = re.compile(
    r"(^|_)(mean|avg|average|best|max|min|std|total|overall|sum|num|count|expected|norm)(_|$)|pass@"
)
# fmt: off
_PASS = frozenset((
    "pass", "passed", "success", "succeeded", "ok", "correct", "accepted", "ac", "true", "yes",
    "solved", "resolved", "right",
))
_FAIL = frozenset((
    "fail", "failed", "failure", "wrong", "incorrect", "error", "timeout", "timed out", "exception",
    "syntaxerror", "syntax error", "wa", "tle", "mle", "re", "ce", "false", "no", "unsolved",
    "unresolved", "crash", "crashed", "rejected", "wrong answer", "runtimeerror", "runtime error",
    "compile error", "compilation error", "time limit exceeded", "memory limit exceeded",
))
# fmt: on
_ABSENT = frozenset(["", "none", "null", "nan", "na", "n/a"])
UNSCORED = math.nan
NO_REWARD = (TypeError, ValueError, OverflowError)


def plain(name: str) -> str:
    """The last part of a dotted name in snake case: "info.isCorrect" -> "is_correct"."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rsplit(".", 1)[-1]).lower()
    return re.sub(r"[^a-z0-9@+]+", "_", name.removeprefix("rewards/")).strip("_")


def _singular(name: str) -> str:
    name = name.removesuffix("_list") if name not in COMPLETIONS else name
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def rank(name: str, names: tuple[str, ...]) -> int | None:
    """Place of a field name in an ordered tuple of names, plural or not; None if absent."""
    short = plain(name)
    for form in (short, _singular(short)):
        if form in names:
            return names.index(form)
    return None


def reward_rank(name: str) -> int | None:
    """0 for a flag of correctness, 1 for a second flag, 2 for a score, 3 for "..._reward"."""
    short = plain(name)
    if _SUMMARY.search(short):
        return None
    for level, names in enumerate((FLAGS, SECOND_FLAGS, SCORES)):
        if rank(name, names) is not None:
            return level
    words = short.split("_")
    if {"reward", "rewards", "score"} & set(words):
        return 0 if {"correct", "correctness", "accuracy", "acc"} & set(words) else 3
    return None


def prompt_rank(name: str) -> int | None:
    """Ids first, then texts, then names that may mean something else."""
    for level, names in enumerate((PROMPT_IDS, PROMPT_TEXTS, PROMPT_LAST)):
        if rank(name, names) is not None:
            return level
    return None


def is_role(name: str) -> bool:
    """Whether a field name says what the field is."""
    others = (ANSWERS, STEPS, EPOCHS, COMPLETIONS, TOTALS, SUCCESSES, HARNESS)
    return (
        reward_rank(name) is not None
        or prompt_rank(name) is not None
        or any(rank(name, names) is not None for names in others)
    )


def is_status(value: Any) -> bool:
    """Whether a text is a verdict, such as "passed" or "failed: timeout"."""
    return isinstance(value, str) and _verdict(value) is not None


def _verdict(text: str) -> float | None:
    head = text.strip().lower().split(":", 1)[0].strip()
    return 1.0 if head in _PASS else 0.0 if head in _FAIL else None


def reward_number(value: Any) -> float:
    """A reward as a float, NaN where there is none; raises a NO_REWARD where it cannot be one."""
    if value is None:
        return UNSCORED
    if isinstance(value, (bool, int, float, Decimal)):
        return float(value)
    if isinstance(value, str):
        if value.strip().lower() in _ABSENT:
            return UNSCORED
        verdict = _verdict(value)
        return float(value) if verdict is None else verdict
    if isinstance(value, list) and value and all(_is_outcome(v) for v in value):
        return float(all(v > 0 for v in value))
    if isinstance(value, list) and not value:
        return UNSCORED
    if hasattr(value, "item"):
        return reward_number(value.item())
    raise TypeError


def _is_outcome(value: Any) -> bool:
    """Whether a value is the outcome of one test: true, false or an error code, no share."""
    return isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer())


def label(value: Any) -> str | None:
    """A prompt or an answer as text: equal values of any type give equal text.

    Half of a surrogate pair, as a cut emoji leaves it in JSON, is escaped: no table can hold it.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="backslashreplace").decode()
    if value is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True, default=str)
