"""The categorical simulator: against its plain twin, the paper's numbers and the closed forms."""

from __future__ import annotations

import dataclasses
import io
import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from calibrated import assert_bernoulli, assert_mean
from naive import categorical as naive
from tailmiss import RULES, mixed_group_prob, response_weight, tail_miss_prob
from tailmiss.redistribution import expected_mass_change
from tailmiss.sims import CategoricalConfig, simulate_categorical
from tailmiss.sims import _categorical_kernel as kernel
from tailmiss.sims._inverse_cdf import BLOCK, draw_many

SMALL = CategoricalConfig(
    n_actions=300, n_correct=40, correct_logit=1.0, anchor_logit=2.0, group_size=16,
    steps=20, record_every=6,
)  # fmt: skip


def assert_same(config: CategoricalConfig, seed: int, block: int | None = BLOCK) -> None:
    """Fast and plain simulator from the same uniforms: same records and logits, to rounding."""
    run = simulate_categorical(config, rng=seed)
    records, logits = naive.simulate(config, np.random.default_rng(seed), block)
    np.testing.assert_allclose(run.logits, logits, rtol=0, atol=1e-12)
    frame = run.frame()
    assert len(frame) == len(records)
    for name in frame:
        plain = np.array([one[name] for one in records])
        np.testing.assert_allclose(frame[name], plain, rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("distinct", [False, True])
def test_every_option_equals_the_plain_definition(rule, surrogate, distinct):
    every = itertools.product((0, 1), ("adam", "adamw", "sgd"), (None, 5.0, np.inf))
    for gamma, optimizer, cap in every:
        config = dataclasses.replace(
            SMALL, rule=rule, gamma=gamma, optimizer=optimizer, surrogate=surrogate,
            distinct=distinct, response_weight_cap=cap,
            learning_rate=0.01 if optimizer == "sgd" else 0.05,
        )  # fmt: skip
        assert_same(config, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"n_actions": 3000, "n_correct": 700, "group_size": 64, "steps": 500},
        {"n_actions": 2000, "n_correct": 131, "group_size": 2000, "steps": 150},
        {"n_actions": 900, "group_size": 20_000},
        {"group_size": 9000, "optimizer": "sgd"},
        {"beta1": 0.99, "steps": 900},
        {"beta1": 0.9, "beta2": 0.8},
        {"learning_rate": 0.9, "steps": 300},
        {"learning_rate": 0.0},
        {"eps": 1e-16, "surrogate": "probability"},
        {"entropy_bonus": 0.3, "kl": 0.2},
        {"entropy_bonus": 0.3, "optimizer": "sgd", "learning_rate": 5.0},
        {"kl": 2.0, "surrogate": "probability", "group_size": 400},
        {"rule": "grpo", "rule_options": {"ddof": 1, "eps": 1e-6}},
        {"rule": "passk", "rule_options": {"k": 4}, "optimizer": "adamw"},
        {"group_size": 1, "rule": "reinforce"},
        {"n_actions": 2, "n_correct": 1, "group_size": 3},
        {"n_correct": 299},
    ],
)
def test_the_loops_over_all_actions_equal_the_plain_definition(change):
    """Few and many draws, large steps, regularisers."""
    assert_same(dataclasses.replace(SMALL, **change), 5)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 500},
        {"group_size": 2, "rule": "rloo", "steps": 200},
        {"n_actions": 16_000, "correct_logit": 3.0, "group_size": 30, "steps": 900},
        {"logits": np.linspace(-700, 0, 6000), "steps": 400},
        {"learning_rate": 0.4, "steps": 400},
        {"beta1": 0.99, "beta2": 0.9999, "steps": 300},
        {"beta1": 0.0, "eps": 1e-3, "gamma": 0.5, "steps": 300},
    ],
)
def test_the_loop_over_moving_actions_equals_the_plain_definition(change):
    """Resting, returning and unmoved actions, large steps, weights of zero."""
    start = {"n_actions": 6000, "n_correct": 300, "group_size": 8, "record_every": 7}
    assert_same(dataclasses.replace(SMALL, **{**start, **change}), 5, None)


def test_any_initial_policy(rng):
    for n in (7, 300, 700):
        logits = rng.normal(0, 3, n)
        config = dataclasses.replace(SMALL, n_actions=n, n_correct=3, logits=logits, steps=200)
        assert_same(config, 1)


def test_an_action_of_probability_zero_is_never_drawn():
    logits = np.zeros(2000)
    logits[1::2] = -2000.0
    for N in (4, 2000):
        run = simulate_categorical(
            CategoricalConfig(2000, 100, logits=logits, group_size=N, steps=30), rng=0
        )
        assert (run.logits[1::2] == -2000.0).all()
        assert (run.policy[1::2] == 0.0).all()
        assert run.improved_share.max() == 0.5  # nor counted as improved


