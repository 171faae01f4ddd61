"""Rollouts of the transformer as one tree per prompt: sampling, and the policy gradient over trees.

A group's rollouts share their prompt and often their first moves, so together they are a tree whose
trunk is the prompt: every distinct beginning is one node, evaluated once, that attends to its
ancestors. The gradient sum_i c_i grad log pi(o_i) is gathered as coefficients per node and token
before one backward pass over the trees that have any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ._maze_model import Cache, Learner

SHRINK = 0.8  # drop prompts whose rollouts have all ended when fewer than this share remain


@dataclass
class Rollouts:
    """Rollouts of P prompts, N each, as a tree per prompt of the distinct beginnings among them.

    ``tokens``, ``depth``, ``used`` (P, M): the token that leads to a node, its distance from the
    root, and whether the slot is in use. ``ancestors`` (P, M, M): what a node attends to, itself
    included. ``nodes``, ``answers``, ``logp``, ``counted`` (P N, T): at each node the rollout drew
    a token, with that log-probability; all up to the first DONE count.
    """

    prompts: NDArray[Any]
    tokens: NDArray[Any]
    depth: NDArray[Any]
    used: NDArray[Any]
    ancestors: NDArray[Any]
    nodes: NDArray[Any]
    answers: NDArray[Any]
    logp: NDArray[Any]
    counted: NDArray[Any]


@torch.inference_mode()
def sample(
    learner: Learner, prompts: NDArray[Any], group_size: int, rng: np.random.Generator
) -> Rollouts:
    """A group of rollouts per prompt, token by token, each new node evaluated once.

    Keys and values of the prompts and of all earlier nodes are kept; tokens are drawn by inverse
    CDF.
    """
    model, encoding, device = learner.model, learner.encoding, learner.device
    P, L = prompts.shape
    row = np.repeat(np.arange(P), group_size)
    shape = (len(row), encoding.limit)
    nodes, answers = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    logp, counted = np.zeros(shape, np.float32), np.zeros(shape, bool)
    cache: Cache = []
    model(learner.tensor(prompts), torch.arange(L, device=device), None, cache, 1)
    level = np.full((P, 1), encoding.start)
    used, depth, ancestors = (
        np.ones((P, 1), bool),
        np.zeros((P, 1), np.int64),
        np.ones((P, 1, 1), bool),
    )
    tokens, first, alive = level, 0, np.arange(len(row))
    slot = np.zeros(len(row), np.int64)
    present, place_of = np.arange(P), np.arange(P)
    for t in range(encoding.limit):
        mask = np.ones((len(present), level.shape[1], L + tokens.shape[1]), bool)
        mask[..., L:] = ancestors[present, first:]
        place = torch.full((1,), L + t, device=device)
        seen = learner.tensor(level[present]), place, learner.tensor(mask)
        logits = model(*seen, cache, level.shape[1])
        log_shares = logits.float().log_softmax(-1).cpu().numpy()
        here = log_shares[place_of[row[alive]], slot[alive] - first]
        u = rng.random(len(alive), np.float32)
        drawn = np.minimum((np.exp(here).cumsum(1) <= u[:, None]).sum(1), encoding.vocabulary - 1)
        nodes[alive, t], answers[alive, t], counted[alive, t] = slot[alive], drawn, True
        logp[alive, t] = here[np.arange(len(alive)), drawn]
        going = drawn != encoding.done
        alive, drawn = alive[going], drawn[going]
        if len(alive) == 0 or t + 1 == encoding.limit:
            break
        key = (row[alive] * tokens.shape[1] + slot[alive]) * encoding.vocabulary + drawn
        _, one, which = np.unique(key, return_index=True, return_inverse=True)
        owner, parent = row[alive[one]], slot[alive[one]]
        rank = np.arange(len(one)) - np.searchsorted(owner, owner)
        first, width = tokens.shape[1], int(rank.max()) + 1
        level, fresh = np.zeros((P, width), np.int64), np.zeros((P, width), bool)
        level[owner, rank], fresh[owner, rank] = drawn[one], True
        grown = np.zeros((P, first + width, first + width), bool)
        grown[:, :first, :first] = ancestors
        grown[owner, first + rank, :first] = ancestors[owner, parent]
        grown[:, np.arange(first, first + width), np.arange(first, first + width)] = True
        ancestors, tokens, used = grown, np.hstack((tokens, level)), np.hstack((used, fresh))
        depth = np.hstack((depth, np.full((P, width), t + 1)))
        slot[alive] = first + rank[which]
        live = np.unique(owner)
        if len(live) < SHRINK * len(present):
            rows = learner.tensor(place_of[live])
            cache = [(k[rows], v[rows]) for k, v in cache]
            present, place_of[live] = live, np.arange(len(live))
    stop = int(counted.any(0).sum())
    rollouts = (part[:, :stop] for part in (nodes, answers, logp, counted))
    return Rollouts(prompts, tokens, depth, used, ancestors, *rollouts)


def gather_gradient(
    learner: Learner, rollouts: Rollouts, coefficients: NDArray[Any], scale: float
) -> None:
    """Add the gradient of -scale * sum_i c_i log pi(o_i), one coefficient a rollout."""
    P, M = rollouts.tokens.shape
    N = len(coefficients) // P
    weight = np.zeros((P, M, learner.encoding.vocabulary), np.float32)
    which = np.broadcast_to(np.arange(P * N)[:, None], rollouts.nodes.shape)[rollouts.counted]
    at = which // N, rollouts.nodes[rollouts.counted], rollouts.answers[rollouts.counted]
    np.add.at(weight, at, scale * coefficients[which])
    some = np.flatnonzero(weight.any((1, 2)))
    if len(some) == 0:
        return
    # pack the slots in use to the left; the rest repeat a used one, without weight
    used = rollouts.used[some]
    order = np.argsort(~used, axis=1, kind="stable")[:, : int(used.sum(1).max())]
    pick = some[:, None], order
    weight = weight[pick] * np.take_along_axis(used, order, 1)[..., None]
    ancestors = rollouts.ancestors[some[:, None, None], order[:, :, None], order[:, None, :]]
    prompts, L = rollouts.prompts[some], rollouts.prompts.shape[1]
    mask = np.zeros((len(some), L + order.shape[1], L + order.shape[1]), bool)
    mask[:, :L, :L] = np.tri(L, dtype=bool)
    mask[:, L:, :L], mask[:, L:, L:] = True, ancestors
    place = np.hstack((np.broadcast_to(np.arange(L), prompts.shape), L + rollouts.depth[pick]))
    text = np.hstack((prompts, rollouts.tokens[pick]))
    logits = learner.model(
        learner.tensor(text), learner.tensor(place), learner.tensor(mask), [], order.shape[1]
    )
    (-(learner.tensor(weight) * logits.float().log_softmax(-1)).sum()).backward()


def take(rollouts: Rollouts, keep: NDArray[np.bool_]) -> Rollouts:
    """The rollouts of some of the prompts."""
    if keep.all():
        return rollouts
    rows = np.repeat(keep, len(rollouts.nodes) // len(keep))
    trees = ("prompts", "tokens", "depth", "used", "ancestors")
    return Rollouts(
        **{name: getattr(rollouts, name)[keep] for name in trees},
        **{name: getattr(rollouts, name)[rows] for name in ("nodes", "answers", "logp", "counted")},
    )
