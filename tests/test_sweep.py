"""Sweeps: the same bytes for any worker count and backend, and nothing finished is done twice."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from tailmiss.sims import CategoricalConfig, simulate_categorical, sweep
from tailmiss.sims.sweep import run_sweep

SMALL = CategoricalConfig(n_actions=60, n_correct=12, steps=20, record_every=5)
GRID = [
    dataclasses.replace(SMALL, group_size=N, gamma=gamma) for N in (2, 16, 128) for gamma in (0, 1)
]


def as_bytes(frames: list[pd.DataFrame]) -> list[str]:
    return [frame.to_csv(float_format="%.17g") for frame in frames]


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """The sweep in this process."""
    return as_bytes(run_sweep(simulate_categorical, GRID, rng=5, repeats=2))


def test_runs_come_in_order_and_match_single_runs(alone):
    frames = run_sweep(simulate_categorical, GRID, rng=5, repeats=2)
    assert [frame["repeat"].iloc[0] for frame in frames] == [0, 1] * len(GRID)
    assert as_bytes(frames) == alone
    assert len(set(alone)) == len(alone)


@pytest.mark.parametrize(("backend", "jobs"), [("loky", 2), ("threading", 3)])
def test_workers_do_not_change_a_byte(alone, backend, jobs):
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        assert as_bytes(run_sweep(simulate_categorical, GRID, rng=5, repeats=2)) == alone


@pytest.mark.filterwarnings("ignore")  # of a cluster's start and end, none of them ours
def test_a_dask_cluster_does_not_change_a_byte(alone, tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):  # fmt: skip
        assert len(client.scheduler_info()["workers"]) == 2
        store = tmp_path / "runs"
        frames = run_sweep(simulate_categorical, GRID, rng=5, repeats=2, store=store)
    assert as_bytes(frames) == alone
    assert len(list(store.glob("*.csv"))) == len(alone)


def test_a_run_depends_on_its_config_and_the_root_not_on_the_grid(alone):
    shuffled = run_sweep(simulate_categorical, GRID[::-1][:4], rng=np.random.default_rng(5))
    assert as_bytes(shuffled) == [alone[2 * i] for i in (5, 4, 3, 2)]
    other = run_sweep(simulate_categorical, GRID[:1], rng=6)
    assert as_bytes(other) != alone[:1]


def test_finished_runs_are_read_and_not_made_again(alone, tmp_path):
    run_sweep(simulate_categorical, GRID[:3], rng=5, repeats=2, store=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 6
    assert all(path.suffix == ".csv" for path in kept)
    assert (
        as_bytes(run_sweep(simulate_categorical, GRID, rng=5, repeats=2, store=tmp_path)) == alone
    )
    assert len(list(tmp_path.iterdir())) == len(alone)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert as_bytes(run_sweep(never, GRID[:0], rng=5, store=tmp_path)) == []


def never(config, *, rng):
    raise AssertionError("called")


def odd(config, *, rng):
    return pd.DataFrame(
        {"x": [0.1, np.nan, np.inf, 1e-300, 1 / 3], "kind": ["NA", "a", "", "b", "c"]}
    )


def test_values_survive_the_store_to_the_last_digit(tmp_path):
    fresh = run_sweep(odd, [{"a": 1}], rng=0, store=tmp_path)[0]
    kept = run_sweep(odd, [{"a": 1}], rng=0, store=tmp_path)[0]
    pd.testing.assert_frame_equal(fresh, kept, check_exact=True)
    np.testing.assert_array_equal(fresh["x"], odd({}, rng=None)["x"])
    assert fresh["kind"].iloc[0] == "NA"


def test_bad_sweeps_are_refused():
    with pytest.raises(ValueError, match=r"distinct.*index 1"):
        run_sweep(odd, [{"a": 1}, {"a": 1}], rng=0)
    with pytest.raises(ValueError, match="repeats"):
        run_sweep(odd, [{"a": 1}], rng=0, repeats=0)
    with pytest.raises(ValueError, match="group_size"):
        run_sweep(simulate_categorical, [dataclasses.replace(SMALL, group_size=0)], rng=0)


SLOW = """
import sys, time
import joblib, pandas as pd
from tailmiss.sims.sweep import run_sweep

def slow(config, *, rng):
    time.sleep(config["seconds"])
    return pd.DataFrame({"x": rng.random(2)})

if __name__ == "__main__":
    sys.modules["tailmiss_slow"] = sys.modules["__main__"]
    grid = [{"i": i, "seconds": 0.02 if i < 4 else 60} for i in range(8)]
    with joblib.parallel_config(backend=sys.argv[2], n_jobs=int(sys.argv[3])):
        run_sweep(slow, grid, rng=0, store=sys.argv[1])
"""


@pytest.mark.parametrize(
    ("how", "backend", "jobs"),
    [(signal.SIGINT, "loky", 1), (signal.SIGINT, "loky", 2), (signal.SIGKILL, "loky", 1)],
)
def test_a_stopped_sweep_keeps_what_was_finished(tmp_path, how, backend, jobs):
    script, store = tmp_path / "slow.py", tmp_path / "runs"
    script.write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, str(script), str(store), backend, str(jobs)],
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's job ignores it
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while len(list(Path(store).glob("*.csv"))) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(how)
        assert process.wait(timeout=30) != 0
        assert len(list(store.glob("*.csv"))) == 4
        assert all(len(pd.read_csv(path)) == 2 for path in store.glob("*.csv"))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_progress_displays_nest_on_a_terminal(monkeypatch):
    """The figures' holds that of a sweep."""
    console = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(sweep, "_console", lambda: console)
    with sweep.progress() as outer:
        outer.add_task("outer", total=1)
        with sweep.progress() as inner:
            inner.add_task("inner", total=1)
    assert "outer" in console.file.getvalue()
