"""The transcribed tables agree with each other and with what the paper says of them."""

import numpy as np
import pytest

from tailmiss.figures import fig1b, fig1c, table1, table7
from tailmiss.figures._published import BENCHMARKS, published

MATH, OOD = BENCHMARKS[1:7], BENCHMARKS[8:]


def gains(benchmark, k):
    table = table1.data({}, np.random.default_rng(0))
    return table[(table.benchmark == benchmark) & (table.k == k)].gain.to_numpy()


def test_claims_about_table_1():
    assert (gains("AvgMath", 256) > 0).sum() == 9
    assert (gains("AvgOOD", 256) > 0).sum() == 9
    assert (gains("AvgMath", 1) >= 0).sum() == 9
    assert (gains("AvgOOD", 1) > 0).sum() == 7
    assert gains("AvgMath", 1).max() == pytest.approx(2.8)
    means = [gains(b, k).mean() for b, k in (("AvgMath", 256), ("AvgOOD", 256), ("AvgOOD", 1))]
    assert means == pytest.approx([3.9, 4.1, 1.5], abs=0.05)


@pytest.mark.parametrize(
    "name", ["table1_main", "table10_group_size_per_benchmark", "table11_controls_per_benchmark"]
)
@pytest.mark.parametrize(("average", "parts"), [("AvgMath", MATH), ("AvgOOD", OOD)])
def test_averages_are_means_of_the_printed_benchmarks(name, average, parts):
    table = published(name)
    keys = [c for c in table.columns if c not in ("benchmark", "value")]
    wide = table.pivot(index=keys, columns="benchmark", values="value")
    assert np.abs(wide[list(parts)].mean(axis=1) - wide[average]).max() < 0.1


def test_table_7_is_the_best_pass_at_1_of_table_6():
    table = table7.data({}, np.random.default_rng(0))
    focal = table[table.gamma > 0]
    best = focal.loc[focal.groupby(["model", "method"]).value.idxmax()]
    assert len(best) == 9
    assert (best.chosen == 1).all()


def test_larger_gamma_buys_pass_at_256_with_pass_at_1():
    table = published("table6_gamma").query("split == 'math'")
    wide = table.pivot(index=["model", "method"], columns=["k", "gamma"], values="value")
    assert (wide[256][2.0] > wide[256][0.5]).sum() == len(wide) == 9
    assert (wide[1][2.0] > wide[1][0.5]).sum() == 1
    assert wide[256].mean().tolist() == pytest.approx([66.8, 69.4, 71.0, 72.1], abs=0.051)
    assert wide[1].mean().tolist() == pytest.approx([35.4, 35.7, 35.1, 34.4], abs=0.051)


def test_no_control_has_the_pass_at_1_of_the_focal_weight_and_two_have_more_pass_at_256():
    table = published("table3_controls").query("split == 'math'")
    wide = table.pivot(index="method", columns="k", values="value")
    assert wide[1].idxmax() == "F-GRPO"
    assert set(wide.index[wide[256] > wide[256]["F-GRPO"]]) == {"GRPO-KL", "DS-GRPO"}


@pytest.mark.parametrize(("figure", "gain"), [(fig1b, (3.4, 11.8)), (fig1c, (1.9, 5.4))])
def test_gains_of_figure_1(figure, gain):
    points = figure.data({}, np.random.default_rng(0))
    base = points.query("method == 'GRPO' and N == 8").iloc[0]
    focal = points.query("method == 'F-GRPO'").iloc[0]
    off = (focal.pass1 - base.pass1, focal.pass256 - base.pass256)
    assert off == pytest.approx(gain, abs=0.05)


def test_pass_at_k_curves_rise():
    table = published("tables12_14_passk")
    curves = table.groupby(["model", "method", "focal", "benchmark"])
    assert len(curves) == 162
    for _, curve in curves:
        assert curve.value.is_monotonic_increasing
