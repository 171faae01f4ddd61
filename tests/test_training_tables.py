"""Comparisons over seeds, and what the committed results of the training study say."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tailmiss import audit, read_rollouts
from tailmiss.figures import _training as tables
from tailmiss.figures._figure import read_csv

DETECTS = 0.05
"""Relative error of a predicted count that the committed runs would show."""


@pytest.fixture
def frame():
    """Two cells, three seeds, straight lines: pass@1 rises, modes fall."""
    rows = []
    for cell, N, rate in (("a", 2, 0.001), ("b", 8, 0.002)):
        for seed in range(3):
            for step in (0, 50, 100):
                up = 0.1 * seed + rate * step
                row = {"cell": cell, "seed": seed, "step": step, "split": "train", "N": N}
                rows.append({**row, "rollouts": N * step, "pass_1": up, "modes": 9 - step / 100})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("column", "value", "steps"), [("step", 30, (30, 30)), ("rollouts", 200, (100, 25))]
)
def test_measures_are_linear_between_evaluations(frame, column, value, steps):
    found = tables.where(frame, column, value)
    for cell, step, rate in zip("ab", steps, (0.001, 0.002), strict=True):
        own = found[found["cell"] == cell]
        assert own["pass_1"].to_numpy() == pytest.approx(0.1 * np.arange(3) + rate * step)
        assert own["modes"].to_numpy() == pytest.approx(9 - step / 100)


def test_runs_that_never_get_there_are_left_out(frame):
    assert set(tables.where(frame, "rollouts", 500)["cell"]) == {"b"}


def test_at_equal_training_pass_1_only_the_rest_differs(frame):
    common = tables.common_pass_1(frame, ["a", "b"])
    assert common == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3})
    found = tables.where_training_reaches(frame, common)
    change = tables.paired(found, "a", ["pass_1", "modes"])
    assert change["pass_1"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-12)
    assert change["modes"].to_numpy() == pytest.approx(np.full(3, 0.5))


def test_changes_are_taken_at_equal_steps_and_at_equal_training_pass_1(frame):
    """At 100 steps b is .1 ahead of a; where it has a's pass@1 it is at step 50, .5 modes up."""
    last = frame[frame["step"] != 50].assign(split="large")
    both = pd.concat([frame, last])
    rows = tables.changes(both, ["b"], "a", ["pass_1", "modes"], step=100)
    keys = ["kind", "compared", "cell", "split", "measure"]
    found = rows.set_index(keys)["value"].sort_index()
    assert found["difference", "100 steps", "b", "train", "pass_1"] == pytest.approx(0.1)
    assert found["difference", "equal pass@1", "b", "train", "pass_1"] == pytest.approx(0, abs=1e-9)
    assert found["difference", "equal pass@1", "b", "train", "modes"] == pytest.approx(0.5)
    assert found["level", "equal pass@1", "a", "train", "modes"] == pytest.approx(8)
    assert found["difference", "100 steps", "b", "large", "pass_1"] == pytest.approx(0.1)
    assert "large" not in found["difference", "equal pass@1", "b"].index.get_level_values("split")


def test_intervals_are_those_of_the_t_test(rng):
    values = rng.normal(size=7)
    one = pd.DataFrame({"cell": "a", "x": values})
    (row,) = tables.over_seeds(one, ["cell"], ["x"]).to_dict("records")
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (row["low"], row["high"], row["seeds"]) == pytest.approx((low, high, 7))


@pytest.mark.parametrize("seeds", [1, 2])
def test_two_seeds_have_no_interval(seeds):
    one = pd.DataFrame({"cell": "a", "x": np.ones(seeds)})
    (row,) = tables.over_seeds(one, ["cell"], ["x"]).to_dict("records")
    assert row["value"] == 1
    assert np.isnan(row["low"])


def test_the_committed_tables_hold_the_runs_they_name():
    made = tables.made()
    for name in ("curves", "groups"):
        frame = read_csv(tables.RESULTS / f"{name}.csv")
        found = frame.groupby("cell")["seed"].unique().map(sorted).to_dict()
        assert found == {cell: run["seeds"] for cell, run in made["parameters"]["finished"].items()}
    assert made["commit"]
    assert made["machine"]["processor"]


def test_sampled_groups_of_every_run_agree_with_theory():
    groups = read_csv(tables.RESULTS / "groups.csv")
    groups = groups[groups["cell"].isin(tables.OWN_NUMBERS)]
    for event in ("right", "mixed", "tail_miss"):
        columns = [event, f"{event}_expected", f"{event}_variance"]
        seen, expected, variance = groups[columns].sum()
        assert DETECTS * expected > (stats.norm.isf(5e-10) + 3.1) * variance**0.5
        assert abs(seen - expected) < stats.norm.isf(5e-10) * variance**0.5
        each = groups.groupby(["cell", "seed"])[columns].sum()
        z = (each[event] - each[columns[1]]) / each[columns[2]] ** 0.5
        assert stats.kstest(z, "norm").pvalue > 1e-9


def test_runs_of_one_seed_and_group_size_draw_the_same_numbers():
    """Why only one of them is counted above: what chance does to one it does to the other."""
    groups = read_csv(tables.RESULTS / "groups.csv")
    error = (groups["right"] - groups["right_expected"]) / groups["right_variance"] ** 0.5
    by_cell = error.groupby([groups["seed"], groups["step"], groups["cell"]]).sum().unstack()
    correlation = by_cell.corr()
    assert correlation.loc["N=8", "no clipping"] > 0.5
    assert correlation.loc["N=8", "1M gamma=0"] > 0.2
    own = correlation.loc[list(tables.OWN_NUMBERS), list(tables.OWN_NUMBERS)]
    assert own.where(~np.eye(len(own), dtype=bool)).abs().max().max() < 0.3


def test_training_sharpens_at_gamma_zero():
    frame = tables.curves()
    frame = frame[(frame["cell"] == "N=8") & (frame["split"] == "train")].set_index("seed")
    start, end = (frame[frame["step"] == step] for step in (0, 300))
    for measure, sign in {"pass_1": 1, "pass_256": -1, "retained": -1, "modes": -1}.items():
        assert (sign * (end[measure] - start[measure]) > 0).all(), measure


@pytest.mark.parametrize(("part", "steps"), [("first", (0, 19)), ("last", (200, 300))])
def test_an_audit_of_the_kept_rollouts_holds_the_exact_values(part, steps):
    """Nineteen steps of the first run: intervals from 8 to 16 rollouts a prompt hold the exact
    pass@k of the policy before and after them."""
    rollouts = read_rollouts(tables.RESULTS / f"rollouts_{part}.jsonl.gz", step="none")
    report = audit(rollouts)
    assert report.scored == 19 * 32 * 8
    exact = tables.curves().query("cell == 'N=8' and seed == 0 and split == 'train'")
    exact = exact.set_index("step").loc[list(steps)]
    for k in (1, 4, 16):
        row = report.pass_at_k[k]
        assert row.low < exact[f"pass_{k}"].min()
        assert exact[f"pass_{k}"].max() < row.high
    assert abs(report.pass_at_k[1].value - exact["pass_1"].mean()) < 0.02


@pytest.mark.parametrize("command", ["study", "launch.trl_deepscaler"])
def test_without_trl_the_commands_name_the_extra_in_one_line(command, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['trl'] = None")
    done = subprocess.run(
        [sys.executable, "-m", f"tailmiss.figures.training.{command}", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("pip install 'tailmiss[trl]')")
