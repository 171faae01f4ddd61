import dataclasses
import inspect
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from calibrated import assert_bernoulli, assert_mean
from naive import tokens as naive
from tailmiss._cli_simulate import simulate_tokens as simulate_tokens_command
from tailmiss.advantages import RULES, advantage_table, weight_function
from tailmiss.cli import app
from tailmiss.reco import gradient_factor
from tailmiss.sims.tokens import (
    TOKEN_RULES,
    TokenConfig,
    TokenTask,
    make_task,
    position_profile,
    sample_answers,
    simulate_tokens,
    strategy_contexts,
    strategy_mass,
    train_step,
)

SMALL = TokenConfig(
    prompts=8,
    prompts_per_policy=4,
    length=6,
    vocabulary=7,
    strategies=6,
    correct=2,
    steps=20,
    learning_rate=2.0,
    record_every=5,
)
DETACHED = ("variance", "variance_ppo", "variance_ratio_mask", "variance_cispo")


def uniforms(config, rng):
    return rng.random((config.prompts, config.group_size, config.length))


def one_context(logits, correct):
    """A prompt answered by a single token."""
    V = len(logits)
    return TokenTask(
        np.array(logits, float)[None, None],
        np.zeros((1, 1, V), np.int64),
        np.arange(V)[None, :, None],
        np.array(correct, bool)[None],
    )


@pytest.mark.parametrize("token_rule", TOKEN_RULES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"response_weight": True, "gamma": 1.0, "entropy_quantile": 0.8, "context": 1},
        {"response_weight": True, "self_normalize": True, "weight_length": 2.0, "context": 0},
        {"response_weight": True, "weight_length": 1.0, "weight_cap": np.inf, "clip_high": 0.28},
    ],
)
def test_kernel_equals_its_twin_bit_for_bit(token_rule, options, rng):
    config = replace(SMALL, token_rule=token_rule, inner_steps=4, learning_rate=5.0, **options)
    task = make_task(config, rng=rng)
    logits, twin = task.logits.copy(), task.logits.copy()
    for _ in range(2):
        u = uniforms(config, rng)
        train_step(config, task, logits, u)
        twin, _, _ = naive.train_step(config, task, twin, u)
        np.testing.assert_array_equal(logits, twin)
    assert np.abs(logits - task.logits).max() > 0.1


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_runs_and_equals_the_twin(rule, rng):
    config = replace(SMALL, rule=rule, gamma=0.5)
    task = make_task(config, rng=rng)
    u = uniforms(config, rng)
    logits = task.logits.copy()
    train_step(config, task, logits, u)
    np.testing.assert_array_equal(logits, naive.train_step(config, task, task.logits, u)[0])


@pytest.mark.parametrize("options", [{}, {"response_weight": True, "gamma": 1.0}])
def test_first_inner_step_of_every_detached_mode_is_the_importance_update(options, rng):
    task = make_task(SMALL, rng=rng)
    u = uniforms(SMALL, rng)
    after = {}
    for rule in TOKEN_RULES:
        after[rule] = task.logits.copy()
        train_step(replace(SMALL, token_rule=rule, **options), task, after[rule], u)
    for rule in (*DETACHED, "cispo"):
        np.testing.assert_allclose(after[rule], after["importance"], rtol=0, atol=1e-15)
    for rule in ("variance_autograd", "variance_absolute"):
        assert np.abs(after[rule] - after["importance"]).max() > 0.01


@pytest.mark.parametrize("token_rule", TOKEN_RULES)
def test_four_inner_steps_follow_the_factor_of_the_theory(token_rule, rng):
    """One prompt of one token: the whole run recomputed from tailmiss.reco.gradient_factor."""
    config = replace(
        SMALL,
        prompts=1,
        prompts_per_policy=1,
        length=1,
        vocabulary=4,
        strategies=2,
        token_rule=token_rule,
        inner_steps=4,
        learning_rate=0.15,
        weight_length=1.0,
        response_weight=True,
    )
    task = one_context([1.5, 0.0, 0.5, -1.0], [True, False, False, True])
    u = np.array([0.1, 0.2, 0.6, 0.7, 0.8, 0.97, 0.99, 0.3])[None, :, None]
    logits = task.logits.copy()
    train_step(config, task, logits, u)

    z = task.logits[0, 0].copy()
    p_old = np.exp(z) / np.exp(z).sum()
    sampled = np.searchsorted(np.cumsum(p_old), u.ravel())
    right = task.correct[0][sampled]
    a, b = advantage_table("grpo", 8)
    A = np.where(right, a[right.sum()], b[right.sum()])
    w = np.minimum(1 / p_old[sampled], config.weight_cap) / 8
    for _ in range(4):
        p = np.exp(z) / np.exp(z).sum()
        f = gradient_factor(token_rule, p[sampled], p_old[sampled], A, cap=config.ratio_cap)
        push = np.bincount(sampled, w * A * f, minlength=4)
        z = z + config.learning_rate * (push - push.sum() * p)
    assert 0 < right.sum() < 8
    np.testing.assert_allclose(logits[0, 0], z, rtol=0, atol=1e-14)
    importance = task.logits.copy()
    train_step(replace(config, token_rule="importance"), task, importance, u)
    if token_rule != "importance":
        assert np.abs(importance - logits).max() > 1e-4


