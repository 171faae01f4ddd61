"""The wheel alone, without torch, on every Python it claims: the README's commands run from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from readme import COMMANDS, PYTHON, ROOT, write_files

pytestmark = pytest.mark.long
VERSIONS = ("3.11", "3.12", "3.13")
EXTRA = "pip install 'tailmiss["


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of the sources, so that no older build folder can help."""
    path = tmp_path_factory.mktemp("wheel")
    source = path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("tailmiss", "sims", "figures"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(path), str(source)]
    subprocess.run(pip, check=True)
    (found,) = path.glob("tailmiss-*.whl")
    return found


def interpreter(version):
    """The Python of that version on PATH, or of pyenv."""
    on_path = shutil.which(f"python{version}")
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in ([on_path] if on_path else []) + homes:
        asked = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True)  # a pyenv shim may refuse
        if answer.stdout.strip() == version:
            return found
    pytest.skip(f"no Python {version} on PATH or in ~/.pyenv/versions")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_command_of_the_readme_runs_from_the_wheel(version, wheel, tmp_path):
    """What needs an extra says in one line which."""
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    subprocess.run([interpreter(version), "-m", "venv", environment], check=True)
    bin_ = environment / "bin"
    subprocess.run([bin_ / "pip", "install", "-q", wheel], check=True)
    folder.mkdir()
    write_files(folder)

    def run(*command):
        return subprocess.run(
            [bin_ / command[0], *command[1:]], cwd=folder, capture_output=True, text=True
        )

    assert run("python", "-c", "import torch").returncode != 0
    refused = []
    for command in COMMANDS:
        done = run(*command.split())
        if done.returncode:
            refused.append(command)
            assert done.returncode == 2, (command, done.stderr)
            assert EXTRA in done.stderr, command
            assert len(done.stderr.strip().splitlines()) == 1, command
        else:
            assert done.stdout.strip(), command
    assert len(refused) <= 1, refused  # the HTML report
    assert (folder / "out" / "fig1a.png").exists()

    for block in PYTHON:
        done = run("python", "-W", "error", "-c", block)
        if "torch" in block or "trl" in block:
            assert "No module named" in done.stderr.splitlines()[-1]
        else:
            assert done.returncode == 0, done.stderr
