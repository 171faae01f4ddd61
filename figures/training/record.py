"""What is noted on the way: every sampled group beside its theory, and the policy's exact state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from tailmiss.tail_miss import mixed_group_prob, tail_miss_prob

from . import task
from .evaluate import Answers, per_problem, rare_nll_shift
from .model import CHARACTERS, EOS

RARE_SHARE = 0.2
"""The tail whose misses are counted: a problem's least likely answers, 20 % of its correct mass."""
WATCH_EVERY = 3
"""Steps whose groups are compared with theory; one in three, which saves a tenth of the time."""


class Watch:
    """The verifier, which also notes what each sampled group did and what theory expected of it."""

    def __init__(
        self,
        problems: Sequence[task.Problem],
        base: Any,
        group_size: int,
        completions: TextIO | None = None,
    ) -> None:
        self.problems, self.group_size = tuple(problems), group_size
        self.answers = Answers.of(problems)
        self.is_rare = self.answers.rare(self.answers.logps(base), RARE_SHARE)
        self.rare = {
            (self.answers.owner[i], task_answer)
            for i, task_answer in enumerate(a for p in problems for a in p.answers)
            if self.is_rare[i]
        }
        self.model, self.completions = base, completions
        self.rows: list[dict[str, float]] = []

    def correct(self, completion_ids: Any, problem: Any, **_: Any) -> list[float]:
        """1 for a right answer that ends, 0 for anything else."""
        answers = [_text(tokens) for tokens in completion_ids]
        rewards = [
            float(answer is not None and task.is_correct(self.problems[i].prompt, answer))
            for i, answer in zip(problem, answers, strict=True)
        ]
        lengths = [len(tokens) for tokens in completion_ids]
        row: dict[str, Any] = {
            "step": len(self.rows) + 1,
            "reward": np.mean(rewards),
            "tokens": np.mean(lengths),
        }
        if len(self.rows) % WATCH_EVERY == 0:
            rare = [(i, a) in self.rare for i, a in zip(problem, answers, strict=True)]
            chosen = problem[:: self.group_size]
            row |= self._against_theory(chosen, np.array(rewards), np.array(rare))
        self.rows.append({k: float(v) for k, v in row.items()})
        if self.completions:
            for i, tokens, reward in zip(problem, completion_ids, rewards, strict=True):
                line = {
                    "step": len(self.rows),
                    "prompt": self.problems[i].prompt,
                    "completion": "".join((*CHARACTERS, "", "")[t] for t in tokens),
                    "reward": reward,
                }
                self.completions.write(json.dumps(line) + "\n")
        return rewards

    def _against_theory(
        self, problems: Sequence[int], rewards: np.ndarray, rare: np.ndarray
    ) -> dict[str, float]:
        N = self.group_size
        right = rewards.reshape(-1, N).sum(axis=1)
        missed = ~rare.reshape(-1, N).any(axis=1)
        mixed = (right > 0) & (right < N)
        some, rows = self.answers.subset(problems)
        logps = some.logps(self.model)
        mu = np.minimum(some.mass(logps), 1.0)
        tau = np.minimum(some.mass(logps, self.is_rare[rows]), mu)
        events = {
            "right": (right.sum(), N * mu.sum(), N * (mu * (1 - mu)).sum()),
            "mixed": (mixed.sum(), *_moments(mixed_group_prob(N, mu))),
            "tail_miss": (
                (mixed & missed & (tau > 0)).sum(),
                *_moments(tail_miss_prob(N, mu, tau)[tau > 0]),
            ),
        }
        row = {"groups": float(len(right))}
        for name, (seen, expected, variance) in events.items():
            row |= {name: seen, f"{name}_expected": expected, f"{name}_variance": variance}
        return row


class Measure:
    """Exact measures of a policy on every split, against the base policy."""

    def __init__(
        self, kept: Sequence[task.Problem], held: Sequence[task.Problem], base: Any
    ) -> None:
        four = task.problems("four")
        picked = np.random.default_rng(4).choice(len(four), 24, replace=False)
        self.sets = {
            "main": Answers.of([*kept, *held]),
            "large": Answers.of(task.problems("large")),
            "four": Answers.of([four[i] for i in np.sort(picked)]),
        }
        self.base = {name: answers.logps(base) for name, answers in self.sets.items()}
        mu = self.sets["main"].mass(self.base["main"])
        in_training = np.arange(len(mu)) < len(kept)
        easy = mu >= np.median(mu)
        self.splits = {"train": in_training, "held": ~in_training, "easy": easy, "hard": ~easy}
        self.trained_rows = self.sets["main"].subset(np.flatnonzero(in_training))[1]
        self.rows: list[dict[str, Any]] = []

    def __call__(self, model: Any, step: int, *, everywhere: bool) -> None:
        """Append the measures of `model`; the two other variants only where asked."""
        for name in self.sets if everywhere else ("main",):
            answers, base = self.sets[name], self.base[name]
            logps = answers.logps(model)
            measures = per_problem(answers, logps, base)
            everything = np.ones(len(answers.problems), bool)
            splits = self.splits if name == "main" else {name: everything}
            for split, chosen in splits.items():
                row = {"step": step, "split": split}
                row |= {key: float(values[chosen].mean()) for key, values in measures.items()}
                if split == "train":
                    rows = self.trained_rows
                    trained = answers.subset(np.flatnonzero(chosen))[0]
                    row["rare_nll"] = rare_nll_shift(trained, logps[rows], base[rows])
                self.rows.append(row)


def _moments(p: np.ndarray) -> tuple[float, float]:
    """Mean and variance of how many of these independent events happen."""
    return p.sum(), (p * (1 - p)).sum()


def _text(tokens: Sequence[int]) -> str | None:
    """What was sampled before the end of sequence; None if it does not end or is no expression."""
    *body, last = tokens
    if last != EOS or any(t >= len(CHARACTERS) for t in body):
        return None
    return "".join(CHARACTERS[t] for t in body)
