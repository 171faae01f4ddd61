"""Timing bars of the audits, of a large rollout file and of every published pass@k curve."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from rollout_files import verl
from test_curves import published
from test_training_log import log_of
from timings import in_turns

from tailmiss import audit
from tailmiss.curves import audit_curve

pytestmark = pytest.mark.bench
AUDIT = """
import sys
from tailmiss import audit, read_rollouts

found = audit(read_rollouts(sys.argv[1]))
assert found.scored == 1_000_000
assert (found.text.groups, found.text.of_groups) == (1000, 125_000)
"""


def test_a_million_rollouts(tmp_path, measured):
    """400 MB of JSON lines are read and audited in under 30 s and 2 GB, in a process of its own.

    Every rollout has a response of twenty words; the audit measures those of 1,000 groups.
    """
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for i in range(1_000_000):
            row = verl(i, acc=i % 7 == 0, pred=str(i % 5))
            words = " ".join(f"word{i * k % 997}" for k in range(1, 20))
            row |= {"input": f"question {i // 8} " + "x" * 120, "output": f"{words} {i}"}
            file.write(json.dumps(row) + "\n")
    assert path.stat().st_size > 3e8

    def count():
        """What a script of five lines does: the correct rollouts of each prompt."""
        correct = Counter()
        with path.open() as file:
            for line in file:
                row = json.loads(line)
                correct[row["input"]] += row["acc"]
        assert len(correct) == 125_000

    audit, counting = in_turns(
        lambda: subprocess.run([sys.executable, "-c", AUDIT, path], check=True),
        count, repeats=1, warm_up=0, clock=time.perf_counter,
    )  # fmt: skip
    what = "audit of a million rollouts, 400 MB of JSON, wall time"
    measured(what, audit, "json.loads and a Counter", counting, within=30)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2_000_000


def test_a_thousand_training_steps(measured):
    """64 prompts of 8 rollouts at each step, every step audited: under 30 s."""
    rollouts = log_of(np.random.default_rng(0), steps=1000)
    (ours,) = in_turns(lambda: audit(rollouts), repeats=1, warm_up=0)
    measured("audit of 1,000 training steps of 64 prompts", ours, within=30)


def test_all_published_curves_in_20_seconds(measured):
    curves = [rows for _, rows in published()]

    def run():
        for rows in curves:
            audit_curve(rows["k"], rows["value"] / 100, 1024, half_width=5e-4, at=())

    (ours,) = in_turns(run, repeats=1, warm_up=0)
    measured(f"bounds of {len(curves)} published pass@k curves", ours, within=20)