def test_expected_update_is_the_population_weight_times_the_gradient(rng):
    """E[g] = w_N(p) grad p for one prompt, by many fresh batches."""
    config = replace(
        SMALL, prompts=4000, prompts_per_policy=1, length=1, vocabulary=3, strategies=1, correct=1,
        learning_rate=1.0,
    )  # fmt: skip
    one = one_context([0.5, 0.2, -0.3], [True, False, False])
    task = TokenTask(
        np.repeat(one.logits, 4000, 0), one.child, np.repeat(one.strategies, 4000, 0),
        np.repeat(one.correct, 4000, 0),
    )  # fmt: skip
    logits = task.logits.copy()
    train_step(config, task, logits, uniforms(config, rng))
    p = np.exp(one.logits[0, 0]) / np.exp(one.logits[0, 0]).sum()
    gradient = p[0] * (np.eye(3)[0] - p)
    expected = weight_function("grpo", 8, p[0]) * gradient
    for v in range(3):
        assert_mean((logits - task.logits)[:, 0, v], expected[v], detects=0.05)


@pytest.mark.parametrize("context", [None, 1])
def test_success_mass_and_variance_agree_with_sampling(context, rng):
    config = replace(SMALL, context=context, slip=0.15, steps=15)
    run = simulate_tokens(config, rng=rng)
    task, logits = run.task, run.logits
    n = 60_000
    answers, probability = sample_answers(task, logits, n, rng=rng)
    mass = strategy_mass(task, logits, strategy_contexts(task))
    counts = np.array(
        [
            [(answers[f] == strategy).all(axis=1).sum() for strategy in family]
            for f, family in enumerate(task.strategies)
        ]
    )
    for f, s in np.ndindex(mass.shape):
        assert_bernoulli(int(counts[f, s]), n, mass[f, s], detects=0.02)
    share = config.prompts // len(logits)
    for prompt in range(config.prompts):
        hits = counts[prompt // share][task.correct[prompt]].sum()
        assert_bernoulli(int(hits), n, run.success[-1, prompt], detects=0.02)
    variance, _ = position_profile(task, logits)
    for t in range(config.length):
        p = probability[..., t].ravel()
        assert_mean(p * (1 - p), variance[t], detects=0.004)
    np.testing.assert_allclose(run.variance[-1], variance)


def test_pass_at_k_is_the_chance_of_any_success(rng):
    run = simulate_tokens(SMALL, rng=rng)
    p = run.success[-1]
    tries = rng.random((50_000, p.size, 4)) < p[:, None]
    hits = int(tries.any(axis=2).sum())
    assert_bernoulli(hits, tries[..., 0].size, run.pass_at_k(4)[-1], detects=0.01)
    np.testing.assert_allclose(run.pass_at_k(1), run.success.mean(axis=1))


def test_retained_mass_counts_only_losses(rng):
    run = simulate_tokens(SMALL, rng=rng)
    task = run.task
    path = strategy_contexts(task)
    start, end = (strategy_mass(task, z, path) for z in (task.logits, run.logits))
    for prompt in range(SMALL.prompts):
        f, right = prompt // 4, task.correct[prompt]
        lost = sum(max(0.0, a - b) for a, b in zip(start[f][right], end[f][right], strict=True))
        expected = 1 - lost / start[f][right].sum()
        assert run.retained_mass[-1, prompt] == pytest.approx(expected)
        assert run.alive[-1, prompt] == (end[f][right] >= 1 / 256).sum()
    assert (run.retained_mass[0] == 1).all()


def test_initial_policy_has_the_planned_masses(rng):
    config = replace(SMALL, zipf=1.0, slip=1e-6)
    task = make_task(config, rng=rng)
    share = 1 / np.arange(1.0, 7)
    mass = strategy_mass(task, task.logits, strategy_contexts(task))
    np.testing.assert_allclose(mass, np.tile(share / share.sum(), (2, 1)), rtol=1e-4)
    assert (task.correct.sum(axis=1) == 2).all()
    for family in task.strategies.tolist():
        assert len({tuple(s) for s in family}) == 6


@given(st.integers(1, 5), st.integers(2, 5), st.integers(1, 6), st.sampled_from([None, 0, 1, 2, 9]))
@settings(max_examples=40, deadline=None)
def test_contexts_are_the_prefixes_or_suffixes_they_claim(T, V, S, context):
    S = min(S, V**T // 2)
    config = replace(
        SMALL, length=T, vocabulary=V, strategies=S, correct=1, context=context, steps=0
    )
    task = make_task(config, rng=0)
    answers, _ = sample_answers(task, task.logits, 64, rng=1)
    for f in range(len(task.logits)):
        child = task.child[f % len(task.child)]
        every = [tuple(x) for x in (*task.strategies[f].tolist(), *answers[f].tolist())]
        prefixes = {tuple(s[:t]) for s in task.strategies[f].tolist() for t in range(T)}
        names: dict[int, object] = {}
        for tokens in every:
            c = 0
            for t in range(T):
                prefix = tokens[:t]
                if context is not None:
                    own = (t, prefix[max(0, t - context) :])
                else:
                    own = prefix if prefix in prefixes else t
                assert names.setdefault(c, own) == own
                c = child[c, tokens[t]]
        assert len(set(names.values())) == len(names)
    path = strategy_contexts(task)
    total = strategy_mass(task, task.logits, path).sum(axis=1)
    assert (total <= 1 + 1e-12).all()


def test_entropy_quantile_updates_only_the_uncertain_tokens(rng):
    task = make_task(SMALL, rng=rng)
    u = uniforms(SMALL, rng)
    every, few = task.logits.copy(), task.logits.copy()
    train_step(SMALL, task, every, u)
    train_step(replace(SMALL, entropy_quantile=0.8), task, few, u)
    moved, moved_few = ((z != task.logits).any(axis=-1) for z in (every, few))
    assert moved_few.sum() < moved.sum()
    assert not (moved_few & ~moved).any()


def test_grpo_sharpens_where_prompts_share_a_policy_and_focal_weight_holds_back():
    config = TokenConfig(prompts=32, steps=200, learning_rate=1.0)
    task = make_task(config, rng=1)
    plain, focal = (
        simulate_tokens(replace(config, gamma=gamma), rng=2, task=task) for gamma in (0, 1)
    )
    for run in (plain, focal):
        assert run.pass_at_k(1)[-1] > 1.5 * run.pass_at_k(1)[0]
    assert plain.pass_at_k(64)[-1] < plain.pass_at_k(64)[0] - 0.1
    level = plain.pass_at_k(1)[-1] * 0.75
    kept = [run.pass_at_k(64)[np.argmax(run.pass_at_k(1) >= level)] for run in (plain, focal)]
    assert kept[1] > kept[0]


def test_same_seed_same_run_and_frame_has_one_row_a_record():
    first, second = (simulate_tokens(replace(SMALL, samples=3), rng=5) for _ in range(2))
    np.testing.assert_array_equal(first.logits, second.logits)
    np.testing.assert_array_equal(first.samples, second.samples)
    assert first.samples.shape == (5, 2, 3, 6)
    frame = first.frame()
    assert frame.step.tolist() == [0, 5, 10, 15, 20]
    assert frame.drop(columns=["mixed_share", "clipped_share", "net_push"]).notna().all().all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompts": 0}, "prompts must be whole"),
        ({"prompts": 9}, "multiple of prompts_per_policy"),
        ({"correct": 7}, "correct must be <= strategies"),
        ({"strategies": 100_000}, "strategies must be at most half"),
        ({"slip": 0}, "slip must be in"),
        ({"learning_rate": -1}, "learning_rate must be finite and >= 0; got -1"),
        ({"learning_rate": np.nan}, "learning_rate must be"),
        ({"token_rule": "reco"}, "token_rule must be one of"),
        ({"rule": "ppo"}, "rule must be one of"),
        ({"gamma": -1}, "gamma must be"),
        ({"context": -1}, "context must be whole"),
        ({"entropy_quantile": 1.0}, "entropy_quantile must be below 1"),
        ({"ratio_cap": 0.5}, "ratio_cap must be in"),
        ({"ratio_cap": None}, "ratio_cap must be real"),
        ({"ratio_cap": [1, 2]}, r"ratio_cap must be one number; got shape \(2,\)"),
        ({"clip_low": [0.1, 0.2]}, "clip_low must be one number"),
        ({"alive_mass": [0.1]}, "alive_mass must be one number"),
        ({"slip": [0.1]}, "slip must be one number"),
        ({"weight_length": 0.5}, "weight_length must be in"),
        ({"group_size": 2.5}, "group_size must be whole"),
        ({"response_weight": "yes"}, "response_weight must be one of"),
        ({"context": 5, "vocabulary": 32}, "context must leave at most"),
        ({"entropy_quantile": "most"}, "entropy_quantile must be real"),
    ],
)
def test_bad_config_is_named(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {"correct": t.correct[:4]}, r"task.correct must have shape \(8, 6\)"),
        (lambda t: {"strategies": t.strategies[..., :3]}, "task.strategies must have shape"),
        (lambda t: {"logits": t.logits[..., :5]}, "task.child must have shape"),
        (lambda t: {"logits": t.logits * np.nan}, "task.logits must be"),
        (lambda t: {"child": t.child + 1000}, "task.child must be whole"),
        (lambda t: {"strategies": t.strategies + 5}, "task.strategies must be whole"),
        (lambda t: {"correct": t.correct & False}, "none for prompt 0"),
    ],
)
def test_task_that_does_not_fit_is_refused(change, message):
    task = make_task(SMALL, rng=0)
    with pytest.raises(ValueError, match=message):
        simulate_tokens(SMALL, rng=0, task=replace(task, **change(task)))


