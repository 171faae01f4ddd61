"""Pure tensor functions against NumPy, enumeration and their own rules."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import tailmiss
from tailmiss import focal_weight

torch = pytest.importorskip("torch")

import tailmiss.torch as tt  # noqa: E402
from tailmiss.torch import focal, reco  # noqa: E402

GAMMAS = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def every_count(largest):
    """One group for each (n, k), n <= largest: flags, ids, and the NumPy rate of each rollout."""
    flags, ids, rate = [], [], []
    pairs = [(n, k) for n in range(1, largest + 1) for k in range(n + 1)]
    for group, (n, k) in enumerate(pairs):
        flags += [1.0] * k + [0.0] * (n - k)
        ids += [group] * n
        rate += [k / n] * n
    return np.array(flags), np.array(ids), np.array(rate)


@pytest.mark.parametrize("module", [focal, reco])
def test_docstring_examples(module):
    results = doctest.testmod(module, extraglobs={"torch": torch})
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_weights_equal_numpy_to_the_last_bit(gamma, rng):
    flags, ids, rate = every_count(64)
    order = rng.permutation(len(flags))
    found = tt.focal_weights(torch.tensor(flags[order]), torch.tensor(ids[order]), gamma)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), focal_weight(rate[order], gamma))


@pytest.mark.parametrize("rule", tailmiss.RULES)
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_advantages_equal_the_table_to_the_last_bit(rule, gamma, rng):
    flags, ids, rate = every_count(12)
    order = rng.permutation(len(flags))
    found = tt.advantages(rule, torch.tensor(flags[order]), torch.tensor(ids[order]), gamma=gamma)
    sizes = np.bincount(ids)[ids]
    expected = []
    for flag, n, mean in zip(flags, sizes, rate, strict=True):
        try:
            pair = tailmiss.advantage_table(rule, int(n), gamma=gamma)
        except ValueError:  # too small a group for the rule: no signal
            pair = np.zeros((2, n + 1))
        expected.append(pair[0 if flag else 1][round(mean * n)])
    assert np.array_equal(found.numpy(), np.array(expected)[order])
