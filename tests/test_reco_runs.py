"""The ReCo figures compare methods where their success is equal."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tailmiss.figures import _reco_runs as runs
from tailmiss.figures._published import published


def curve(method, seed, success, kept):
    frame = pd.DataFrame({"pass_at_1": success, "retained_mass": kept})
    for name in (*runs.COMPARED, "clipped_share", "net_push"):
        if name not in frame:
            frame[name] = 0.0
    labels = {"setting": "s", "method": method, "inner": 1, "rate": 0.5, "seed": seed}
    return frame.assign(updates=10 * np.arange(len(frame)), **labels)


def test_equal_success_lies_between_the_records_around_it():
    frame = pd.concat(
        [
            curve("GRPO", 0, [0.1, 0.15, 0.25, 0.2], [1.0, 0.8, 0.6, 0.1]),
            curve("GRPO", 1, [0.1, 0.15, 0.19, 0.18], [1.0, 0.8, 0.6, 0.1]),
        ]
    )
    found = runs.at_equal_success(frame, 2.0)
    assert found.seed.tolist() == [0]
    assert found.updates.item() == pytest.approx(15)
    assert found.retained_mass.item() == pytest.approx(0.7)


def test_differences_are_paired_by_seed():
    rng = np.random.default_rng(0)
    task, gain = rng.normal(0, 1, 6), rng.normal(0.2, 0.01, 6)
    curves = []
    for i in range(6):
        curves.append(curve("GRPO", i, [0.1, 0.4], [1, task[i]]))
        curves.append(curve("new", i, [0.1, 0.4], [1, task[i] + gain[i]]))
    frame = pd.concat(curves)
    found = runs.against(frame, 4.0)
    row = found[(found.method == "new") & (found.measure == "retained_mass")].iloc[0]
    reach = stats.t.ppf(0.975, 5) * gain.std(ddof=1) / np.sqrt(6)
    assert row.difference == pytest.approx(gain.mean())
    assert (row.high - row.low) / 2 == pytest.approx(reach)
    assert (row.reached, row.runs) == (6, 6)


def test_methods_share_their_tasks_and_runs_are_kept(tmp_path):
    params = {
        "seeds": 2, "updates": 8, "records": 2, "settings": {"s": {"group_size": 4}},
        "config": {"prompts": 8, "length": 4, "vocabulary": 6, "strategies": 5, "samples": 3},
        "store": tmp_path,
    }  # fmt: skip
    cells = [("s", "GRPO", 1, 0.5), ("s", "ReCo", 4, 0.5)]
    first = runs.run_methods(cells, params, np.random.default_rng(1))
    start = first[first.updates == 0].pivot(index="seed", columns="method", values="pass_at_1")
    np.testing.assert_array_equal(start["GRPO"], start["ReCo"])
    assert start["GRPO"].nunique() == 2
    assert set(first.groupby("method").updates.max()) == {8}
    assert len(list(tmp_path.glob("*.csv"))) == 4
    again = runs.run_methods(cells, params, np.random.default_rng(1))
    pd.testing.assert_frame_equal(first, again)


def test_published_averages_are_those_of_the_text():
    table = published("reco_average_pass64").pivot(
        index="backbone", columns="method", values="pass_at_64"
    )
    gains = (table.ReCo - table.GRPO).round(1)
    assert sorted(gains) == [3.1, 3.6, 11.3]
    assert table.base.dropna().tolist() == [59.7]
