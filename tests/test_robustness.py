"""What a long-running tool must survive: kills, full disks, company; and what it must not trust."""

from __future__ import annotations

import ast
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
SWEEP = """
import sys
from tailmiss.sims import CategoricalConfig, simulate_categorical
from tailmiss.sims.sweep import run_sweep

if __name__ == "__main__":
    grid = [
        CategoricalConfig(n_actions=3000, n_correct=300, group_size=N, steps=400, gamma=gamma)
        for N in (2, 8, 32, 128)
        for gamma in (0.0, 1.0)
    ]
    print("started", flush=True)
    for frame in run_sweep(simulate_categorical, grid, rng=0, repeats=6, store=sys.argv[1]):
        frame.to_csv(sys.stdout, index=False)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "sweep.py"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def uninterrupted(script, tmp_path_factory):
    store = tmp_path_factory.mktemp("whole")
    start = time.perf_counter()
    process = start_sweep(script, store)
    process.stdout.readline()
    loaded = time.perf_counter()
    text = process.communicate()[0]
    return text, contents(store), time.perf_counter() - loaded, loaded - start


def start_sweep(script, store):
    return subprocess.Popen([sys.executable, script, store], stdout=subprocess.PIPE, text=True)


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def kill_and_resume(script, store, times, uninterrupted, rng):
    text, files, seconds, _ = uninterrupted
    done = 0
    for _ in range(times):
        process = start_sweep(script, store)
        process.stdout.readline()
        time.sleep(float(rng.uniform(0, seconds / times * 1.5)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kept = {name: body for name, body in contents(store).items() if not name.startswith(".")}
        assert all(files[name] == body for name, body in kept.items())
        assert len(kept) >= done
        done = len(kept)
    final = start_sweep(script, store)
    assert final.communicate()[0] == "started\n" + text
    assert {n: b for n, b in contents(store).items() if not n.startswith(".")} == files
    return done


def test_a_killed_sweep_resumes_to_the_same_bytes(script, tmp_path, uninterrupted, rng):
    kill_and_resume(script, tmp_path, 3, uninterrupted, rng)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.long
def test_a_sweep_killed_20_times_resumes_to_the_same_bytes(script, tmp_path, uninterrupted, rng):
    kill_and_resume(script, tmp_path, 20, uninterrupted, rng)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_two_processes_share_one_folder(script, tmp_path, uninterrupted):
    text, files, *_ = uninterrupted
    both = [start_sweep(script, tmp_path) for _ in range(2)]
    for process in both:
        assert process.communicate()[0] == "started\n" + text
        assert process.returncode == 0
    assert contents(tmp_path) == files


def test_a_kept_run_reads_back_as_a_table(uninterrupted):
    _, files, *_ = uninterrupted
    assert len(files) == 48
    for name in files:
        assert name.endswith(".csv")


def test_a_disk_that_fills_up_is_one_line_and_exit_2(tmp_path):
    """A file-size limit makes the third file, larger than the first two, fail half-way."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    command = [Path(sys.executable).parent / "tailmiss", "figures", "fig3", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "File too large" in done.stderr
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "said"), [("size=64k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_a_full_or_read_only_file_system_is_one_line_and_exit_2(options, said, tmp_path):
    """A file system of its own, in a mount namespace; needs the right to make one."""
    script = (
        f"mount -t tmpfs -o {options} none {tmp_path} || exit 77\n"
        '"$@"; code=$?; ls -A "$(dirname $6)"; exit $code'
    )
    tailmiss = Path(sys.executable).parent / "tailmiss"
    command = [tailmiss, "figures", "fig1a", "fig3", "--out", tmp_path / "out"]
    unshare = shutil.which("unshare") or pytest.skip("no unshare on this system")
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", script, "sh", *command], capture_output=True, text=True
    )
    if done.returncode in (1, 77):
        pytest.skip(f"may not mount a file system: {done.stderr.strip()}")
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr
    assert ".unfinished" not in done.stdout


def test_nothing_is_unpickled():
    """No module loads a pickle: not by pickle, joblib, pandas, NumPy or torch."""
    for folder in ("tailmiss", "sims", "figures"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                text = ast.unparse(node) if isinstance(node, ast.Call | ast.Import) else ""
                if isinstance(node, ast.Import):
                    assert "pickle" not in text, path
                elif text:
                    called = ast.unparse(node.func)
                    assert called not in {"joblib.load", "pd.read_pickle", "pickle.load"}, path
                    assert "allow_pickle=True" not in text, path
                    if called == "torch.load":
                        assert "weights_only=True" in text, path


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_jobs(tmp_path):
    command = Path(sys.executable).parent / "tailmiss"
    made = []
    for name, options in {
        "one": ["--jobs", "1"],
        "two": ["--jobs", "2"],
        "other seed": ["--seed", "1"],
    }.items():
        out = tmp_path / name
        subprocess.run([command, "figures", "fig2", "--out", out, *options], check=True)
        made.append(contents(out))
    assert len(made[0]) == 4
    assert made[0] == made[1]
    assert made[0]["fig2.csv"] != made[2]["fig2.csv"]
    assert len(pd.read_csv(tmp_path / "one" / "fig2.csv"))
