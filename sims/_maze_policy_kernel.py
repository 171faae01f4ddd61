"""The window policy: one hidden layer that sees the maze around it, trained by its own loops.

The policy's input is a set of ones: the open squares in a window, the previous move, the row and
the column. Its parameters are one flat vector, so that AdamW is one loop.

A row of the window is one of 2**window patterns. The sum of the weights of every pattern is made
once per update (`unfold`), so that a state adds `window` + 3 rows instead of one for each open
square; gradients are gathered per pattern and handed back to the squares at the end (`fold`).

A rollout meets few distinct states (a square and the move that led there), and all rollouts of a
group meet the same ones. So each state is evaluated once per group, and the policy gradient
sum_i c_i grad log pi(o_i) is gathered as coefficients per state and move before one backward pass
over the states: the cost hardly depends on the group size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tailmiss.weights import response_weight

from ._maze_kernel import COLUMN_STEP, ROW_STEP

_response_weight = njit(response_weight)
NO_MOVE = 4


@njit(nogil=True, cache=True)
def n_parameters(size: int, window: int, hidden: int) -> int:
    """Length of the parameter vector: input weights, biases, output weights, output biases."""
    return (window * window + 5 + 2 * size) * hidden + hidden + 4 * hidden + 4


@njit(nogil=True, cache=True)
def layers(flat: Any, size: int, window: int, hidden: int) -> Any:
    """Views of the flat vector: (features, hidden), (hidden,), (hidden, 4), (4,)."""
    features = window * window + 5 + 2 * size
    a = features * hidden
    b = a + hidden
    c = b + 4 * hidden
    return (
        flat[:a].reshape((features, hidden)),
        flat[a:b],
        flat[b:c].reshape((hidden, 4)),
        flat[c:],
    )


@njit(nogil=True, cache=True)
def unfolded(model: Any, size: int, window: int) -> Any:
    """The layers with room for the unfolded input layer: the window's patterns, then the rest."""
    table = np.zeros((window * 2**window + 5 + 2 * size, model[1].size))
    return table, model[1], model[2], model[3]


@njit(nogil=True, cache=True)
def unfold(weights: Any, window: int, table: Any) -> None:
    """Sum the input weights of every pattern of open squares in every row of the window."""
    patterns = 2**window
    rest = window * patterns
    for row in range(window):
        base = row * patterns
        for bit in range(window):
            square = row * window + bit
            for below in range(2**bit):
                for h in range(weights.shape[1]):
                    table[base + 2**bit + below, h] = table[base + below, h] + weights[square, h]
    table[rest:] = weights[window * window :]


@njit(nogil=True, cache=True)
def ready(parameters: Any, size: int, window: int, hidden: int) -> Any:
    """The layers as views, and unfolded for use."""
    model = layers(parameters, size, window, hidden)
    weights = unfolded(model, size, window)
    unfold(model[0], window, weights[0])
    return model, weights


@njit(nogil=True, cache=True)
def blank_gradient(size: int, window: int, hidden: int) -> Any:
    """A zero gradient: flat, as layers, and unfolded."""
    flat = np.zeros(n_parameters(size, window, hidden))
    slope = layers(flat, size, window, hidden)
    return flat, slope, unfolded(slope, size, window)


@njit(nogil=True, cache=True)
def fold(table: Any, window: int, gradient: Any) -> None:
    """Hand gradients of patterns back to the squares in them, adding; the table becomes zero."""
    patterns = 2**window
    rest = window * patterns
    for row in range(window):
        base = row * patterns
        for bit in range(window - 1, -1, -1):
            square = row * window + bit
            for below in range(2**bit):
                for h in range(table.shape[1]):
                    g = table[base + 2**bit + below, h]
                    gradient[square, h] += g
                    table[base + below, h] += g
    gradient[window * window :] += table[rest:]
    table[:] = 0


class Work(NamedTuple):
    """Scratch arrays of one group: states met, what the policy does there, and the rollouts."""

    slot_of: Any  # row, column, previous move -> slot
    place: Any  # slot -> row, column, previous move
    inputs: Any  # slot -> rows of the unfolded input layer
    hidden: Any  # slot -> hidden layer
    logp: Any  # slot -> log-probabilities of the moves
    probs: Any  # slot -> probabilities
    coefficient: Any  # slot -> coefficient of grad log pi(move | state)
    slots: Any  # rollout -> slots
    moves: Any  # rollout -> moves
    lengths: Any  # rollout -> length
    correct: Any  # rollout -> correct
    bits: Any  # row of the maze, framed by wall -> open squares


