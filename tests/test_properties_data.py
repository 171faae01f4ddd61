"""Every public function that takes whole data: policies, counts, answers, files, runs, tensors."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailmiss as tm
from tailmiss import sims
from tailmiss.advantages import RULES

SHARE = st.floats(0, 1)
COUNTS = st.lists(
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=1, max_size=12,
)  # fmt: skip
few = settings(max_examples=25, deadline=None)
fewest = settings(max_examples=10, deadline=None)


def columns(pairs):
    return tuple(np.array(column) for column in zip(*pairs, strict=True))


@few
@given(COUNTS, st.integers(1, 45), st.sampled_from(sorted([*tm.passk.MEASURES, "g_pass_at_k"])))
def test_means_and_posteriors_of_counts(pairs, k, measure):
    n, c = columns(pairs)
    tau = 0.5 if measure == "g_pass_at_k" else None
    found = tm.mean_pass_at_k(n, c, k, measure=measure, tau=tau, resamples=50)
    assert found.used + found.left_out == len(pairs)
    assert found.used == (n >= k).sum()
    assert np.isnan(found.value) if not found.used else 0 <= found.value <= 1
    if found.used > 1:
        assert found.low <= found.value <= found.high
    mean, sd = tm.posterior_pass_at_k(n, c, k, measure=measure, tau=tau)
    assert mean.shape == sd.shape == n.shape
    assert ((mean >= -1e-12) & (mean <= 1 + 1e-12)).all()
    assert (sd <= 0.5 + 1e-9).all()
    variance = tm.pass_at_k_variance(n, c, k)
    assert (np.isnan(variance) == (n < 2 * k)).all()
    assert (np.abs(variance[n >= 2 * k]) <= 1).all()


@few
@given(
    st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), SHARE, SHARE, SHARE,
    st.lists(st.integers(1, 2**20), min_size=1, max_size=4),
)  # fmt: skip
def test_a_population_gives_probabilities_at_any_group_size(alpha, beta, zero, one, rho, N):
    population = tm.PromptPopulation(alpha, beta, zero / 2, one / 2)
    N = np.sort(N)
    passed, mixed = population.pass_at_k(N), population.mixed_group_prob(N)
    tail = population.tail_miss_prob(N[N <= 4096], rho)
    for value in (passed, population.pass_hat_k(N), mixed, tail):
        assert ((value >= -1e-12) & (value <= 1 + 1e-12)).all()
    assert (np.diff(passed) >= -1e-12).all()
    assert (np.diff(mixed) >= -1e-9).all()
    assert (tail <= mixed[N <= 4096] + 1e-6).all()


@few
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), min_size=1, max_size=30))
def test_unseen_mass_is_the_share_of_singletons(pairs):
    answers, correct = zip(*pairs, strict=True)
    once = [a for a, times in Counter(a for a, ok in pairs if ok).items() if times == 1]
    assert tm.unseen_correct_mass(answers, correct) == len(once) / len(pairs)


@few
@given(st.integers(1, 2**20), SHARE, SHARE, st.integers(0, 200), st.integers(0, 9))
def test_an_estimate_counts_within_its_trials(N, mu_pos, share, groups, seed):
    def count(rng):
        return tm.estimate_tail_miss_prob(N, mu_pos, mu_pos * share, groups=groups, rng=rng)

    found = count(seed)
    assert 0 <= found.hits <= found.trials == groups
    assert found == count(seed) == count(np.random.default_rng(seed))
    assert (found + found).trials == 2 * groups


@few
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=6).filter(lambda x: sum(x) > 1e-3),
    st.integers(0, 2**6 - 1), st.lists(st.integers(0, 5), min_size=6, max_size=6),
    st.sampled_from(["probability", "ratio"]), st.floats(-3, 3), st.permutations(range(6)),
)  # fmt: skip
def test_a_group_moves_mass_linearly_and_whatever_the_order(p, bits, counts, surrogate, eta, order):
    p = np.array(p) / sum(p)
    correct = np.array([bits >> i & 1 for i in range(p.size)], bool)
    counts, order = np.array(counts[: p.size]), [i for i in order if i < p.size]
    options = {"group_size": 30, "surrogate": surrogate}
    one = tm.mass_change(p, correct, counts, **options)
    assert np.isfinite(astuple(one)).all()
    assert one.direct_drift + one.normalization_coupling == one.delta_unsampled_pos
    np.testing.assert_allclose(
        astuple(tm.mass_change(p, correct, counts, eta=eta, **options))[:4],
        eta * np.array(astuple(one)[:4]), rtol=1e-9, atol=1e-15,
    )  # fmt: skip
    np.testing.assert_allclose(
        astuple(tm.mass_change(p[order], correct[order], counts[order], **options)),
        astuple(one), rtol=1e-9, atol=1e-15,
    )  # fmt: skip
    batch = tm.mass_change(p, correct, np.stack([counts, 0 * counts]), **options)
    assert batch.delta_pos[0] == pytest.approx(one.delta_pos, abs=1e-15)
    assert (batch.delta_pos[1], batch.baseline[1]) == (0, 0)


@fewest
@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=8, max_size=40))
def test_a_file_of_rollouts_is_counted_and_audited(pairs, tmp_path_factory):
    path = tmp_path_factory.mktemp("rollouts") / "rollouts.jsonl"
    rows = [{"prompt": f"p{prompt}", "reward": int(ok)} for prompt, ok in pairs]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = tm.read_rollouts(path, threshold=1.0)
    assert isinstance(found, tm.Rollouts)
    truth = Counter(prompt for prompt, _ in pairs)
    assert sorted(found.n.tolist()) == sorted(truth.values())
    assert found.c.sum() == sum(ok for _, ok in pairs)
    result = tm.audit(found, k=[1, 2], N=[2, 4])
    assert result.success_rate == pytest.approx(found.c.sum() / len(pairs))
    shares = [result.mixed_share[N].value for N in (2, 4)]
    assert all(np.isnan(share) or -1e-12 <= share <= 1 + 1e-12 for share in shares)
    json.dumps(result.to_dict(), allow_nan=False)


@fewest
@given(st.lists(st.integers(0, 16), min_size=1, max_size=12))
def test_a_curve_of_real_problems_is_possible_and_within_its_bounds(successes):
    c = np.array(successes)
    k = np.array([1, 2, 4, 8, 16])
    curve = tm.pass_at_k(16, c, k[:, None]).mean(axis=1)
    found = tm.audit_curve(k, curve, 16, half_width=0.0, at=[3, 8], rho=[0.1])
    assert found.feasible
    truths = {
        "pass_at_k": lambda at, rho: tm.pass_at_k(16, c, at),
        "mixed_share": lambda at, rho: tm.mixed_share(16, c, at),
        "tail_miss": lambda at, rho: tm.tail_miss_share(16, c, at, rho),
    }
    assert {bound.quantity for bound in found.bounds} == set(truths)
    for bound in found.bounds:
        truth = truths[bound.quantity](bound.at, bound.rho).mean()
        assert bound.low - 1e-6 <= truth <= bound.high + 1e-6


@few
@given(
    st.integers(0, 6), st.integers(2, 8), st.sampled_from(["prim", "kruskal", "wilson"]),
    st.integers(0, 99),
)  # fmt: skip
def test_mazes_are_solved_by_walking(n, cells, algorithm, seed):
    size = 2 * cells + 1
    mazes = sims.generate_mazes(n, size, rng=seed, algorithm=algorithm)
    assert mazes.shape == (n, size, size)
    assert (mazes == sims.generate_mazes(n, size, rng=seed, algorithm=algorithm)).all()
    moves, lengths = sims.solve_mazes(mazes)
    steps = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
    for maze, path, length in zip(mazes, moves, lengths, strict=True):
        assert (path[length:] == -1).all()
        places = np.array([1, 1]) + np.cumsum(steps[path[:length]], axis=0)
        assert (maze[tuple(places.T)] == 0).all()
        assert places[-1].tolist() == [size - 2, size - 2]


@few
@given(
    rule=st.sampled_from(RULES), N=st.integers(2, 300) | st.integers(2, 7),
    n=st.sampled_from([20, 4000]), n_correct=st.integers(1, 19),
    optimizer=st.sampled_from(["adam", "adamw", "sgd"]),
    surrogate=st.sampled_from(["ratio", "probability"]), gamma=st.floats(0, 3),
    spread=st.floats(0, 30), distinct=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
def test_a_categorical_run_stays_a_distribution(
    rule, N, n, n_correct, optimizer, surrogate, gamma, spread, distinct, seed
):
    config = sims.CategoricalConfig(
        n_actions=n, n_correct=n_correct, group_size=N, rule=rule, gamma=gamma, steps=12,
        optimizer=optimizer, surrogate=surrogate, anchor_logit=spread, distinct=distinct,
        record_every=4,
    )  # fmt: skip
    run = sims.simulate_categorical(config, rng=seed)
    assert isinstance(run, sims.CategoricalRun)
    assert run.steps.tolist() == [0, 4, 8, 12]
    assert run.policy.sum() == pytest.approx(1)
    assert run.policy[:n_correct].sum() == pytest.approx(run.q_pos[-1], abs=1e-12)
    for shares in (run.q_pos, run.retained_mass, run.mixed_share[1:], run.focal_weight[1:]):
        assert ((shares >= -1e-12) & (shares <= 1 + 1e-12)).all()
    again = sims.simulate_categorical(config, rng=np.random.default_rng(seed))
    assert (again.logits == run.logits).all()


@fewest
@given(
    rule=st.sampled_from(RULES), N=st.integers(2, 9), length=st.integers(1, 4),
    context=st.sampled_from([None, 0, 1]), inner=st.integers(1, 3),
    token_rule=st.sampled_from(["importance", "cispo", "variance_ppo", "variance_autograd"]),
    response=st.booleans(), quantile=st.sampled_from([0.0, 0.8]), seed=st.integers(0, 9),
)  # fmt: skip
def test_a_token_run_stays_in_range(
    rule, N, length, context, inner, token_rule, response, quantile, seed
):
    config = sims.TokenConfig(
        prompts=4, prompts_per_policy=2, length=length, vocabulary=5, strategies=2, correct=1,
        context=context, group_size=N, steps=3, inner_steps=inner, rule=rule, record_every=1,
        token_rule=token_rule, response_weight=response, entropy_quantile=quantile, samples=2,
    )  # fmt: skip
    run = sims.simulate_tokens(config, rng=seed)
    assert isinstance(run, sims.TokenRun)
    assert run.success.shape == (4, 4)
    assert ((run.success >= 0) & (run.success <= 1)).all()
    assert ((run.retained_mass >= -1e-12) & (run.retained_mass <= 1 + 1e-12)).all()
    assert ((run.samples >= 0) & (run.samples < 5)).all()
    assert np.isfinite(run.logits).all()
    assert (sims.simulate_tokens(config, rng=seed).logits == run.logits).all()


@fewest
@given(
    rule=st.sampled_from(RULES), N=st.integers(2, 5), gamma=st.floats(0, 3),
    weighting=st.sampled_from(["focal", "batch_mean", "learning_rate"]),
    success=st.sampled_from(["target", "goal"]), response=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
def test_a_maze_run_stays_in_range(rule, N, gamma, weighting, success, response, seed):
    config = sims.MazeConfig(
        sims.WindowPolicy(3, 4), size=5, group_size=N, rule=rule, gamma=gamma, weighting=weighting,
        success=success, response_weight=response, steps=2, prompts=4, warm_start_steps=10,
        warm_start_prompts=4, test_mazes=3, validation_mazes=2, record_every=1,
    )  # fmt: skip
    run = sims.simulate_maze(config, rng=seed)
    assert isinstance(run, sims.MazeRun)
    assert run.log_p.shape == (3, 3)
    assert (run.log_p <= 1e-12).all()
    passed = run.pass_at_k([1, 8, 2**20])
    assert ((passed >= 0) & (passed <= 1)).all()
    assert (np.diff(passed, axis=1) >= 0).all()
    assert (sims.simulate_maze(config, rng=seed).log_p == run.log_p).all()
