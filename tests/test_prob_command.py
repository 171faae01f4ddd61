"""`tailmiss prob` over the closed ranges of the formula."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tailmiss.cli import app
from tailmiss.tail_miss import miss_prob, mixed_group_prob, tail_miss_prob


def printed(N, mu_pos, tau):
    asked = ["prob", "--N", str(N), "--mu-pos", str(mu_pos), "--tau", str(tau)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.exception
    return dict(line.split("  ", 1) for line in result.stdout.splitlines())


@pytest.mark.parametrize("N", [1, 2, 8, 4096])
@pytest.mark.parametrize(
    ("mu_pos", "tau"),
    [(0.5, 0.01), (0.5, 0), (0, 0), (1, 0), (1, 0.2), (1, 1), (0.3, 0.3), (1e-300, 0), (1, 1e-300)],
)
def test_every_value_is_the_librarys(N, mu_pos, tau):
    rows = {name: text.split()[0] for name, text in printed(N, mu_pos, tau).items()}
    for name, value in {
        "mixed group": mixed_group_prob(N, mu_pos),
        "no rare correct rollout": miss_prob(N, tau),
        "tail miss (mixed, none rare)": tail_miss_prob(N, mu_pos, tau),
    }.items():
        assert float(rows[name]) == pytest.approx(value, rel=1e-5, abs=1e-300)
    peak = float(rows["tail miss at its worst N"])
    curve = tail_miss_prob(np.arange(1, 5000), mu_pos, tau)
    assert peak >= curve.max() * (1 - 1e-5)


@pytest.mark.parametrize(
    ("mu_pos", "tau", "said"),
    [
        (0.5, 0, "nothing is rare: a larger group is only mixed more often"),
        (1, 0.2, "nowhere: every rollout is correct"),
        (0, 0, "nowhere: no rollout is correct"),
        (0.3, 0.3, "nowhere: every correct rollout is rare"),
        (0.5, 0.01, "past the worst group size 7"),
    ],
)
def test_where_is_said_at_the_ends_too(mu_pos, tau, said):
    assert said in printed(8, mu_pos, tau)["where"]
