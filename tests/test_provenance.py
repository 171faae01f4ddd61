"""What made a result is told: the commit where the code lies in its checkout, and nothing else."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess

import pytest

from tailmiss import provenance


def load(path):
    spec = importlib.util.spec_from_file_location("copied", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_commit_is_named_only_in_a_checkout_of_the_code(tmp_path):
    folder = tmp_path / "tailmiss"
    folder.mkdir()
    path = folder / "provenance.py"
    shutil.copy(provenance.__file__, path)
    assert load(path).record()["commit"] is None
    if not shutil.which("git"):
        pytest.skip("no git")
    git(tmp_path, "init", "-q")
    assert load(path).record()["commit"] is None  # as a package installed inside someone's project
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    here = git(tmp_path, "rev-parse", "--short", "HEAD")
    assert load(path).record()["commit"] == here
    path.write_text(path.read_text() + "\n")
    assert load(path).record()["commit"] == f"{here}-changed"


def test_a_record_has_its_parameters_versions_and_machine():
    made = provenance.record(N=8)
    assert made["parameters"] == {"N": 8}
    assert made["software"]["tailmiss"]
    assert made["machine"]["cores"] >= 1
    assert made["commit"] is None or re.fullmatch(r"[0-9a-f]{7,40}(-changed)?", made["commit"])
