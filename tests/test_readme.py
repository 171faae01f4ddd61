"""Every command and Python block of the README runs, in a folder that is not the project's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from readme import BLOCKS, COMMANDS, PYTHON, ROOT, TEXT, write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("stranger")
    write_files(path)
    return path


def test_the_readme_shows_every_command():
    shown = {command.split()[1] for command in COMMANDS}
    assert shown == {"audit", "plan", "prob", "figures", "simulate"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command, folder):
    tool = shutil.which("tailmiss", path=str(Path(sys.executable).parent))
    done = subprocess.run(
        [tool, *command.split()[1:]], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("block", PYTHON, ids=[text.splitlines()[0] for text in PYTHON])
def test_a_python_block_runs(block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    scope: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), scope)
    assert set(re.findall(r"^(\w+) = ", block, re.M)) <= set(scope)


def test_numbers_in_comments_are_what_the_code_gives():
    scope: dict[str, object] = {}
    exec("from tailmiss import *", scope)
    checked = 0
    for block in PYTHON:
        for call, value in re.findall(r"^(\w+\(.*\))\s+# ([\d.]+)(?=[:\s]|$)", block, re.M):
            assert eval(call, scope) == pytest.approx(float(value), abs=5e-4)
            checked += 1
    assert checked >= 3


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_every_line_of_code_fits_a_terminal():
    for _, text in BLOCKS:
        assert max(map(len, text.splitlines())) <= 105
