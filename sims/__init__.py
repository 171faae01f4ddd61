"""Simulators that count: they show what happens, and they check the closed forms."""

from .categorical import CategoricalConfig, CategoricalRun, simulate_categorical
from .maze import (
    PAPER,
    SMALL_TRANSFORMER,
    MazeConfig,
    MazeRun,
    TransformerPolicy,
    WindowPolicy,
    generate_mazes,
    simulate_maze,
    solve_mazes,
)
from .tokens import TokenConfig, TokenRun, simulate_tokens

__all__ = [
    "PAPER",
    "SMALL_TRANSFORMER",
    "CategoricalConfig",
    "CategoricalRun",
    "MazeConfig",
    "MazeRun",
    "TokenConfig",
    "TokenRun",
    "TransformerPolicy",
    "WindowPolicy",
    "generate_mazes",
    "simulate_categorical",
    "simulate_maze",
    "simulate_tokens",
    "solve_mazes",
]
