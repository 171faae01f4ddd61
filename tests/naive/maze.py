"""Mazes and the window policy in plain Python: the obvious twin of the compiled loops.

Generators take the uniforms in the same order as the kernels, so the same Generator gives the same
maze.
"""

from __future__ import annotations

import numpy as np

STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1)]  # up, down, left, right


def below(rng, n):
    return int(rng.random() * n)


def blank(side):
    maze = np.ones((2 * side + 1, 2 * side + 1), np.int8)
    return maze


def open_between(maze, a, b):
    for row, column in (a, b):
        maze[2 * row + 1, 2 * column + 1] = 0
    maze[a[0] + b[0] + 1, a[1] + b[1] + 1] = 0


def inside(cell, side):
    return 0 <= cell[0] < side and 0 <= cell[1] < side


def neighbours(cell, side):
    around = [(cell[0] + dr, cell[1] + dc) for dr, dc in STEPS]
    return [other for other in around if inside(other, side)]


def prim(size, rng):
    side = (size - 1) // 2
    maze = blank(side)
    carved, frontier, cell = {(0, 0)}, [], (0, 0)
    seen = {cell}
    maze[1, 1] = 0
    while True:
        for other in neighbours(cell, side):
            if other not in seen:
                seen.add(other)
                frontier.append(other)
        if not frontier:
            return maze
        pick = below(rng, len(frontier))
        cell = frontier[pick]
        frontier[pick] = frontier[-1]
        frontier.pop()
        choices = [other for other in neighbours(cell, side) if other in carved]
        open_between(maze, cell, choices[below(rng, len(choices))])
        carved.add(cell)


def kruskal(size, rng):
    side = (size - 1) // 2
    maze = blank(side)
    trees = {(r, c): {(r, c)} for r in range(side) for c in range(side)}
    walls = []
    for cell in trees:
        maze[2 * cell[0] + 1, 2 * cell[1] + 1] = 0
        for other in ((cell[0], cell[1] + 1), (cell[0] + 1, cell[1])):
            if inside(other, side):
                walls.append((cell, other))
    while len(trees[0, 0]) < side * side:
        pick = below(rng, len(walls))
        a, b = walls[pick]
        walls[pick] = walls[-1]
        walls.pop()
        if trees[a] is not trees[b]:
            union = trees[a] | trees[b]
            for cell in union:
                trees[cell] = union
            open_between(maze, a, b)
    return maze


def wilson(size, rng):
    side = (size - 1) // 2
    maze = blank(side)
    tree = {(0, 0)}
    maze[1, 1] = 0
    for first in [(r, c) for r in range(side) for c in range(side)][1:]:
        leaves_to, cell = {}, first
        while cell not in tree:
            dr, dc = STEPS[below(rng, 4)]
            other = (cell[0] + dr, cell[1] + dc)
            if inside(other, side):
                leaves_to[cell] = other
                cell = other
        cell = first
        while cell not in tree:
            open_between(maze, cell, leaves_to[cell])
            tree.add(cell)
            cell = leaves_to[cell]
    return maze


GENERATORS = {"prim": prim, "kruskal": kruskal, "wilson": wilson}


def graph(maze):
    """The maze as a networkx graph of its open squares."""
    import networkx as nx

    squares = nx.Graph()
    squares.add_nodes_from(zip(*np.nonzero(maze == 0), strict=True))
    for row, column in list(squares):
        for dr, dc in ((1, 0), (0, 1)):
            if maze[row + dr, column + dc] == 0:
                squares.add_edge((row, column), (row + dr, column + dc))
    return squares


def walk(moves, start=(1, 1)):
    """Squares visited, the start included."""
    path = [start]
    for move in moves:
        dr, dc = STEPS[move]
        path.append((path[-1][0] + dr, path[-1][1] + dc))
    return path


def features(maze, square, previous, window):
    """The window policy's input as a 0/1 vector."""
    size, reach = len(maze), window // 2
    framed = np.pad(maze, reach, constant_values=1)
    view = framed[square[0] : square[0] + window, square[1] : square[1] + window]
    return np.concatenate(
        [1 - view.ravel(), np.eye(5)[previous], np.eye(size)[square[0]], np.eye(size)[square[1]]]
    )


def policy_log_probs(layers, x):
    """Log-probabilities of the four moves."""
    w1, b1, w2, b2 = layers
    z = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    return z - np.log(np.exp(z - z.max()).sum()) - z.max()


def path_log_prob(layers, maze, moves, window):
    total, previous = 0.0, 4
    for square, move in zip(walk(moves), moves, strict=False):
        total += policy_log_probs(layers, features(maze, square, previous, window))[move]
        previous = move
    return total


def reach_probability(maze, max_moves):
    """Chance that the uniformly random policy, stopped at a wall, is at the goal in time."""
    goal = (len(maze) - 2, len(maze) - 2)
    mass, reached = {(1, 1): 1.0}, 0.0
    for _ in range(max_moves):
        after = {}
        for (row, column), p in mass.items():
            for dr, dc in STEPS:
                square = (row + dr, column + dc)
                if square == goal:
                    reached += p / 4
                elif maze[square] == 0:
                    after[square] = after.get(square, 0.0) + p / 4
        mass = after
    return reached
