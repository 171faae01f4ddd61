"""Timing bars of the maze simulator; the one against gymnasium wants `mazegym` from PyPI."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from naive import maze as naive
from tailmiss.sims import _maze_kernel as env
from tailmiss.sims import maze_window
from tailmiss.sims.maze import MazeConfig, generate_mazes


def seconds(call, rounds=5):
    """Median processor time of a call, after one that compiles; all calls are serial."""
    call()
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


@pytest.mark.bench
@pytest.mark.parametrize("algorithm", ["prim", "kruskal", "wilson"])
def test_generators_against_plain_python(algorithm, record_property):
    rng = np.random.default_rng(0)
    plain = seconds(lambda: [naive.GENERATORS[algorithm](17, rng) for _ in range(100)]) / 100
    ours = seconds(lambda: generate_mazes(20_000, 17, rng=rng, algorithm=algorithm)) / 20_000
    report(record_property, f"{algorithm}: {1 / ours:,.0f} mazes/s, {plain / ours:.0f} x Python")
    assert plain > (100 if algorithm == "prim" else 30) * ours


def random_rollouts():
    mazes = generate_mazes(2_000, 17, rng=0)
    reached, rng = np.zeros(2_000, np.int64), np.random.default_rng(1)
    return lambda rollouts=200: env.random_walks(mazes, rollouts, 180, reached, rng)


@pytest.mark.bench
def test_random_policy_makes_20_million_steps_a_second(record_property):
    walks = random_rollouts()
    made = walks()
    taken = seconds(walks)
    report(record_property, f"random rollouts: {made / taken / 1e6:.0f} million steps/s")
    assert made / taken > 20e6


@pytest.mark.bench
def test_against_a_gymnasium_environment(record_property):
    gym = pytest.importorskip("mazegym.maze_gym_env")
    theirs = gym.MazeEnvironment(size=(17, 17))

    def walk():
        theirs.reset(seed=0)
        for move in np.random.default_rng(0).integers(0, 4, 2_000):
            _, _, ended, truncated, _ = theirs.step(int(move))
            if ended or truncated:
                theirs.reset()

    step = seconds(walk) / 2_000
    made = seconds(lambda: [gym.MazeEnvironment(size=(17, 17)) for _ in range(20)]) / 20
    walks = random_rollouts()
    ours = seconds(walks) / walks()
    carve = seconds(lambda: generate_mazes(20_000, 17, rng=0)) / 20_000
    report(record_property, f"mazegym: steps {step / ours:,.0f} x, mazes {made / carve:,.0f} x")
    assert step > 100 * ours
    assert made > 100 * carve


@pytest.mark.bench
@pytest.mark.parametrize(("N", "least"), [(4, 200), (32, 100)])
def test_window_policy_updates_a_second(N, least, record_property):
    config = MazeConfig(group_size=N)
    learner, _ = maze_window.warm_start(config)
    rng = np.random.default_rng(0)
    taken = seconds(lambda: maze_window.advance(config, learner, 100, rng)) / 100
    report(record_property, f"window policy, 64 mazes x N = {N}: {1 / taken:.0f} updates/s")
    assert 1 / taken > least


def report(record_property, text):
    record_property("measured", text)
    print(text)
