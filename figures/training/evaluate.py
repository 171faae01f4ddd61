"""What a policy does with every right answer, exactly: teacher forcing over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .model import encode
from .task import Problem

MODE = 1e-4
"""A right answer counts as a mode from this probability on."""


@dataclass(frozen=True)
class Answers:
    """All right answers of some problems, as token rows; `owner` is the problem of each."""

    problems: tuple[Problem, ...]
    rows: np.ndarray
    scored: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Answers:
        """List the answers of the problems in their order."""
        pairs = [(p.prompt, answer) for p in problems for answer in p.answers]
        rows, scored = encode(pairs)
        owner = np.repeat(np.arange(len(problems)), [len(p.answers) for p in problems])
        return cls(tuple(problems), rows, scored, owner)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each answer, the end-of-sequence token included."""
        return self.scored.sum(axis=1)

    def subset(self, chosen: Sequence[int] | np.ndarray) -> tuple[Answers, np.ndarray]:
        """The answers of some of the problems, in the order given, and which rows they were."""
        rows = np.concatenate([np.flatnonzero(self.owner == i) for i in chosen])
        problems = tuple(self.problems[i] for i in chosen)
        owner = np.repeat(np.arange(len(problems)), [len(p.answers) for p in problems])
        return Answers(problems, self.rows[rows], self.scored[rows], owner), rows

    def logps(self, model: Any, batch: int = 2048) -> np.ndarray:
        """ln of the probability that the policy gives to each answer, at temperature 1."""
        was_training = model.training
        model.eval()
        parts = []
        with torch.no_grad():
            for start in range(0, len(self.rows), batch):
                tokens = torch.from_numpy(self.rows[start : start + batch])
                logits = model(input_ids=tokens).logits[:, :-1].double()
                chosen = logits.gather(2, tokens[:, 1:, None])[..., 0] - logits.logsumexp(2)
                keep = torch.from_numpy(self.scored[start : start + batch, 1:])
                parts.append(torch.where(keep, chosen, 0.0).sum(1).numpy())
        model.train(was_training)
        return np.concatenate(parts)

    def mass(self, logps: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """Probability of a right answer for each problem, or of one in the subset `among`."""
        p = np.exp(logps) if among is None else np.exp(logps) * among
        return self._total(p)

    def rare(self, logps: np.ndarray, share: float) -> np.ndarray:
        """The least likely right answers of each problem that together hold at most `share`."""
        p = np.exp(logps)
        order = np.lexsort((p, self.owner))
        first = np.r_[True, np.diff(self.owner[order]) > 0]
        running = np.cumsum(p[order])
        before = (running - p[order])[first][self.owner[order]]
        chosen = np.zeros(len(p), bool)
        chosen[order] = running - before <= share * self.mass(logps)[self.owner[order]]
        return chosen

    def _total(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner, values, minlength=len(self.problems))


def per_problem(answers: Answers, logps: np.ndarray, base: np.ndarray) -> dict[str, np.ndarray]:
    """Exact measures of a policy, one value a problem, against the policy it started from.

    ``pass_k`` is 1 - (1 - mu)^k; ``retained`` is M_ret = 1 - sum max(0, p0 - p) / sum p0 over the
    right answers ([FGRPO] v2, Eq. 26); ``modes`` counts right answers of probability 1e-4 or more;
    ``effective_modes`` is the exponential of the entropy of the policy among right answers.
    """
    p, p0, mu = np.exp(logps), np.exp(base), answers.mass(logps)
    # a problem has thousands of right answers at most, so mu passes 1 by rounding only
    log_wrong = np.log1p(-np.minimum(mu, 1 - 1e-12))
    measures = {f"pass_{k}": -np.expm1(k * log_wrong) for k in (1, 4, 16, 64, 256)}
    lost = answers._total(np.maximum(0.0, p0 - p))
    measures["retained"] = 1 - lost / answers.mass(base)
    measures["modes"] = answers._total(p >= MODE)
    among = p / mu[answers.owner]
    measures["effective_modes"] = np.exp(-answers._total(among * np.log(among)))
    return measures


def rare_nll_shift(
    answers: Answers, logps: np.ndarray, base: np.ndarray, share: float = 0.01
) -> float:
    """Mean rise of length-normalised NLL over the base policy's rare right answers.

    The paper samples right answers from the base policy and keeps the 1 % that are the least likely
    per token. This is that sample's expectation: answers in order of base NLL per token until they
    hold `share` of the base's correct mass, each weighted by its base probability
    ([FGRPO] v2, App. M.2).
    """
    weight, lengths = np.exp(base), answers.lengths
    order = np.argsort(base / lengths, kind="stable")
    last = int(np.searchsorted(np.cumsum(weight[order]), share * weight.sum()))
    rare = order[: last + 1]
    return float(np.average((base[rare] - logps[rare]) / lengths[rare], weights=weight[rare]))