@pytest.mark.parametrize("token_rule", TOKEN_RULES)
def test_extreme_settings_stay_finite(token_rule):
    config = replace(
        SMALL,
        token_rule=token_rule,
        learning_rate=1e4,
        inner_steps=5,
        response_weight=True,
        weight_length=1.0,
        weight_cap=np.inf,
        slip=1e-12,
    )
    run = simulate_tokens(config, rng=3)
    assert np.isfinite(run.logits).all()
    assert ((run.success >= 0) & (run.success <= 1 + 1e-12)).all()
    assert np.isfinite(run.variance).all()


def test_groups_of_one_and_no_steps_change_nothing(rng):
    alone = simulate_tokens(replace(SMALL, group_size=1), rng=rng)
    np.testing.assert_array_equal(alone.logits, alone.task.logits)
    still = simulate_tokens(replace(SMALL, steps=0), rng=rng)
    assert still.steps.tolist() == [0]
    assert still.retained_mass.tolist() == [[1.0] * 8]


def test_command_prints_the_run_as_csv():
    command = ["simulate", "tokens", "--prompts", "8", "--steps", "4", "--record-every", "2"]
    options = ["--response-weight", "--token-rule", "variance_ppo", "--N", "4", "--seed", "7"]
    result = CliRunner().invoke(app, command + options)
    assert result.exit_code == 0
    frame = pd.read_csv(io.StringIO(result.stdout))
    config = TokenConfig(
        prompts=8, steps=4, record_every=2, response_weight=True, token_rule="variance_ppo",
        group_size=4,
    )  # fmt: skip
    expected = simulate_tokens(config, rng=7).frame()
    pd.testing.assert_frame_equal(frame, expected, rtol=1e-9, check_dtype=False)


