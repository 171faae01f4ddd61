"""What the figure of expected changes says: the paper's claim, its mechanism and its limits."""

import numpy as np
import pytest

from tailmiss import expected_mass_change
from tailmiss.figures import expected_change as figure

SIZES = [2, 8, 64, 1024, 16_384, 131_072]


@pytest.fixture(scope="module")
def changes():
    """(surrogate, gamma, swapped) -> one change for each of SIZES."""
    p, correct = figure.initial_policy(figure.SIMULATION)
    return {
        (surrogate, gamma, swapped): [
            expected_mass_change(
                p, correct ^ swapped, N, rule="centered", gamma=gamma, surrogate=surrogate
            )
            for N in SIZES
        ]
        for surrogate in ("ratio", "probability")
        for gamma in (0.0, 1.0)
        for swapped in (False, True)
    }


def column(changes, name):
    return np.array([getattr(change, name) for change in changes])


def test_policy_is_the_simulations():
    p, correct = figure.initial_policy(figure.SIMULATION)
    assert p[correct].sum() == pytest.approx(0.63008, abs=5e-6)
    assert p[0] == pytest.approx(4.653e-4, rel=1e-3)
    assert p[1] == pytest.approx(6.297e-5, rel=1e-3)


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_unsampled_correct_mass_falls_while_correct_mass_rises(changes, surrogate, gamma):
    found = changes[surrogate, gamma, False]
    unsampled = column(found, "delta_unsampled_pos")
    assert np.all(column(found, "delta_pos") > 0)
    assert np.all(unsampled < 0)
    assert SIZES[np.argmin(unsampled)] == 64  # worst in the middle
    assert abs(unsampled[-1]) < 3e-4 * abs(unsampled.min())
    share = column(found, "direct_drift") / unsampled
    if surrogate == "ratio":
        assert np.all(np.abs(share) < 1e-14)
    else:
        assert np.all((share > 0.5) & (share < 0.71))


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
def test_focal_weight_scales_gain_and_loss_alike(changes, surrogate):
    loss = [
        column(changes[surrogate, gamma, False], "delta_unsampled_pos")
        / column(changes[surrogate, gamma, False], "delta_pos")
        for gamma in (0.0, 1.0)
    ]
    np.testing.assert_allclose(*loss, rtol=1e-4)


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_unsampled_correct_mass_grows_where_wrong_actions_are_likelier(changes, surrogate, gamma):
    found = changes[surrogate, gamma, True]
    assert np.all(column(found, "delta_unsampled_pos") > 0)
    assert np.all(column(found, "delta_pos") > 0)


def test_table_holds_exact_values_and_intervals_that_contain_them(rng):
    params = {**figure.PARAMS["quick"], "per_octave": 1, "sampled_N": [8], "rollouts": 40_000}
    frame = figure.data(params, rng)
    assert set(frame.policy) == {"simulation", "swapped"}
    assert frame.N.min() == 2
    assert frame.N.max() == 131_072
    sampled = frame.dropna(subset=["sampled_delta_pos"])
    assert len(sampled) == 4
    for name in ("delta_pos", "delta_unsampled_pos"):
        reach = 3 * (sampled[f"{name}_high"] - sampled[f"{name}_low"])  # six half-widths
        assert np.all(np.abs(sampled[f"sampled_{name}"] - sampled[name]) < reach)
