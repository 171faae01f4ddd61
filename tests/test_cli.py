"""The command line through its real entry point, as a stranger would use it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = shutil.which("tailmiss", path=str(Path(sys.executable).parent)) or "tailmiss"


def run(*arguments, cwd=None, **options):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, **options
    )


def test_prob_prints_every_event():
    done = run("prob", "--N", 8, "--mu-pos", 0.5, "--tau", 0.01)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert any("mixed group" in line and "0.992188" in line for line in lines)
    assert any("tail miss (mixed, none rare)" in line and "0.915515" in line for line in lines)
    assert "past the worst group size 7" in done.stdout


def test_the_package_runs_as_a_module(tmp_path):
    asked = ("prob", "--N", "8", "--mu-pos", "0.5", "--tau", "0.01")
    command = [sys.executable, "-m", "tailmiss", *asked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, run(*asked).stdout)


def test_plan_covers():
    done = run("plan", "--mu-pos", 0.3, "--rho", 0.05, "--delta", 0.01)
    assert done.returncode == 0
    assert "N = 9" in done.stdout
    assert "N = 305" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prob", "--N", 8, "--mu-pos", 0.5, "--tau", 0.6), "tau must be <= mu_pos (0.5); got 0.6"),
        (("prob", "--N", 0, "--mu-pos", 0.5, "--tau", 0.1), "N must be whole, >= 1; got 0"),
        (("prob", "--N", "x", "--mu-pos", 0.5, "--tau", 0.1), "--N"),
        (("prob", "--N", 8, "--mu-pos", "nan", "--tau", 0.1), "mu_pos must be a number"),
        (("plan", "--mu-pos", 0.3, "--rho", 1), "rho must be in (0, 1); got 1.0"),
        (("plan", "--rho", 0.1), "--mu-pos"),
        (("figures", "fig1"), "no figure 'fig1'; close: fig1"),
        (("figures", "--backend", "none"), "backend must be one of"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, said, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_figures_lists_builds_and_checks(tmp_path):
    listed = run("figures", "--list")
    assert listed.returncode == 0
    assert "fig1a" in listed.stdout
    built = run("figures", "fig1a", "fig4", "--out", tmp_path / "pictures", cwd=tmp_path)
    assert built.returncode == 0
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == [
        f"{name}.{ending}" for name in ("fig1a", "fig4") for ending in ("csv", "json", "pdf", "png")
    ]
    checked = run("figures", "fig1a", "--check", cwd=tmp_path)
    assert checked.returncode == 0
    assert checked.stdout == "fig1a: same\n"


def test_an_output_that_cannot_be_written_is_one_line_and_exit_2(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("figures", "fig1a", "--out", blocked / "inside")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "file" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_and_exit_2():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "prob", "--N", "8", "--mu-pos", "0.5", "--tau", "0.01"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.strip() == "tailmiss: No space left on device"


@pytest.mark.parametrize("command", ["prob", "plan", "figures"])
def test_help_has_an_example(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"tailmiss {command} " in done.stdout
