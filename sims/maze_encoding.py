"""Mazes and paths as tokens: the paper's text, and one token a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmiss import _validate as check

from ._maze_kernel import COLUMN_STEP, ROW_STEP

PAPER_VOCABULARY = (
    "<pad>", "<bos>", "<eos>", "<unk>", "GRID_START", "GRID_END", "PATH_START", "DONE", "PATH",
    "WALL", "GOAL", "START", "NEWLINE", "UP", "DOWN", "LEFT", "RIGHT", "\n",
    *(f"RESERVED{i}" for i in range(14)),
)  # fmt: skip


class Encoding:
    """How mazes of one size become prompts and paths become answers.

    Parameters
    ----------
    kind : {"tokens", "cells"}
        "tokens": the 32-token vocabulary of the paper's data, a prompt of 4 + size (size + 1)
        tokens (310 at 17x17) and one move a square. "cells": a token per cell, whose bits say
        which sides are open, and one move a cell.
    size : odd int >= 5
        Side of a maze in squares.

    Attributes
    ----------
    vocabulary, start, done : int
        Number of tokens; the token that ends the prompt and the one that ends an answer.
    moves : int array (4,)
        Tokens of up, down, left, right.
    prompt_length, limit : int
        Tokens of a prompt without `start`; most tokens an answer may have, `done` included.
    stride : int
        Squares a move goes.

    Examples
    --------
    >>> Encoding("tokens", 17).prompt_length + 1
    310
    """

    def __init__(self, kind: str, size: int) -> None:
        check.one_of("kind", kind, ("cells", "tokens"))
        self.kind, self.size = kind, size
        side = (size - 1) // 2
        if kind == "tokens":
            word = PAPER_VOCABULARY.index
            self.vocabulary, self.stride = len(PAPER_VOCABULARY), 1
            self.start, self.done = word("PATH_START"), word("DONE")
            self.moves = np.arange(word("UP"), word("RIGHT") + 1)
            self.prompt_length, self.limit = 3 + size * (size + 1), max(180, 2 * side**2)
        else:
            self.vocabulary, self.stride = 22, 2
            self.start, self.done = 16, 17
            self.moves = np.arange(18, 22)
            self.prompt_length, self.limit = side * side, side * side

    def prompts(self, mazes: NDArray[Any]) -> NDArray[np.int64]:
        """Tokens (n, prompt_length) of mazes (n, size, size), all but `start`."""
        if self.kind == "cells":
            sides = (
                (1 - mazes[:, 1 + dr : self.size - 1 + dr : 2, 1 + dc : self.size - 1 + dc : 2])
                << bit
                for bit, (dr, dc) in enumerate(zip(ROW_STEP, COLUMN_STEP, strict=True))
            )
            return sum(sides).reshape(len(mazes), -1).astype(np.int64)  # type: ignore[union-attr]
        word = PAPER_VOCABULARY.index
        lines = np.full((len(mazes), self.size, self.size + 1), word("NEWLINE"))
        lines[:, :, :-1] = np.where(mazes, word("WALL"), word("PATH"))
        lines[:, 1, 1], lines[:, -2, -3] = word("START"), word("GOAL")
        text = np.empty((len(mazes), self.prompt_length), np.int64)
        text[:, 0], text[:, 1], text[:, -1] = word("<bos>"), word("GRID_START"), word("GRID_END")
        text[:, 2:-1] = lines.reshape(len(mazes), -1)
        return text

    def answers(
        self, moves: NDArray[Any], lengths: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Tokens (n, L), padded with 0, and their numbers (n,), of paths from `solve_mazes`."""
        moves, lengths = moves[:, :: self.stride], lengths // self.stride
        tokens = np.where(moves >= 0, self.moves[moves], 0)
        tokens = np.pad(tokens, ((0, 0), (0, 1)))
        tokens[np.arange(len(tokens)), lengths] = self.done
        return tokens[:, : int(lengths.max(initial=0)) + 1], lengths + 1

    def reach_goal(self, mazes: NDArray[Any], answers: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether answers (n, N, L) lead through open squares to the goal and hold `done`.

        All tokens before `done` must be moves; what follows the goal does not matter.
        """
        n, N, _ = answers.shape
        at = np.ones((2, n, N), np.int64)
        index = np.arange(n)[:, None]
        alive, reached, ended = (np.full((n, N), value) for value in (True, False, False))
        for tokens in np.moveaxis(answers, -1, 0):
            ended |= alive & (tokens == self.done)
            move = tokens - self.moves[0]
            walks = alive & ~ended
            legal = walks & (move >= 0) & (move < 4)
            step = np.where(legal, move, 0)
            clear = ~reached
            for _ in range(self.stride):
                to = at + np.where(legal & clear, [ROW_STEP[step], COLUMN_STEP[step]], 0)
                legal &= reached | (mazes[index, to[0], to[1]] == 0)
                at = np.where(legal, to, at)
            reached |= legal & (at == self.size - 2).all(0)
            alive &= legal | ended
        return reached & ended
