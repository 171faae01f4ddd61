"""A causal transformer on trees of tokens.

Its architecture is Qwen2's: RMSNorm, rotary positions, grouped-query attention with biases, SwiGLU,
tied embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ._maze_config import MazeConfig, TransformerPolicy, base_stream
from .maze_encoding import Encoding

# From a layer's number and its queries (…, m, heads, dim), keys and values: what the queries saw.
Attention = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def attention(mask: Tensor | None = None) -> Attention:
    """Over the keys given: `mask` (P, m, m) says which a query sees.

    Without one it sees those up to its own place, or all of them if it is the only query.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (part.transpose(-3, -2) for part in (q, k, v))
        seen = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            bias,
            is_causal=bias is None and q.shape[-2] > 1,
            enable_gqa=k.shape[-3] < q.shape[-3],
        )
        return seen.transpose(-3, -2)

    bias = None
    if mask is not None:
        bias = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, -torch.inf)[:, None]
    return attend


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
        self, x: Tensor, turn: tuple[Tensor, Tensor], attend: Attention, layer: int
    ) -> Tensor:
        """Outputs (…, m, width)."""
        heads = self.qkv(self.before(x)).unflatten(-1, (-1, self.dim))
        turned, v = heads.split((self.heads + self.kv_heads, self.kv_heads), -2)
        turned = turned * turn[0] + turned.roll(self.dim // 2, -1) * turn[1]
        q, k = turned.split((self.heads, self.kv_heads), -2)
        x = x + self.out(attend(layer, q, k, v).flatten(-2))
        gate, up = self.gate_up(self.between(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Transformer(nn.Module):
    """Logits of the next token after each node of a tree of tokens.

    ``memory`` is how many numbers the key and the value of a token are in one layer.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, policy: TransformerPolicy, vocabulary: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, policy.width)
        self.blocks = nn.ModuleList(Block(policy) for _ in range(policy.layers))
        self.norm = nn.RMSNorm(policy.width, eps=1e-6)
        dim = policy.width // policy.heads
        self.memory = 2 * policy.key_value_heads * dim
        rates = policy.rope_theta ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.arange(length)[:, None] * rates
        cos, sin = angles.cos(), angles.sin()
        self.register_buffer("cos", torch.cat((cos, cos), 1), persistent=False)
        self.register_buffer("sin", torch.cat((-sin, sin), 1), persistent=False)

    def forward(self, tokens: Tensor, place: Tensor, attend: Attention, last: int = 0) -> Tensor:
        """Logits after the tokens (…, m), or after the last ones only: (…, last, vocabulary).

        `place`, broadcast against the tokens, is a token's distance from the beginning.
        """
        x = self.embed(tokens)
        turn = self.cos[place].unsqueeze(-2), self.sin[place].unsqueeze(-2)
        for layer, block in enumerate(self.blocks):
            x = block(x, turn, attend, layer)
        return self.norm(x[..., -last:, :]) @ self.embed.weight.T


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
                scale = policy.init_scale * weight.shape[1] ** -0.5
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