def test_command_has_every_field_and_passes_it_on():
    """Each option that stands alone in the library changes the run as it does there."""
    command = ["simulate", "tokens", "--prompts", "8", "--length", "6", "--vocabulary", "8",
               "--steps", "6", "--inner-steps", "3", "--record-every", "3", "--learning-rate", "4",
               "--response-weight", "--token-rule", "variance", "--seed", "3"]  # fmt: skip
    base = TokenConfig(
        prompts=8, length=6, vocabulary=8, steps=6, inner_steps=3, record_every=3,
        learning_rate=4.0, response_weight=True, token_rule="variance",
    )  # fmt: skip
    plain = simulate_tokens(base, rng=3).frame()
    for options, changes in (
        (["--weight-length", "1"], {"weight_length": 1.0}),
        (["--ratio-cap", "1.01"], {"ratio_cap": 1.01}),
        (["--alive-mass", "0.2"], {"alive_mass": 0.2}),
        (
            ["--rule", "pkpo", "--rule-option", "k=4"],
            {"rule": "pkpo", "rule_options": {"k": 4}},
        ),
    ):
        result = CliRunner().invoke(app, command + options)
        assert result.exit_code == 0, result.exception
        frame = pd.read_csv(io.StringIO(result.stdout))
        expected = simulate_tokens(replace(base, **changes), rng=3).frame()
        pd.testing.assert_frame_equal(frame, expected, rtol=1e-9, check_dtype=False)
        assert not expected.equals(plain), options
    offered = inspect.signature(simulate_tokens_command).parameters
    fields = {f.name for f in dataclasses.fields(TokenConfig)} - {"samples", "rule_options"}
    assert fields | {"rule_option", "seed"} == offered.keys()
    for options, said in (
        (["--ratio-cap", "0.5"], "ratio_cap must be in"),
        (["--weight-length", "0"], "weight_length must be in"),
        (["--rule-option", "k=x"], "rule-option must be NAME=NUMBER"),
        (["--rule-option", "k=4"], "k"),
    ):
        result = CliRunner().invoke(app, command + options)
        assert said in str(result.exception)
