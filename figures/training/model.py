"""A small Qwen2 with a character tokenizer, and its supervised start."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import task

CHARACTERS = "0123456789+-*=:"
PAD, EOS = len(CHARACTERS), len(CHARACTERS) + 1
SIZES: dict[str, dict[str, Any]] = {
    "84k": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    "1M": {"hidden_size": 160, "intermediate_size": 400, "num_hidden_layers": 4},
}

SUPERVISED: dict[str, dict[str, Any]] = {
    "84k": {"steps": 1300, "learning_rate": 5e-3},
    "1M": {"steps": 800, "learning_rate": 3e-3},
}
"""Of the supervised start: a quarter of the answers are right then, at 1M a sixth to a quarter."""


def tokenizer() -> Any:
    """Characters as tokens, in the class that trainers expect."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {c: i for i, c in enumerate([*CHARACTERS, "<pad>", "<eos>"])}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    fast.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    fast.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def new_model(size: str = "84k", *, seed: int) -> Any:
    """A Qwen2 with random weights, about 84 thousand or 1 million parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(CHARACTERS) + 2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS,
        pad_token_id=PAD,
        **SIZES[size],
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def encode(pairs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Token rows of prompt + answer + EOS, padded on the right, and which tokens are the answer's.

    Attention is causal, so padding on the right changes nothing before it and needs no mask.
    """
    rows = np.full((len(pairs), max(len(p) + len(a) for p, a in pairs) + 1), PAD, np.int64)
    scored = np.zeros(rows.shape, bool)
    for i, (prompt, answer) in enumerate(pairs):
        end = len(prompt) + len(answer) + 1
        rows[i, :end] = [*map(CHARACTERS.index, prompt + answer), EOS]
        scored[i, len(prompt) : end] = True
    return rows, scored


def supervise(
    model: Any,
    *,
    rng: np.random.Generator,
    steps: int = 1300,
    batch: int = 64,
    learning_rate: float = 5e-3,
) -> None:
    """Train on the skewed corpus."""
    pairs, weights = task.corpus()
    rows, scored = encode(pairs)
    labels = np.where(scored, rows, -100)
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    cumulative = np.cumsum(weights) / weights.sum()
    model.train()
    for step in range(steps):
        drawn = np.minimum(cumulative.searchsorted(rng.random(batch)), len(rows) - 1)
        width = int(scored[drawn].any(axis=0).nonzero()[0].max()) + 1
        tokens, targets = (torch.from_numpy(x[drawn, :width]) for x in (rows, labels))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1, (step + 1) / 100, (1 - step / steps) / 0.8)
        loss = torch.nn.functional.cross_entropy(
            model(input_ids=tokens).logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def base_model(size: str, seed: int, store: Path | None = None) -> Any:
    """The supervised start of a seed; trained once and kept in `store`."""
    from transformers import Qwen2ForCausalLM

    folder = store / f"base-{size}-{seed}" if store else None
    if folder and (folder / "config.json").exists():
        return Qwen2ForCausalLM.from_pretrained(folder)
    model = new_model(size, seed=seed)
    supervise(model, rng=np.random.default_rng([seed, 1]), **SUPERVISED[size])
    if folder:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix="partial-"))
        model.save_pretrained(partial)
        try:
            partial.rename(folder)
        except OSError:  # another process has kept the same start meanwhile
            shutil.rmtree(partial)
        model = Qwen2ForCausalLM.from_pretrained(folder)
    return model
