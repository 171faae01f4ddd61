"""The transformer policy of `simulate_maze`: reads the maze, writes moves and DONE. Needs torch.

The architecture is Qwen2's: RMSNorm, rotary positions, grouped-query attention with biases, SwiGLU,
tied embeddings. A group's rollouts share their prompt and often their first moves, so together they
are a tree whose trunk is the prompt: every distinct beginning is one node, evaluated once, that
attends to its ancestors. The policy gradient sum_i c_i grad log pi(o_i) is gathered as coefficients
per node and token before one backward pass over the trees that have any.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tailmiss.torch import advantages, focal_weights, response_weights

from .maze import MazeConfig, TransformerPolicy, base_stream, generate_mazes, held_out, solve_mazes
from .maze_encoding import Encoding

LOOK_EVERY = 5
INITIAL_SCALE = 0.5
NODES_AT_ONCE = 1 << 16
SHRINK = 0.8  # drop prompts whose rollouts have all ended when fewer than this share remain
Cache = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    """Attention, then a gated feed-forward layer, each added to its input."""

    def __init__(self, policy: TransformerPolicy) -> None:
        super().__init__()
        self.heads, self.kv_heads = policy.heads, policy.key_value_heads
        self.dim = policy.width // policy.heads
        self.before = nn.RMSNorm(policy.width, eps=1e-6)
        self.qkv = nn.Linear(policy.width, (self.heads + 2 * self.kv_heads) * self.dim)
        self.out = nn.Linear(policy.width, policy.width, bias=False)
        self.between = nn.RMSNorm(policy.width, eps=1e-6)
        self.gate_up = nn.Linear(policy.width, 2 * policy.feed_forward, bias=False)
        self.down = nn.Linear(policy.feed_forward, policy.width, bias=False)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: Cache, layer: int
    ) -> Tensor:
        """Outputs (P, m, width); the layer's keys and values join its entry of the cache."""
        heads = self.qkv(self.before(x)).unflatten(-1, (-1, self.dim)).transpose(1, 2)
        turned, v = heads.split((self.heads + self.kv_heads, self.kv_heads), 1)
        a, b = turned.chunk(2, -1)
        cos, sin = turn
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        q, k = turned.split((self.heads, self.kv_heads), 1)
        if layer < len(cache):
            k, v = (torch.cat(pair, 2) for pair in zip(cache[layer], (k, v), strict=True))
        cache[layer : layer + 1] = [(k, v)]
        seen = functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=mask is None, enable_gqa=self.kv_heads < self.heads
        )  # fmt: skip
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        gate, up = self.gate_up(self.between(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Transformer(nn.Module):
    """Logits of the next token after each node of a tree of tokens."""

    def __init__(self, policy: TransformerPolicy, vocabulary: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, policy.width)
        self.blocks = nn.ModuleList(Block(policy) for _ in range(policy.layers))
        self.norm = nn.RMSNorm(policy.width, eps=1e-6)
        dim = policy.width // policy.heads
        rates = policy.rope_theta ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.arange(length)[:, None] * rates
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(
        self, tokens: Tensor, place: Tensor, mask: Tensor | None, cache: Cache, last: int
    ) -> Tensor:
        """Logits (P, last, vocabulary) after the last of the tokens (P, m).

        `place` (m,) or (P, m) is a token's distance from the beginning. `mask` (P, m, seen) says
        which tokens it attends to, first those in the cache; None is causal, without a cache.
        """
        x = self.embed(tokens)
        turn = tuple(part[place].unsqueeze(-3) for part in (self.cos, self.sin))  # type: ignore[index]
        if mask is not None:
            mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill_(~mask, -torch.inf)[:, None]
        for layer, block in enumerate(self.blocks):
            x = block(x, turn, mask, cache, layer)
        return self.norm(x[:, x.shape[1] - last :]) @ self.embed.weight.T


@dataclass
class Learner:
    """The model, how mazes become tokens, and the optimiser."""

    model: Transformer
    encoding: Encoding
    optimiser: torch.optim.Optimizer

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """On the model's device."""
        return torch.from_numpy(array).to(self.model.embed.weight.device)


def new_learner(config: MazeConfig) -> Learner:
    """Normal weights and zero biases from the base's own stream, on the accelerator if there is one."""
    policy: TransformerPolicy = config.policy  # type: ignore[assignment]
    encoding = Encoding(policy.encoding, config.size)
    with torch.random.fork_rng(devices=[]):
        length = encoding.prompt_length + encoding.limit
        model = Transformer(policy, encoding.vocabulary, length)
    rng = base_stream(config, 2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                scale = INITIAL_SCALE * weight.shape[1] ** -0.5
                weight.copy_(torch.from_numpy(rng.normal(scale=scale, size=weight.shape)))
            elif name.endswith("bias"):
                weight.zero_()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return Learner(model, encoding, optimiser(model, config.warm_start_learning_rate, config))


def optimiser(model: nn.Module, learning_rate: float, config: MazeConfig) -> torch.optim.Optimizer:
    """AdamW with zero moments."""
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=config.weight_decay, fused=True
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread on the host: small models are faster so, and sums do not depend on the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def warm_start(config: MazeConfig) -> tuple[Learner, int]:
    """A fresh learner at the base of the config, and the supervised steps it took."""
    names = (
        "policy", "size", "algorithm", "weight_decay", "clip_norm", "warm_start_pass_at_1",
        "warm_start_steps", "warm_start_prompts", "warm_start_learning_rate", "validation_mazes",
        "base_seed",
    )  # fmt: skip
    weights, steps = _base(tuple((name, getattr(config, name)) for name in names))
    learner = new_learner(config)
    learner.model.load_state_dict(weights)
    learner.optimiser = optimiser(learner.model, config.scaled_learning_rate, config)
    return learner, steps


@functools.lru_cache(maxsize=8)
def _base(fields: tuple[tuple[str, Any], ...]) -> tuple[dict[str, Tensor], int]:
    config = MazeConfig(**dict(fields))
    learner, done = new_learner(config), 0
    validation, rng = held_out(config, "validation"), base_stream(config, 3)
    while done < config.warm_start_steps:
        if done % LOOK_EVERY == 0 and config.warm_start_pass_at_1 < 1:
            passed = np.exp(target_log_probs(config, learner, *validation)).mean()
            if passed >= config.warm_start_pass_at_1:
                break
        mazes = generate_mazes(
            config.warm_start_prompts, config.size, rng=rng, algorithm=config.algorithm
        )
        logp, lengths = answer_log_probs(learner, mazes, *solve_mazes(mazes))
        (-logp.sum() / int(lengths.sum())).backward()
        descend(learner, config)
        done += 1
    return learner.model.state_dict(), done


def descend(learner: Learner, config: MazeConfig) -> None:
    """One AdamW step along the gradient that was gathered."""
    if config.clip_norm > 0:
        nn.utils.clip_grad_norm_(learner.model.parameters(), config.clip_norm)
    learner.optimiser.step()
    learner.optimiser.zero_grad()


def answer_log_probs(
    learner: Learner, mazes: NDArray[Any], moves: NDArray[Any], lengths: NDArray[Any]
) -> tuple[Tensor, NDArray[Any]]:
    """Log-probability (n,) of every target answer, DONE included, and its number of tokens."""
    answers, n = learner.encoding.answers(moves, lengths)
    begin = np.full((len(mazes), 1), learner.encoding.start)
    text = np.hstack((learner.encoding.prompts(mazes), begin, answers[:, :-1]))
    place = learner.tensor(np.arange(text.shape[1]))
    logits = learner.model(learner.tensor(text), place, None, [], answers.shape[1])
    loss = functional.cross_entropy(
        logits.flatten(0, 1), learner.tensor(answers.ravel()), reduction="none"
    )
    counted = learner.tensor(np.arange(answers.shape[1]) < n[:, None])
    return -(loss.view(counted.shape) * counted).sum(1), n


@one_thread()
@torch.no_grad()
def target_log_probs(
    config: MazeConfig, learner: Learner, mazes: Any, moves: Any, lengths: Any
) -> NDArray[Any]:
    """Exact log-probability of every target answer, DONE included."""
    parts = [
        answer_log_probs(learner, mazes[i : i + 64], moves[i : i + 64], lengths[i : i + 64])[0]
        for i in range(0, len(mazes), 64)
    ]
    return torch.cat(parts).double().cpu().numpy()


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


@torch.no_grad()
def sample(
    learner: Learner, prompts: NDArray[Any], group_size: int, rng: np.random.Generator
) -> Rollouts:
    """A group of rollouts per prompt, token by token, each new node evaluated once.

    Keys and values of the prompts and of all earlier nodes are kept; tokens are drawn by inverse
    CDF.
    """
    model, encoding = learner.model, learner.encoding
    P, L = prompts.shape
    row = np.repeat(np.arange(P), group_size)
    shape = (len(row), encoding.limit)
    nodes, answers = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    logp, counted = np.zeros(shape, np.float32), np.zeros(shape, bool)
    cache: Cache = []
    model(learner.tensor(prompts), torch.arange(L, device=model.cos.device), None, cache, 1)
    level = np.full((P, 1), encoding.start)
    used, depth, ancestors = np.ones((P, 1), bool), np.zeros((P, 1), np.int64), np.ones((P, 1, 1), bool)
    tokens, first, alive = level, 0, np.arange(len(row))
    slot = np.zeros(len(row), np.int64)
    present, place_of = np.arange(P), np.arange(P)
    for t in range(encoding.limit):
        mask = np.ones((len(present), level.shape[1], L + tokens.shape[1]), bool)
        mask[..., L:] = ancestors[present, first:]
        place = torch.full((1,), L + t, device=model.cos.device)
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


def judge(
    config: MazeConfig, encoding: Encoding, mazes: NDArray[Any], moves: NDArray[Any],
    lengths: NDArray[Any], answers: NDArray[Any],
) -> NDArray[np.bool_]:  # fmt: skip
    """Which rollouts, of answers (P, N, T), are correct: (P, N)."""
    if config.success == "goal":
        return encoding.reach_goal(mazes, answers)
    target, n = encoding.answers(moves, lengths)
    width = max(target.shape[-1], answers.shape[-1])
    target, answers = (
        np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, width - part.shape[-1])])
        for part in (target, answers)
    )
    beyond = np.arange(width) >= n[:, None]
    return np.asarray(((answers == target[:, None]) | beyond[:, None]).all(-1))