@njit(nogil=True, cache=True)
def workspace(size: int, window: int, hidden: int, group_size: int) -> Work:
    """Room for a group."""
    squares = ((size - 1) // 2) ** 2 * 2 - 1
    states = squares * 5
    return Work(
        np.full((size, size, 5), -1, np.int32),
        np.empty((states, 3), np.int16),
        np.empty((states, window + 3), np.int32),
        np.empty((states, hidden)),
        np.empty((states, 4)),
        np.empty((states, 4)),
        np.zeros((states, 4)),
        np.empty((group_size, squares), np.int32),
        np.empty((group_size, squares), np.int8),
        np.empty(group_size, np.int32),
        np.zeros(group_size, np.bool_),
        np.zeros(size + window - 1, np.int64),
    )


@njit(nogil=True, cache=True)
def look(maze: Any, bits: Any) -> None:
    """Write the open squares of a maze as bits, one number a row."""
    reach = (bits.size - maze.shape[0]) // 2
    for r in range(maze.shape[0]):
        line = 0
        for c in range(maze.shape[1]):
            line |= (1 - maze[r, c]) << (c + reach)
        bits[r + reach] = line


@njit(nogil=True, cache=True)
def evaluate(
    slot: int, row: int, column: int, previous: int, bits: Any, table: Any, b1: Any, w2: Any,
    b2: Any, inputs: Any, hidden: Any, logp: Any, probs: Any,
) -> None:  # fmt: skip
    """Policy at one state; fills the slot's inputs, hidden layer and probabilities.

    Arrays are arguments of their own, never slices: numba counts references to every slice.
    """
    window = inputs.shape[1] - 3
    size = bits.size - window + 1
    patterns = 2**window
    for i in range(window):
        inputs[slot, i] = i * patterns + ((bits[row + i] >> column) & (patterns - 1))
    rest = window * patterns
    inputs[slot, window] = rest + previous
    inputs[slot, window + 1] = rest + 5 + row
    inputs[slot, window + 2] = rest + 5 + size + column
    width = b1.size
    for h in range(width):
        hidden[slot, h] = b1[h]
    for i in range(window + 3):
        f = inputs[slot, i]
        for h in range(width):
            hidden[slot, h] += table[f, h]
    z0, z1, z2, z3 = b2[0], b2[1], b2[2], b2[3]
    for h in range(width):
        x = max(hidden[slot, h], 0.0)
        hidden[slot, h] = x
        z0 += x * w2[h, 0]
        z1 += x * w2[h, 1]
        z2 += x * w2[h, 2]
        z3 += x * w2[h, 3]
    top = max(z0, z1, z2, z3)
    p0, p1, p2, p3 = np.exp(z0 - top), np.exp(z1 - top), np.exp(z2 - top), np.exp(z3 - top)
    total = p0 + p1 + p2 + p3
    probs[slot, 0], probs[slot, 1] = p0 / total, p1 / total
    probs[slot, 2], probs[slot, 3] = p2 / total, p3 / total
    top += np.log(total)
    logp[slot, 0], logp[slot, 1] = z0 - top, z1 - top
    logp[slot, 2], logp[slot, 3] = z2 - top, z3 - top


@njit(nogil=True, cache=True)
def roll_out(
    maze: Any, target: Any, by_target: bool, group_size: int, weights: Any, work: Work, rng: Any
) -> Any:
    """A group of rollouts; returns the number of correct ones and of slots in use.

    A rollout ends at a wall, at the goal, or when it is longer than any simple path. It is correct
    when it reaches the goal, and if `by_target` only along the target path itself.
    """
    table, b1, w2, b2 = weights
    slot_of, place, inputs, hidden, logp, probs, _, slots, moves, lengths, correct, bits = work
    look(maze, bits)
    last, limit = maze.shape[0] - 2, moves.shape[1]
    used, hits = 0, 0
    for i in range(group_size):
        row, column, previous, n = 1, 1, NO_MOVE, 0
        on_target, reached = True, False
        while n < limit:
            slot = slot_of[row, column, previous]
            if slot < 0:
                slot = used
                used += 1
                slot_of[row, column, previous] = slot
                place[slot, 0], place[slot, 1], place[slot, 2] = row, column, previous
                evaluate(
                    slot, row, column, previous, bits, table, b1, w2, b2, inputs, hidden, logp,
                    probs,
                )  # fmt: skip
            u = rng.random() - probs[slot, 0]
            move = 0
            while u >= 0 and move < 3:
                move += 1
                u -= probs[slot, move]
            slots[i, n], moves[i, n] = slot, move
            on_target = on_target and target[n] == move
            n += 1
            row, column, previous = row + ROW_STEP[move], column + COLUMN_STEP[move], move
            if maze[row, column]:
                break
            if row == last and column == last:
                reached = True
                break
        lengths[i] = n
        correct[i] = reached and (on_target or not by_target)
        hits += correct[i]
    return hits, used


@njit(nogil=True, cache=True)
def credit(group_size: int, gain: float, loss: float, response: float, work: Work) -> int:
    """Add advantage times grad log pi of every rollout to the coefficients; tokens in the group.

    `response` > 0 multiplies each rollout by its ReCo response weight over 1/N, at most `response`.
    """
    logp, coefficient = work.logp, work.coefficient
    slots, moves, lengths, correct = work.slots, work.moves, work.lengths, work.correct
    tokens = 0
    for i in range(group_size):
        c = gain if correct[i] else loss
        if response > 0:
            total = 0.0
            for t in range(lengths[i]):
                total += logp[slots[i, t], moves[i, t]]
            c *= min(group_size * _response_weight(total / lengths[i], group_size), response)
        for t in range(lengths[i]):
            coefficient[slots[i, t], moves[i, t]] += c
        tokens += lengths[i]
    return tokens


@njit(nogil=True, cache=True)
def backward(weights: Any, gradient: Any, work: Work, used: int) -> None:
    """Add the coefficients' gradient, d/dtheta of -sum c log pi, and clear the group."""
    slot_of, place, inputs, hidden = work.slot_of, work.place, work.inputs, work.hidden
    probs, coefficient = work.probs, work.coefficient
    w2 = weights[2]
    g1, gb1, g2, gb2 = gradient
    width = gb1.size
    back = np.empty(width)
    for slot in range(used):
        slot_of[place[slot, 0], place[slot, 1], place[slot, 2]] = -1
        c0, c1 = coefficient[slot, 0], coefficient[slot, 1]
        c2, c3 = coefficient[slot, 2], coefficient[slot, 3]
        if c0 == 0 and c1 == 0 and c2 == 0 and c3 == 0:
            continue
        total = c0 + c1 + c2 + c3
        d0 = total * probs[slot, 0] - c0
        d1 = total * probs[slot, 1] - c1
        d2 = total * probs[slot, 2] - c2
        d3 = total * probs[slot, 3] - c3
        for move in range(4):
            coefficient[slot, move] = 0
        gb2[0] += d0
        gb2[1] += d1
        gb2[2] += d2
        gb2[3] += d3
        for h in range(width):
            x = hidden[slot, h]
            g2[h, 0] += x * d0
            g2[h, 1] += x * d1
            g2[h, 2] += x * d2
            g2[h, 3] += x * d3
            slope = w2[h, 0] * d0 + w2[h, 1] * d1 + w2[h, 2] * d2 + w2[h, 3] * d3
            back[h] = slope if x > 0 else 0.0
            gb1[h] += back[h]
        for i in range(inputs.shape[1]):
            f = inputs[slot, i]
            for h in range(width):
                g1[f, h] += back[h]


@njit(nogil=True, cache=True)
def follow(maze: Any, target: Any, length: int, weights: Any, work: Work) -> Any:
    """Log-probability of the target path and the slots in use; the path becomes rollout 0."""
    table, b1, w2, b2 = weights
    slot_of, place, inputs, hidden, logp, probs, _, slots, moves, lengths, _, bits = work
    look(maze, bits)
    row, column, previous, total = 1, 1, NO_MOVE, 0.0
    for t in range(length):
        slot = t
        slot_of[row, column, previous] = slot
        place[slot, 0], place[slot, 1], place[slot, 2] = row, column, previous
        evaluate(slot, row, column, previous, bits, table, b1, w2, b2, inputs, hidden, logp, probs)
        move = target[t]
        slots[0, t], moves[0, t] = slot, move
        total += logp[slot, move]
        row, column, previous = row + ROW_STEP[move], column + COLUMN_STEP[move], move
    lengths[0] = length
    return total, length


@njit(nogil=True, cache=True)
def forget_slots(work: Work, used: int) -> None:
    """Free the slots without a backward pass."""
    for slot in range(used):
        work.slot_of[work.place[slot, 0], work.place[slot, 1], work.place[slot, 2]] = -1
