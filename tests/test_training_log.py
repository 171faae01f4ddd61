"""Audits of logs with many steps: shared samples and kept tables change no number."""

from __future__ import annotations

import dataclasses

import mpmath
import numpy as np
import pytest

from tailmiss import audit
from tailmiss._logit_rule import mean_tail_miss
from tailmiss.bootstrap import mean_over_problems, means_over_problems
from tailmiss.rollouts import Rollouts

OF_INTERVALS = (
    "fitted_low", "fitted_high", "worst_interval", "last_interval", "end_known", "advice",
)  # fmt: skip


def log_of(rng, steps, prompts=64, n=8):
    """Counts of fresh prompts at every step."""
    counts = rng.binomial(n, rng.beta(0.5, 1.0, steps * prompts))
    step = np.repeat(np.arange(steps), prompts).astype(str).astype(object)
    return dataclasses.replace(Rollouts.from_counts(np.full(counts.size, n), counts), step=step)


def test_a_step_of_a_log_is_audited_as_if_alone(rng):
    rollouts = log_of(rng, steps=3, prompts=24)
    found = audit(rollouts)
    for step, part in found.by_step.items():
        own = rollouts.step == step
        alone = audit((rollouts.n[own], rollouts.c[own])).to_dict()
        inside = part.to_dict()
        for name in ("mixed_share", "pass_at_k", "pass_hat_k", "tail_miss", "regime", "gradient"):
            assert _measured(inside[name]) == _measured(alone[name]), name


def _measured(values):
    """Without the intervals of the fit and what is said by them, which steps do without."""
    if not isinstance(values, dict):
        return values
    kept = {k: _measured(v) for k, v in values.items()}
    return {k: v for k, v in kept.items() if k not in OF_INTERVALS}


def test_rows_on_shared_samples_equal_rows_alone(rng):
    values = rng.random((5, 40)).round(1)
    values[3, :9] = np.nan
    values[4] = np.nan
    for options in (
        {"counts": rng.integers(1, 6, 40)},
        {"clusters": rng.integers(0, 12, 40)},
        {"clusters": np.arange(40), "confidence": 0.8},
    ):
        together = means_over_problems(values, **options)
        for row, found in zip(values, together, strict=True):
            alone = dataclasses.astuple(mean_over_problems(row, **options))
            assert dataclasses.astuple(found) == pytest.approx(alone, rel=1e-12, nan_ok=True)
    assert together[3].left_out == 9
    assert together[4].used == 0


def test_many_clusters_have_the_normal_interval_of_their_sums(rng):
    owner, values = np.repeat(np.arange(6000), 2), rng.random((2, 12_000))
    for row, found in zip(values, means_over_problems(values, clusters=owner), strict=True):
        error = row.reshape(-1, 2).sum(axis=1).std() * np.sqrt(6000) / 12_000
        assert found.high - found.value == pytest.approx(1.959963984540054 * error)


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [(1e-3, 5.0), (0.02, 0.05), (0.5, 1.0), (12.0, 3.0), (30.0, 900.0), (1e4, 1e4), (1e4, 0.01)],
)
def test_mean_tail_miss_against_mpmath(alpha, beta):
    N, rho = np.array([2, 8, 64, 4096]), np.array([0.3, 0.05, 0.01, 0.05])
    found = mean_tail_miss(alpha, beta, N.astype(float), rho)
    with mpmath.workdps(60):
        a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
        for size, share, value in zip(N.tolist(), rho.tolist(), found, strict=True):
            r = mpmath.mpf(share)
            right = mpmath.beta(a + size, b) / mpmath.beta(a, b)
            wrong = mpmath.beta(a, b + size) / mpmath.beta(a, b)
            none = mpmath.hyp2f1(-size, b, a + b, r / (r - 1)) * (1 - r) ** size
            exact = float(none - (1 - r) ** size * right - wrong)
            assert value == pytest.approx(exact, rel=1e-10, abs=1e-16), size
