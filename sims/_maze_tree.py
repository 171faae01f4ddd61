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
from torch import Tensor
from torch.nn import functional

from ._maze_model import Learner, attention


@dataclass
class Rollouts:
    """Rollouts of P prompts, N each, as a tree per prompt of the distinct beginnings among them.

    ``tokens``, ``owner``, ``parent``, ``depth`` (M,): the token that leads to a node, its prompt,
    the node before it and its distance from the root, whose number is its prompt's; parents come
    first. ``nodes``, ``answers``, ``logp``, ``counted`` (P N, T): at each node the rollout drew a
    token, with that log-probability; all up to the first DONE count.
    """

    prompts: NDArray[Any]
    tokens: NDArray[Any]
    owner: NDArray[Any]
    parent: NDArray[Any]
    depth: NDArray[Any]
    nodes: NDArray[Any]
    answers: NDArray[Any]
    logp: NDArray[Any]
    counted: NDArray[Any]


@torch.inference_mode()
def sample(
    learner: Learner, prompts: NDArray[Any], group_size: int, rng: np.random.Generator
) -> Rollouts:
    """A group of rollouts per prompt, token by token, each new node evaluated once.

    Keys and values of the prompts and of all nodes are kept, a row each, and a node looks up those
    on its path; tokens are drawn by inverse CDF.
    """
    model, encoding = learner.model, learner.encoding
    P, L = prompts.shape
    row = np.repeat(np.arange(P), group_size)
    shape = (len(row), encoding.limit)
    nodes, answers = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    logp, counted = np.zeros(shape, np.float32), np.zeros(shape, bool)

    trunk, most = P * L, P * L + P + (encoding.limit - 1) * len(row)
    memory = [model.embed.weight.new_empty(most, model.memory) for _ in model.blocks]
    causal = attention()

    def along_text(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory[layer][:trunk] = torch.stack((k, v), -3).view(trunk, -1)
        return causal(layer, q, k, v)

    def along_paths(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory[layer][first : first + len(q)] = torch.stack((k, v), -3).flatten(1)
        rows = functional.embedding(seen, memory[layer]).unflatten(-1, (2, *k.shape[1:]))
        return causal(layer, q.unsqueeze(1), rows[:, :, 0], rows[:, :, 1]).squeeze(1)

    place = learner.tensor(np.arange(L + encoding.limit))
    model(learner.tensor(prompts), place[:L], along_text, 1)
    owner = parent = np.arange(P)
    tokens, paths = np.full(P, encoding.start), np.arange(trunk).reshape(P, L)
    levels, first = [(tokens, owner, parent, np.zeros_like(owner))], trunk
    alive, at = np.arange(len(row)), row  # rollouts that go on, and where each is in the level
    for t in range(encoding.limit):
        paths = np.hstack((paths, first + np.arange(len(tokens))[:, None]))
        seen = learner.tensor(paths)
        logits = model(learner.tensor(tokens), place[L + t], along_paths)
        log_shares = logits.float().log_softmax(-1).cpu().numpy()
        cdf = np.exp(log_shares).cumsum(1)
        u = rng.random(len(alive), np.float32)
        drawn = np.minimum((cdf[at] <= u[:, None]).sum(1), encoding.vocabulary - 1)
        nodes[alive, t], answers[alive, t], counted[alive, t] = first - trunk + at, drawn, True
        logp[alive, t] = log_shares[at, drawn]
        going = drawn != encoding.done
        alive = alive[going]
        if len(alive) == 0 or t + 1 == encoding.limit:
            break
        beginnings, at = np.unique(
            at[going] * encoding.vocabulary + drawn[going], return_inverse=True
        )
        before, tokens = np.divmod(beginnings, encoding.vocabulary)
        owner, parent, paths = owner[before], first - trunk + before, paths[before]
        first += len(levels[-1][0])
        levels.append((tokens, owner, parent, np.full_like(owner, t + 1)))
    stop = int(counted.any(0).sum())
    tree = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    return Rollouts(prompts, *tree, *(part[:, :stop] for part in (nodes, answers, logp, counted)))


def gather_gradient(
    learner: Learner, rollouts: Rollouts, coefficients: NDArray[Any], scale: float
) -> None:
    """Add the gradient of -scale * sum_i c_i log pi(o_i), one coefficient a rollout."""
    (P, L), N = rollouts.prompts.shape, len(coefficients) // len(rollouts.prompts)
    keep = (coefficients != 0).reshape(P, N).any(1)
    if not keep.any():
        return
    tree, coefficients = take(rollouts, keep), coefficients[np.repeat(keep, N)]
    # a slot for every node: those of a prompt side by side, the rest of its row without weight
    order = np.argsort(tree.owner, kind="stable")
    sizes = np.bincount(tree.owner)
    slot = np.empty_like(order)
    slot[order] = np.arange(len(order)) - np.repeat(sizes.cumsum() - sizes, sizes)
    shape = len(sizes), int(sizes.max())
    tokens, depth = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    tokens[tree.owner, slot], depth[tree.owner, slot] = tree.tokens, tree.depth
    mask = np.zeros((len(sizes), L + shape[1], L + shape[1]), bool)
    mask[:, :L, :L] = np.tri(L, dtype=bool)
    mask[:, L:, :L] = True
    above = mask[:, L:, L:]
    for level in np.split(np.arange(len(order)), np.flatnonzero(np.diff(tree.depth)) + 1):
        one = tree.owner[level], slot[level]
        above[one] = above[tree.owner[level], slot[tree.parent[level]]]
        above[(*one, slot[level])] = True
    weight = np.zeros((*shape, learner.encoding.vocabulary), np.float32)
    which, node = np.nonzero(tree.counted)[0], tree.nodes[tree.counted]
    at = tree.owner[node], slot[node], tree.answers[tree.counted]
    np.add.at(weight, at, scale * coefficients[which])
    place = np.hstack((np.broadcast_to(np.arange(L), (len(sizes), L)), L + depth))
    text = np.hstack((tree.prompts, tokens))
    attend = attention(learner.tensor(mask))
    logits = learner.model(learner.tensor(text), learner.tensor(place), attend, shape[1])
    (-(learner.tensor(weight) * logits.float().log_softmax(-1)).sum()).backward()


def take(rollouts: Rollouts, keep: NDArray[np.bool_]) -> Rollouts:
    """The rollouts of some of the prompts."""
    if keep.all():
        return rollouts
    prompts, kept = keep.cumsum() - 1, keep[rollouts.owner]
    number = kept.cumsum() - 1
    rows = np.repeat(keep, len(rollouts.nodes) // len(keep))
    return Rollouts(
        rollouts.prompts[keep], rollouts.tokens[kept], prompts[rollouts.owner[kept]],
        number[rollouts.parent[kept]], rollouts.depth[kept], number[rollouts.nodes[rows]],
        rollouts.answers[rows], rollouts.logp[rows], rollouts.counted[rows],
    )  # fmt: skip
