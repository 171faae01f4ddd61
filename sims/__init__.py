"""Simulators that count: they show what happens, and they check the closed forms."""

from .categorical import CategoricalConfig, CategoricalRun, simulate_categorical
from .tokens import TokenConfig, TokenRun, simulate_tokens

__all__ = [
    "CategoricalConfig",
    "CategoricalRun",
    "TokenConfig",
    "TokenRun",
    "simulate_categorical",
    "simulate_tokens",
]