@one_thread()
def advance(
    config: MazeConfig, learner: Learner, steps: int, rng: np.random.Generator
) -> NDArray[Any]:
    """More updates; rollouts, correct ones, groups, mixed ones, their weights, correct detours."""
    counts = np.zeros(6)
    for _ in range(steps):
        chunks = draw(config, learner, rng, counts)
        success = torch.from_numpy(np.concatenate([correct for _, correct in chunks])).float()
        c = credit(config, success, counts)
        sizes = [correct.size for _, correct in chunks]
        scale = 1 / sum(int(rollouts.counted.sum()) for rollouts, _ in chunks)
        for (rollouts, _), part in zip(chunks, c.flatten().split(sizes), strict=True):
            if config.response_weight:
                old, mask = torch.from_numpy(rollouts.logp), torch.from_numpy(rollouts.counted)
                N = config.group_size
                part = part * N * response_weights(old, mask, N, cap=config.weight_cap)
            gather_gradient(learner, rollouts, part.numpy(), scale)
        descend(learner, config)
    return counts


def credit(config: MazeConfig, success: Tensor, counts: NDArray[Any]) -> Tensor:
    """Weighted advantages (groups, N) of the rollouts."""
    N = config.group_size
    ids = torch.arange(len(success))[:, None].expand_as(success).flatten()
    advantage = advantages(config.rule, success.flatten(), ids, **config.rule_options)
    gamma = 0.0 if config.weighting == "learning_rate" else config.gamma
    weight = focal_weights(success.flatten(), ids, gamma).view(-1, N)
    mixed = (success.sum(1) > 0) & (success.sum(1) < N)
    counts[4] += float(weight[mixed, 0].sum())
    if config.weighting == "batch_mean" and mixed.any():
        weight = weight[mixed, 0].mean().expand(weight.shape)
    return advantage.view(-1, N) * weight


