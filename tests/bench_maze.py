"""Timing bars of the maze simulator; those against gymnasium want `mazegym` from PyPI."""

from __future__ import annotations

import numpy as np
import pytest
from timings import in_turns

from naive import maze as naive
from tailmiss.sims import _maze_kernel as env
from tailmiss.sims import maze_window
from tailmiss.sims.maze import MazeConfig, generate_mazes

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("algorithm", ["prim", "kruskal", "wilson"])
def test_generators_against_plain_python(algorithm, measured):
    rng = np.random.default_rng(0)
    ours, plain = in_turns(
        lambda: generate_mazes(20_000, 17, rng=rng, algorithm=algorithm),
        lambda: [naive.GENERATORS[algorithm](17, rng) for _ in range(100)],
        repeats=5,
    )
    what = f"maze 17 x 17, {algorithm.capitalize()}"
    bar = 100 if algorithm == "prim" else 30
    measured(what, ours / 20_000, "the same in plain Python", plain / 100, faster=bar)


def random_rollouts():
    mazes = generate_mazes(2_000, 17, rng=0)
    reached, rng = np.zeros(2_000, np.int64), np.random.default_rng(1)
    return lambda rollouts=200: env.random_walks(mazes, rollouts, 180, reached, rng)


def test_random_policy_makes_20_million_steps_a_second(measured):
    walks = random_rollouts()
    made = walks()
    (ours,) = in_turns(walks, repeats=5)
    measured("maze step of a random policy", ours / made, within=1 / 20e6)


def test_against_a_gymnasium_environment(measured):
    gym = pytest.importorskip("mazegym.maze_gym_env")
    theirs = gym.MazeEnvironment(size=(17, 17))

    def walk():
        theirs.reset(seed=0)
        for move in np.random.default_rng(0).integers(0, 4, 2_000):
            _, _, ended, truncated, _ = theirs.step(int(move))
            if ended or truncated:
                theirs.reset()

    walks = random_rollouts()
    made = walks()
    ours, step = in_turns(walks, walk, repeats=5)
    measured("maze step of a random policy", ours / made, "mazegym", step / 2_000, faster=100)
    ours, maze = in_turns(
        lambda: generate_mazes(20_000, 17, rng=0),
        lambda: [gym.MazeEnvironment(size=(17, 17)) for _ in range(20)],
        repeats=5,
    )
    measured("maze 17 x 17, Prim", ours / 20_000, "mazegym (mazelib)", maze / 20, faster=100)


@pytest.mark.parametrize(("N", "least"), [(4, 200), (32, 100)])
def test_window_policy_updates_a_second(N, least, measured):
    config = MazeConfig(group_size=N)
    learner, _ = maze_window.warm_start(config)
    rng = np.random.default_rng(0)
    (ours,) = in_turns(lambda: maze_window.advance(config, learner, 100, rng), repeats=5)
    measured(f"update of the window policy, 64 mazes x N = {N}", ours / 100, within=1 / least)
