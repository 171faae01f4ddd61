"""What an answer column adds to an audit: how many correct answers there are, seen and unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .diversity import chao1, unsampled_mass
from .rollouts import Rollouts


@dataclass(frozen=True)
class Answers:
    """Distinct answers, summed or averaged over prompts.

    Attributes
    ----------
    prompts : int
        Groups that the numbers rest on.
    distinct, once : int
        Distinct answers of any kind, and those given exactly once.
    distinct_correct, singletons, doubletons : int
        Distinct correct answers, those seen once, those seen twice.
    unseen_mass : float
        Good-Turing unseen correct mass, mean over prompts.
    chao1 : float
        Chao1 estimate of the distinct correct answers of a prompt, mean over prompts.
    majority_correct : float
        Share of prompts whose most common answer is correct; ties count by their share.
    unsampled : dict of int to (value, prompts)
        Expected correct mass that a group of N leaves unsampled, mean over prompts with n > N.
    """

    prompts: int
    distinct: int
    once: int
    distinct_correct: int
    singletons: int
    doubletons: int
    unseen_mass: float
    chao1: float
    majority_correct: float
    unsampled: dict[int, tuple[float, int]]


def summarise_answers(
    rollouts: Rollouts, sizes: Sequence[int], warnings: list[str]
) -> Answers | None:
    """Counts of answers within prompts; rollouts without a reward are left out."""
    if rollouts.answer is None or rollouts.group is None:
        return None
    assert rollouts.success is not None
    scored = ~np.isnan(rollouts.success)
    group, correct = rollouts.group[scored], rollouts.success[scored] == 1
    codes: dict[object, int] = {None: 0}
    answer = np.array([codes.setdefault(a, len(codes)) for a in rollouts.answer[scored]], dtype=int)
    blank = correct & (answer == 0)
    if blank.any():
        lost = np.unique(group[blank])
        warnings.append(f"{lost.size} prompts have a correct rollout without an answer: left out")
        keep = ~np.isin(group, lost)
        group, correct, answer = group[keep], correct[keep], answer[keep]
    if not group.size:
        return None
    prompts = np.unique(group)
    n = np.bincount(group, minlength=rollouts.n.size)
    owner, times = _tally(group[correct], answer[correct], len(codes))
    once, twice = (np.bincount(owner[times == t], minlength=n.size) for t in (1, 2))
    seen = np.bincount(owner, minlength=n.size)
    richness = chao1(seen, once, twice)
    unsampled = {}
    for size in sizes:
        enough = prompts[n[prompts] > size]
        if enough.size:
            held = n[owner] > size
            mass = unsampled_mass(n[owner[held]], times[held], size)
            unsampled[size] = (float(mass.sum() / enough.size), int(enough.size))
    _, all_times = _tally(group[answer > 0], answer[answer > 0], len(codes))
    return Answers(
        prompts=int(prompts.size),
        distinct=int(all_times.size),
        once=int((all_times == 1).sum()),
        distinct_correct=int(seen.sum()),
        singletons=int(once.sum()),
        doubletons=int(twice.sum()),
        unseen_mass=float((once[prompts] / n[prompts]).mean()),
        chao1=float(richness[prompts].mean()),
        majority_correct=_majority(group, answer, correct, len(codes)),
        unsampled=unsampled,
    )


def _tally(group: np.ndarray, answer: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Group of every distinct (group, answer), and how often it stands there."""
    pairs, times = np.unique(group * size + answer, return_counts=True)
    return pairs // size, times


def _majority(group: np.ndarray, answer: np.ndarray, correct: np.ndarray, size: int) -> float:
    given = answer > 0
    pairs, times = np.unique(group[given] * size + answer[given], return_counts=True)
    right = np.isin(pairs, (group * size + answer)[correct & given])
    owner = pairs // size
    most = np.zeros(owner.max(initial=0) + 1, dtype=int)
    np.maximum.at(most, owner, times)
    top = times == most[owner]
    tied, won = np.bincount(owner[top]), np.bincount(owner[top & right], minlength=most.size)
    return float((won[tied > 0] / tied[tied > 0]).mean()) if tied.any() else float("nan")
