"""A causal transformer on trees of tokens.

Its architecture is Qwen2's: RMSNorm, rotary positions, grouped-query attention with biases, SwiGLU,
tied embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ._maze_config import MazeConfig, TransformerPolicy, base_stream
from .maze_encoding import Encoding

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
        turned = turned * turn[0] + turned.roll(self.dim // 2, -1) * turn[1]
        q, k = turned.split((self.heads, self.kv_heads), 1)
        if layer < len(cache):
            k, v = (torch.cat(pair, 2) for pair in zip(cache[layer], (k, v), strict=True))
        cache[layer : layer + 1] = [(k, v)]
        seen = functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=mask is None, enable_gqa=self.kv_heads < self.heads
        )
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
        cos, sin = angles.cos(), angles.sin()
        self.register_buffer("cos", torch.cat((cos, cos), 1), persistent=False)
        self.register_buffer("sin", torch.cat((-sin, sin), 1), persistent=False)

    def forward(
        self, tokens: Tensor, place: Tensor, mask: Tensor | None, cache: Cache, last: int
    ) -> Tensor:
        """Logits (P, last, vocabulary) after the last of the tokens (P, m).

        `place` (m,) or (P, m) is a token's distance from the beginning. `mask` (P, m, seen) says
        which tokens it attends to, first those in the cache; None is causal, without a cache.
        """
        x = self.embed(tokens)
        turn = tuple(part[place].unsqueeze(-3) for part in (self.cos, self.sin))
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

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.embed.weight.device

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """An array on the model's device."""
        return torch.from_numpy(array).to(self.device)


def new_learner(config: MazeConfig) -> Learner:
    """Normal weights and zero biases from the base's stream, on the accelerator if there is one."""
    policy: TransformerPolicy = config.policy  # type: ignore[assignment]
    encoding = Encoding(policy.encoding, config.size)
    with torch.random.fork_rng(devices=[]):
        length = encoding.prompt_length + encoding.limit
        model = Transformer(policy, encoding.vocabulary, length)
    rng = base_stream(config, 2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                scale = weight.shape[1] ** -0.5
                weight.copy_(torch.from_numpy(rng.normal(scale=scale, size=weight.shape)))
            elif name.endswith("bias"):
                weight.zero_()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return Learner(model, encoding, optimiser(model, config.warm_start_learning_rate, config))


def optimiser(model: nn.Module, learning_rate: float, config: MazeConfig) -> torch.optim.Optimizer:
    """AdamW with zero moments; gradients are kept at zero, so that it moves on without a signal."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=config.weight_decay, fused=True
    )
