"""The command line through its real entry point, as a stranger would use it."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
import typer

from tailmiss import cli

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


def test_version_is_the_installed_one():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"{metadata.version('tailmiss')}\n")


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


def test_a_quick_check_computes_instead_of_reading_kept_runs(tmp_path):
    assert run("figures", "brorl", cwd=tmp_path).returncode == 0
    kept = list((tmp_path / "out" / "runs").glob("*.csv"))
    assert kept
    for path in kept:
        path.write_text("step,q_pos\n0,1\n")
    checked = run("figures", "brorl", "--check", cwd=tmp_path)
    assert checked.stdout == "brorl: same\n"


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


def commands(command, path=()):
    """Every command and group below `command`, by its path."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_an_example_that_parses(path):
    done = run(*path, "--help", env=os.environ | {"COLUMNS": "400"})
    assert done.returncode == 0
    shown = re.search(r"Examples?: (tailmiss .*)", done.stdout)
    examples = re.findall(r"tailmiss ([^;>]*)", shown[1])
    assert examples
    for example in examples:
        words = shlex.split(example)
        name = max((p for p in COMMANDS if words[: len(p)] == list(p)), key=len)
        assert name[: len(path)] == path
        assert not hasattr(COMMANDS[name], "commands"), example
        COMMANDS[name].make_context(" ".join(name), words[len(name) :]).close()


def test_what_an_extra_brings_is_named_in_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["tailmiss", "simulate", "maze", "--policy", "transformer"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "tailmiss: this needs torch: pip install 'tailmiss[torch]'\n"
    assert set(cli.EXTRAS.values()) <= set(metadata.metadata("tailmiss").get_all("Provides-Extra"))


def hear_ctrl_c():
    """Also where the tests run in the background of a shell, which has its jobs ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_long_run_at_once():
    process = subprocess.Popen(
        [COMMAND, "simulate", "categorical", "--N", "2048", "--steps", "200000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    try:
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted; what was finished is kept\n"


@pytest.mark.parametrize("simulator", ["categorical", "tokens", "maze"])
def test_what_a_config_has_a_field_for_is_no_option_of_the_rule(simulator):
    made = run("simulate", simulator, "--steps", 1, "--rule-option", "gamma=1")
    assert made.returncode == 2
    assert made.stderr.startswith("tailmiss: rule_options must map names of the rule's own options")


def test_too_little_memory_is_one_line_and_exit_2():
    made = run("simulate", "categorical", "--steps", 10**14, "--record-every", 1)
    assert (made.returncode, made.stderr.count("\n")) == (2, 1)
    assert "memory" in made.stderr