def draw(
    config: MazeConfig, learner: Learner, rng: np.random.Generator, counts: NDArray[Any]
) -> list[tuple[Rollouts, NDArray[np.bool_]]]:
    """Rollouts of a batch of fresh mazes and which are correct, in chunks that fit in memory."""
    encoding, N = learner.encoding, config.group_size
    at_once = max(1, NODES_AT_ONCE // (N * encoding.limit + encoding.prompt_length))
    chunks, kept = [], 0
    for batch in range(config.batches):
        mazes = generate_mazes(config.prompts, config.size, rng=rng, algorithm=config.algorithm)
        moves, lengths = solve_mazes(mazes)
        for start in range(0, config.prompts, at_once):
            some = slice(start, start + at_once)
            rollouts = sample(learner, encoding.prompts(mazes[some]), N, rng)
            answers = rollouts.answers.reshape(len(rollouts.prompts), N, -1)
            correct = judge(config, encoding, mazes[some], moves[some], lengths[some], answers)
            hits = correct.sum(1)
            mixed = (hits > 0) & (hits < N)
            counts[:4] += correct.size, hits.sum(), len(hits), mixed.sum()
            counts[5] += hits[lengths[some] > 2 * (config.size - 3)].sum()
            if batch + 1 < config.batches:
                keep = mixed & (mixed.cumsum() <= config.prompts - kept)
            else:
                keep = np.arange(len(hits)) < config.prompts - kept
            kept += int(keep.sum())
            if keep.any():
                chunks.append((take(rollouts, keep), correct[keep]))
        if kept >= config.prompts:
            break
    return chunks


def take(rollouts: Rollouts, keep: NDArray[np.bool_]) -> Rollouts:
    """The rollouts of some of the prompts."""
    if keep.all():
        return rollouts
    rows = np.repeat(keep, len(rollouts.nodes) // len(keep))
    trees = ("prompts", "tokens", "depth", "used", "ancestors")
    return Rollouts(
        **{name: getattr(rollouts, name)[keep] for name in trees},
        **{
            name: getattr(rollouts, name)[rows] for name in ("nodes", "answers", "logp", "counted")
        },
    )
