"""Simulators that count: they show what happens, and they check the closed forms."""

from .tokens import TokenConfig, TokenRun, simulate_tokens

__all__ = ["TokenConfig", "TokenRun", "simulate_tokens"]