def test_draws_of_a_large_group_are_multinomial(rng):
    """Pearson's X^2 has mean m - 1 for a multinomial; m for independent Poisson counts."""
    n, N, groups = 30, 20_000, 3000
    weights = np.zeros(BLOCK)
    weights[:n] = rng.random(n) + 0.1
    sums, hits = np.array([weights.sum()]), np.empty(BLOCK + 1, np.uint32)
    expected = N * weights[:n] / weights.sum()
    X2 = np.empty(groups)
    for group in range(groups):
        counts = np.zeros(BLOCK, np.int32)
        draw_many(weights, sums, rng, counts, hits, N)
        assert counts.sum() == N
        X2[group] = ((counts[:n] - expected) ** 2 / expected).sum()
    assert_mean(X2, n - 1, detects=1.3)


@pytest.mark.parametrize(("N", "steps", "block"), [(200, 350, None), (2048, 100, BLOCK)])
def test_the_papers_size_equals_the_plain_definition(N, steps, block):
    """Of 128,000 actions tens of thousands move, rest and return within 350 steps."""
    assert_same(CategoricalConfig(group_size=N, steps=steps, gamma=1, record_every=50), 2, block)


def test_initial_policy_is_the_papers():
    run = simulate_categorical(CategoricalConfig(steps=1, group_size=1), rng=0)
    assert run.q_pos[0] == pytest.approx(0.63008, abs=5e-6)
    assert run.entropy[0] == pytest.approx(10.78, abs=5e-3)
    start = naive.softmax(CategoricalConfig().initial_logits())
    assert start[0] == pytest.approx(4.653e-4, rel=1e-4)
    assert start[1] == pytest.approx(6.297e-5, rel=1e-4)
    for optimizer in ("adam", "sgd"):  # either loop
        run = simulate_categorical(CategoricalConfig(steps=1, optimizer=optimizer), rng=0)
        unmoved = (run.retained_mass[0], run.improved_share[0], run.worst_drop[0])
        assert unmoved == (1.0, 0.0, 0.0)
        assert not np.signbit(unmoved).any()


@pytest.mark.parametrize(
    ("N", "q_pos", "retained"), [(2, 0.6325, 0.994), (8, 0.652, 0.965), (64, 0.7485, 0.966)]
)
def test_ratio_surrogate_with_adam_gives_the_known_end_points(N, q_pos, retained):
    """From a NumPy run with one seed; five of our seed-to-seed standard deviations either way."""
    ends = [simulate_categorical(CategoricalConfig(group_size=N), rng=i).frame() for i in range(6)]
    for name, known in (("q_pos", q_pos), ("retained_mass", retained)):
        values = np.array([end[name].iloc[-1] for end in ends])
        assert abs(values.mean() - known) <= 5 * values.std(ddof=1) + 5e-4


def test_response_weight_is_the_package_one(rng):
    p = rng.dirichlet(np.ones(50))
    for N in (1, 8, 4096):
        kernel_weight = [kernel.coefficient(1, pi, 1 / N, False, np.inf) for pi in p]
        np.testing.assert_allclose(kernel_weight, response_weight(np.log(p), N), rtol=1e-12)


def first_steps(config: CategoricalConfig, trials: int, rng) -> tuple[np.ndarray, ...]:
    """Over many first steps: mixed, the leaf's logit moved, unsampled mass and its change."""

    def one(stream):
        run = simulate_categorical(config, rng=stream)
        mixed, missed = run.mixed_share[-1], run.unsampled_mass[-1]
        return mixed, run.logits[1] != config.correct_logit, missed, run.unsampled_change[-1]

    with ThreadPoolExecutor(2) as pool:
        return tuple(np.array(list(pool.map(one, rng.spawn(trials)))).T)


