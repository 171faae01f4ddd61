"""Printed pass@k curves: the impossible ones of the published tables, and sharp bounds."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.optimize

from tailmiss._curve_file import read_curve
from tailmiss.curves import CountPopulation, audit_curve
from tailmiss.figures._figure import PUBLISHED
from tailmiss.passk import pass_at_k

# Points between the printed curve and the closest possible one, tables 12-14.
IMPOSSIBLE = {
    ("Qwen2.5-7B", "CISPO", 1, "AMC23"): 0.0587,
    ("Qwen3-4B-Base", "CISPO", 0, "AMC23"): 0.1245,
    ("Llama-3.2-3B-Instruct", "GRPO", 0, "GPQA"): 0.2293,
    ("Llama-3.2-3B-Instruct", "GRPO", 1, "GPQA"): 0.1754,
    ("Llama-3.2-3B-Instruct", "DAPO", 0, "AIME24"): 0.1858,
    ("Llama-3.2-3B-Instruct", "DAPO", 1, "AIME24"): 0.0799,
    ("Llama-3.2-3B-Instruct", "CISPO", 0, "AIME24"): 0.0549,
    ("Llama-3.2-3B-Instruct", "CISPO", 0, "AMC23"): 0.0671,
    ("Llama-3.2-3B-Instruct", "CISPO", 1, "AMC23"): 0.0764,
}


def published():
    table = pd.read_csv(PUBLISHED / "tables12_14_passk.csv")
    return table.groupby(["model", "method", "focal", "benchmark"], sort=False)


@pytest.mark.long
def test_all_published_curves():
    """All 162 within 20 s on an idle core: see bench_audit.py."""
    found = {}
    for key, rows in published():
        result = audit_curve(rows["k"], rows["value"] / 100, 1024, half_width=5e-4, at=())
        if not result.feasible:
            found[key] = 100 * result.misfit
        again = [100 * result.closest.pass_at_k(k) for k in rows["k"]]
        reach = np.abs(again - rows["value"]).max()
        assert reach == pytest.approx(100 * result.misfit, abs=1e-6)
    assert found.keys() == IMPOSSIBLE.keys()
    assert found == pytest.approx(IMPOSSIBLE, abs=1e-4)


def test_some_published_curves():
    curves = dict(iter(published()))
    for key in list(IMPOSSIBLE)[::4]:
        rows = curves[key]
        got = audit_curve(rows["k"], rows["value"] / 100, 1024, half_width=5e-4, at=())
        assert not got.feasible
        assert 100 * got.misfit == pytest.approx(IMPOSSIBLE[key], abs=1e-4)
        assert got.beyond_rounding == pytest.approx(got.misfit - 5e-4)
    rows = curves["Qwen2.5-7B", "GRPO", 0, "AIME24"]
    got = audit_curve(rows["k"], rows["value"] / 100, 1024, half_width=5e-4, at=())
    assert (got.feasible, got.beyond_rounding) == (True, 0.0)


def test_an_impossible_curve_is_proved_by_hand():
    """2p - p^2 is concave, so equal problems are best at k = 2: 2(.1+t) - (.1+t)^2 = .4 - t."""
    got = audit_curve([1, 2], [0.1, 0.4], 10_000, half_width=0.001, at=())
    assert got.misfit == pytest.approx((2.8 - 7.0**0.5) / 2, abs=1e-4)
    falling = audit_curve([1, 2], [0.5, 0.4], 64, half_width=0.001, at=())
    assert falling.misfit == pytest.approx(0.05, abs=1e-9)


def simulated(rng, samples, problems):
    rates = rng.beta(rng.uniform(0.1, 2), rng.uniform(0.1, 2), problems)
    counts = rng.binomial(samples, rates * (rng.random(problems) < rng.uniform(0.5, 1)))
    c, number = np.unique(counts, return_counts=True)
    return CountPopulation(samples, c.astype(float), number / problems)


def check_bounds(rng, populations, samples):
    k = np.array([1, 2, 4, 8, 16])
    for _ in range(populations):
        truth = simulated(rng, samples, int(rng.integers(5, 200)))
        printed = np.round([truth.pass_at_k(x) for x in k], 3)
        at = [int(rng.integers(2, samples + 1)), 32]
        got = audit_curve(k, printed, samples, half_width=5e-4, at=at, rho=(0.1,))
        assert got.feasible
        for bound in got.bounds:
            for population, end in ((bound.lowest, bound.low), (bound.highest, bound.high)):
                value = {
                    "pass_at_k": population.pass_at_k,
                    "mixed_share": population.mixed_share,
                    "tail_miss": lambda N, p=population, r=bound.rho: p.tail_miss_share(N, r),
                }[bound.quantity](bound.at)
                assert value == pytest.approx(end, abs=2e-6)
                near = [population.pass_at_k(x) for x in k] - printed
                assert np.abs(near).max() <= 5e-4 + 1e-6
            held = {
                "pass_at_k": truth.pass_at_k,
                "mixed_share": truth.mixed_share,
                "tail_miss": lambda N, t=truth, r=bound.rho: t.tail_miss_share(N, r),
            }[bound.quantity](bound.at)
            assert bound.low - 1e-6 <= held <= bound.high + 1e-6


def test_bounds_hold_the_truth_and_are_attained(rng):
    check_bounds(rng, 20, 64)


@pytest.mark.long
def test_bounds_hold_the_truth_of_500_populations(rng):
    check_bounds(rng, 500, 64)


def test_whole_problems():
    """Three problems can only have pass@1 in steps of 1/24 at n = 8."""
    samples = 8
    c = np.array([1, 4, 8])
    value = pass_at_k(samples, c[:, None], [1, 2, 4]).mean(axis=0)
    good = audit_curve([1, 2, 4], value, samples, half_width=1e-4, problems=3, at=())
    assert good.feasible_for_problems is True
    shifted = audit_curve([1, 2, 4], value + 0.002, samples, half_width=1e-4, problems=3, at=())
    assert shifted.feasible
    assert shifted.feasible_for_problems is False
    wrong = audit_curve([1, 2], [0.1, 0.4], samples, half_width=1e-4, problems=3, at=())
    assert wrong.feasible_for_problems is False


def test_output_forms():
    got = audit_curve([1, 4], [0.2, 0.4], 16, half_width=5e-4, at=[8, 16], rho=(0.1, 0.3))
    text = json.loads(json.dumps(got.to_dict(), allow_nan=False))
    assert text["feasible"] is True
    assert text["bounds"]["pass_at_k"]["8"]["low"] <= text["bounds"]["pass_at_k"]["8"]["high"]
    assert set(text["bounds"]["tail_miss"]) == {"0.1", "0.3"}
    assert len(got.to_frame()) == len(got.bounds) == 8


def test_scale_and_rounding_are_read_from_the_print(tmp_path):
    def read(text, **options):
        path = tmp_path / "c.csv"
        path.write_text(text)
        return read_curve(str(path), **options)

    got = read("k,value\n1,17\n2,24.4\n")
    assert (got.k, got.value, got.percent) == ((1, 2), (0.17, 0.244), True)
    assert got.half_width == pytest.approx(5e-4)
    got = read("k;pass@k\n1;0.170\n2;0.24\n")
    assert (got.percent, got.half_width) == (False, 5e-4)
    assert read("k,value\n1,0.3\n2,0.5\n", percent=True).half_width == pytest.approx(5e-4)
    assert read("k,value,decimals\n1,17.0,2\n").half_width == pytest.approx(5e-5)
    assert read("k,value\n1,17.5%\n").value == (0.175,)
    for text, message in (
        ("k,value\n", "holds no values"),
        ("k,value\n1,x\n", "line 2: 'value' is no number: 'x'"),
        ("k,value\n1,nan\n", "line 2: 'value' is no number"),
        ('{"k": 1, "value": 0.10}\n{"k": 2}\n', "line 2: 'value' is no number"),
        ('{"k": 1, "value": 0.10}\n[2, 0.3]\n', "line 2: an object with named fields is needed"),
        ("k,value\n1.5,3\n", "line 2: 'k' must be a whole number"),
        ("k,value\n1,3\n1,4\n", "line 3: k = 1 stands twice"),
        ("k,value\n1,0\n2,1\n", "say which with --percent or --fractions"),
        ("k,value\n1,130\n", "line 2: 130 is outside"),
        ("a,b\n1,3\n", "line 1: no column 'k'"),
        ('{"k": 1}', "a table of k and value is needed"),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            read(text)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 8], [0.1, 0.2], 4), r"k must be <= samples"),
        (([1, 1], [0.1, 0.2], 4), "k must not stand twice"),
        (([1, 2], [0.1, 1.2], 4), r"value must be in \[0, 1\]; got 1.2 at index 1"),
        (([1], [0.1, 0.2], 4), "lists of one length"),
        (([], [], 4), "lists of one length"),
        (([1], [0.1], 0), "samples must be whole"),
    ],
)
def test_bad_curves_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        audit_curve(*arguments, half_width=5e-4)
    with pytest.raises(ValueError, match=r"at must be <= samples"):
        audit_curve([1], [0.1], 4, half_width=5e-4, at=[8])


def test_where_the_simplex_method_gives_up_another_serves(monkeypatch):
    real, failing = scipy.optimize.linprog, {"highs-ds"}

    def linprog(*arguments, method, **options):
        result = real(*arguments, method=method, **options)
        if method in failing:
            result.status, result.message = 4, "numerical difficulties"
        return result

    def judge():
        return audit_curve([1, 4, 16], [0.2, 0.4, 0.5], 16, half_width=5e-4)

    expected = judge()
    monkeypatch.setattr(scipy.optimize, "linprog", linprog)
    found = judge()
    assert found.misfit == pytest.approx(expected.misfit, abs=1e-8)
    for got, true in zip(found.bounds, expected.bounds, strict=True):
        assert (got.low, got.high) == pytest.approx((true.low, true.high), abs=1e-7)
    failing.add("highs-ipm")
    with pytest.raises(ValueError, match=r"a linear program failed \(numerical difficulties\)"):
        judge()
