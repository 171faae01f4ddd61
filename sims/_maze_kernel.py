"""Mazes: generators, the solver and random walks, as plain loops over int8 squares.

A maze is a square of odd side: 1 is wall, 0 is open, cells sit on odd rows and columns, and two
neighbouring cells are joined by opening the square between them. Every generator opens a spanning
tree of the cells, so between any two cells there is exactly one simple path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# up, down, left, right
ROW_STEP = np.array([-1, 1, 0, 0])
COLUMN_STEP = np.array([0, 0, -1, 1])
OUTSIDE, WAITING, TREE, BORDER = 0, 1, 2, 3  # what a cell is to a growing tree


@njit(nogil=True, cache=True)
def _below(rng: Any, n: int) -> int:
    """A uniform whole number below n; the bias is below n / 2**53."""
    return int(rng.random() * n)


@njit(nogil=True, cache=True, error_model="numpy")
def prim(maze: Any, rng: Any) -> None:
    """Grow from the start: a random frontier cell is joined to a random neighbour in the tree."""
    side = (maze.shape[0] - 1) // 2
    width = side + 2  # of the cells with a border, so that every cell has four neighbours
    steps = (-width, width, -1, 1)
    state = np.full(width * width, BORDER, np.uint8)
    for row in range(1, side + 1):
        state[row * width + 1 : row * width + 1 + side] = OUTSIDE
    frontier, around = np.empty(side * side, np.int32), np.empty(4, np.int32)
    maze[:] = 1
    maze[1, 1] = 0
    held, cell = 0, width + 1
    while True:
        state[cell] = TREE
        for step in steps:
            if state[cell + step] == OUTSIDE:
                state[cell + step] = WAITING
                frontier[held] = cell + step
                held += 1
        if held == 0:
            return
        pick = _below(rng, held)
        cell = frontier[pick]
        held -= 1
        frontier[pick] = frontier[held]
        choices = 0
        for move in range(4):
            around[choices] = move
            choices += state[cell + steps[move]] == TREE
        move = around[_below(rng, choices)]
        row = cell // width
        r, c = 2 * row - 1, 2 * (cell - row * width) - 1
        maze[r, c] = 0
        maze[r + ROW_STEP[move], c + COLUMN_STEP[move]] = 0


@njit(nogil=True, cache=True)
def kruskal(maze: Any, rng: Any) -> None:
    """Open the walls between cells in random order, each unless it would close a loop."""
    side = (maze.shape[0] - 1) // 2
    maze[:] = 1
    parent = np.arange(side * side)
    walls = np.empty(2 * side * (side - 1), np.int32)
    n = 0
    for row in range(side):
        for column in range(side):
            maze[2 * row + 1, 2 * column + 1] = 0
            if column + 1 < side:
                walls[n] = 2 * (row * side + column)
                n += 1
            if row + 1 < side:
                walls[n] = 2 * (row * side + column) + 1
                n += 1
    joined = 1
    while joined < side * side:
        pick = _below(rng, n)
        wall = walls[pick]
        n -= 1
        walls[pick] = walls[n]
        a, down = wall // 2, wall % 2
        b = a + side if down else a + 1
        root_a, root_b = _root(parent, a), _root(parent, b)
        if root_a != root_b:
            parent[root_a] = root_b
            joined += 1
            maze[2 * (a // side) + 1 + down, 2 * (a % side) + 2 - down] = 0


@njit(nogil=True, cache=True)
def _root(parent: Any, cell: int) -> int:
    while parent[cell] != cell:
        parent[cell] = parent[parent[cell]]
        cell = parent[cell]
    return cell


@njit(nogil=True, cache=True)
def wilson(maze: Any, rng: Any) -> None:
    """Uniform spanning tree: random walks from each cell to the tree, their loops erased."""
    side = (maze.shape[0] - 1) // 2
    maze[:] = 1
    maze[1, 1] = 0
    leaves_by = np.zeros(side * side, np.int8)
    for first in range(1, side * side):
        cell = first
        while maze[2 * (cell // side) + 1, 2 * (cell % side) + 1] == 1:
            move = _below(rng, 4)
            r, c = cell // side + ROW_STEP[move], cell % side + COLUMN_STEP[move]
            if 0 <= r < side and 0 <= c < side:
                leaves_by[cell] = move
                cell = r * side + c
        cell = first
        while maze[2 * (cell // side) + 1, 2 * (cell % side) + 1] == 1:
            row, column, move = cell // side, cell % side, leaves_by[cell]
            r, c = row + ROW_STEP[move], column + COLUMN_STEP[move]
            maze[2 * row + 1, 2 * column + 1] = 0
            maze[row + r + 1, column + c + 1] = 0
            cell = r * side + c


@njit(nogil=True, cache=True)
def carve(maze: Any, algorithm: int, rng: Any) -> None:
    """One fresh maze; 0 Prim, 1 Kruskal, 2 Wilson."""
    if algorithm == 0:
        prim(maze, rng)
    elif algorithm == 1:
        kruskal(maze, rng)
    else:
        wilson(maze, rng)


@njit(nogil=True, cache=True)
def carve_all(mazes: Any, algorithm: int, rng: Any) -> None:
    """Fill an array of mazes, first to last."""
    for i in range(mazes.shape[0]):
        carve(mazes[i], algorithm, rng)


@njit(nogil=True, cache=True)
def solve(maze: Any, moves: Any, queue: Any, toward: Any) -> int:
    """Shortest path from start to goal by breadth-first search from the goal; -1 if there is none.

    `toward[row, column]` becomes the move that leads to the goal, -1 where none is known.
    """
    last = maze.shape[0] - 2
    toward[:] = -1
    if maze[1, 1] or maze[last, last]:
        return -1
    queue[0] = last * maze.shape[0] + last
    toward[last, last] = 4
    done, found = 0, 1
    while done < found and toward[1, 1] < 0:
        row, column = queue[done] // maze.shape[0], queue[done] % maze.shape[0]
        done += 1
        for move in range(4):
            r, c = row - ROW_STEP[move], column - COLUMN_STEP[move]
            if 0 <= r <= last + 1 and 0 <= c <= last + 1 and maze[r, c] == 0 and toward[r, c] < 0:
                toward[r, c] = move
                queue[found] = r * maze.shape[0] + c
                found += 1
    if toward[1, 1] < 0:
        return -1
    row, column, length = 1, 1, 0
    while row != last or column != last:
        move = toward[row, column]
        moves[length] = move
        length += 1
        row, column = row + ROW_STEP[move], column + COLUMN_STEP[move]
    return length


@njit(nogil=True, cache=True)
def solve_all(mazes: Any, moves: Any, lengths: Any) -> None:
    """Paths of all mazes into `moves` (left as they are past each length)."""
    squares = mazes.shape[1] * mazes.shape[2]
    queue = np.empty(squares, np.int32)
    toward = np.empty(mazes.shape[1:], np.int8)
    for i in range(mazes.shape[0]):
        lengths[i] = solve(mazes[i], moves[i], queue, toward)


@njit(nogil=True, cache=True)
def random_walks(mazes: Any, rollouts: int, max_moves: int, reached: Any, rng: Any) -> int:
    """Rollouts of the uniformly random policy from the start of every maze; moves made in all.

    A rollout ends at a wall, at the goal, or after max_moves; `reached[i]` counts those that
    reached the goal of maze i.
    """
    last = mazes.shape[1] - 2
    made = 0
    for i in range(mazes.shape[0]):
        maze = mazes[i]
        for _ in range(rollouts):
            row, column, n = 1, 1, 0
            while n < max_moves:
                move = _below(rng, 4)
                n += 1
                row, column = row + ROW_STEP[move], column + COLUMN_STEP[move]
                if maze[row, column]:
                    break
                if row == last and column == last:
                    reached[i] += 1
                    break
            made += n
    return made