@pytest.mark.parametrize(
    ("surrogate", "distinct", "gamma"), [("ratio", False, 1), ("probability", True, 0)]
)
def test_first_steps_count_what_the_closed_forms_say(rng, surrogate, distinct, gamma):
    config = CategoricalConfig(
        n_actions=60, n_correct=12, correct_logit=1.0, anchor_logit=3.0, group_size=6, steps=1,
        optimizer="sgd", learning_rate=1e-5, surrogate=surrogate, distinct=distinct, gamma=gamma,
    )  # fmt: skip
    p, good = naive.softmax(config.initial_logits()), np.arange(60) < 12
    N, trials = config.group_size, 5000
    mixed, moved, missed, change = first_steps(config, trials, rng)
    assert_bernoulli(
        int(mixed.sum()), trials, float(mixed_group_prob(N, p[good].sum())), detects=0.04
    )
    assert_mean(missed, float(p[good] @ (1 - p[good]) ** N), detects=0.015)
    expected = expected_mass_change(
        p, good, N, eta=config.learning_rate, rule="centered", gamma=gamma, surrogate=surrogate
    )
    exact = float(expected.delta_unsampled_pos) / config.learning_rate
    assert_mean(change / config.learning_rate, exact, detects=0.25 * abs(exact))
    if surrogate == "ratio":  # an action that was not drawn does not move
        tail_missed = int(((mixed == 1) & (moved == 0)).sum())
        chance = float(tail_miss_prob(N, p[good].sum(), p[1]))
        assert_bernoulli(tail_missed, trials, chance, detects=0.06)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_actions", 1), ("n_correct", 0), ("n_correct", 300), ("n_correct", 2.5),
        ("anchor_logit", np.inf), ("correct_logit", np.nan), ("incorrect_logit", "x"),
        ("logits", [1.0, 2.0]), ("logits", np.full(300, np.nan)), ("group_size", 0),
        ("rule", "ppo"), ("gamma", -1), ("steps", 0), ("learning_rate", -1e-3),
        ("learning_rate", np.inf), ("optimizer", "lion"), ("beta1", 1.0), ("beta1", "x"),
        ("beta2", -0.1), ("correct_logit", [3.0]), ("eps", 0.0), ("weight_decay", -1),
        ("surrogate", "ppo"), ("distinct", "yes"),
        ("response_weight_cap", 0.0), ("response_weight_cap", -1.0), ("entropy_bonus", -1),
        ("kl", np.nan), ("record_every", 0), ("n_actions", 2**40), ("group_size", 2**40),
        ("response_weight_cap", [1.0, 2.0]), ("rule_options", None), ("rule_options", {"gamma": 1}),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(field, value):
    with pytest.raises(ValueError, match=field):
        simulate_categorical(dataclasses.replace(SMALL, **{field: value}), rng=0)


@pytest.mark.parametrize("kind", [float, np.float64, np.int16, np.uint8])
def test_whole_numbers_of_any_kind_are_counts(kind):
    config = dataclasses.replace(SMALL, n_actions=200)
    fields = ("n_actions", "n_correct", "group_size", "steps", "record_every")
    other = {name: kind(getattr(config, name)) for name in fields}
    run = simulate_categorical(dataclasses.replace(config, **other), rng=0)
    assert run.frame().equals(simulate_categorical(config, rng=0).frame())


def test_options_of_the_rule_are_checked():
    with pytest.raises(ValueError, match="no option 'k'"):
        simulate_categorical(dataclasses.replace(SMALL, rule_options={"k": 2}), rng=0)


def test_same_seed_same_run_also_in_threads():
    config = dataclasses.replace(SMALL, steps=50)
    alone = simulate_categorical(config, rng=7)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: simulate_categorical(config, rng=seed), [7] * 8))
    for run in together:
        assert run.frame().equals(alone.frame())
        assert np.array_equal(run.logits, alone.logits)
    other = simulate_categorical(config, rng=8)
    assert not np.array_equal(other.logits, alone.logits)
    assert alone.steps.tolist() == [0, 6, 12, 18, 24, 30, 36, 42, 48, 50]


def test_command_prints_the_run(tmp_path):
    policy = tmp_path / "logits.txt"
    policy.write_text("1\n2\n0\n-1\n")
    arguments = (
        f"simulate categorical --logits {policy} --n-correct 2 --N 6 --rule passk --rule-option k=3"
        " --gamma 0.5 --steps 9 --record-every 4 --seed 11"
    )
    made = tailmiss(arguments)
    assert made.returncode == 0
    config = CategoricalConfig(
        4, 2, logits=[1, 2, 0, -1], group_size=6, rule="passk", rule_options={"k": 3}, gamma=0.5,
        steps=9, record_every=4,
    )  # fmt: skip
    frame = simulate_categorical(config, rng=11).frame()
    printed = pd.read_csv(io.StringIO(made.stdout))
    pd.testing.assert_frame_equal(printed, frame, rtol=1e-9, check_dtype=False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [("--N 0", "group_size"), ("--optimizer lion", "optimizer"), ("--rule-option k", "rule-option"),
     ("--logits missing.txt", "missing.txt"), ("--n-correct 128000", "n_correct")],
)  # fmt: skip
def test_command_refuses_in_one_line(arguments, named):
    made = tailmiss(f"simulate categorical --steps 1 {arguments}")
    assert made.returncode == 2
    assert made.stdout == ""
    assert made.stderr.count("\n") == 1
    assert named in made.stderr


def tailmiss(arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tailmiss.cli", *arguments.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False)
