"""Every command and Python block of the README runs, in a folder that is not the project's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
COMMANDS = [
    line.split("#")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.startswith("tailmiss ")
]
PYTHON = [text for language, text in BLOCKS if language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two files that the README speaks of."""
    path = tmp_path_factory.mktemp("stranger")
    with open(path / "rollouts.jsonl", "w") as file:
        for prompt in range(12):
            for i in range(8):
                row = {
                    "prompt": f"p{prompt}",
                    "reward": int(i < prompt % 9),
                    "completion": f"a {i}",
                }
                file.write(json.dumps(row) + "\n")
    (path / "k_value.csv").write_text("k,value\n1,20.0\n4,41.3\n16,62.1\n64,78.4\n")
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
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_line_of_code_fits_a_terminal():
    for _, text in BLOCKS:
        assert max(map(len, text.splitlines())) <= 105
