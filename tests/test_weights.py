"""The weights are plain arithmetic: one definition on floats, NumPy, torch, SymPy and numba."""

import importlib.util
import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailmiss import weights

GRID = np.linspace(0.02, 0.98, 25)
CASES = [
    (weights.focal_weight, (GRID, 0.0)),
    (weights.focal_weight, (GRID, 0.5)),
    (weights.focal_weight, (GRID, 2.0)),
    (weights.response_weight, (-4 * GRID, 8.0)),
    (weights.variance_ratio, (GRID, GRID[::-1].copy())),
]
IDS = [f"{function.__name__}-{n}" for n, (function, _) in enumerate(CASES)]


def by_element(function, arguments):
    rows = zip(*np.broadcast_arrays(*arguments), strict=True)
    return [function(*(float(x) for x in row)) for row in rows]


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=IDS)
class TestParity:
    def test_numpy_and_float(self, function, arguments):
        found = function(*arguments)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, by_element(function, arguments), rtol=1e-15)

    def test_numba(self, function, arguments):
        found = by_element(numba.njit(function), arguments)
        np.testing.assert_allclose(found, function(*arguments), rtol=4e-16)

    def test_sympy(self, function, arguments):
        sp = pytest.importorskip("sympy")
        x, y = sp.symbols("x y", positive=True)
        formula = function(x, y)
        rows = zip(*np.broadcast_arrays(*arguments), strict=True)
        exact = [
            float(formula.subs({x: sp.Float(float(a), 40), y: sp.Float(float(b), 40)}).evalf(30))
            for a, b in rows
        ]
        np.testing.assert_allclose(function(*arguments), exact, rtol=5e-15)

    def test_torch(self, function, arguments):
        torch = pytest.importorskip("torch")
        tensors = [torch.as_tensor(a) if np.ndim(a) else a for a in arguments]
        found = function(*tensors)
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), function(*arguments), rtol=1e-15)
        single = function(*(t.float() if np.ndim(t) else t for t in tensors))
        assert single.dtype == torch.float32
        np.testing.assert_allclose(single.numpy(), function(*arguments), rtol=2e-6)


@given(st.floats(0, 1), st.floats(0, 20))
def test_focal_weight_is_one_power_of_the_failure_rate(rate, gamma):
    value = weights.focal_weight(rate, gamma)
    assert 0 <= value <= 1
    assert weights.focal_weight(rate, 0) == 1  # also at rate 1
    assert weights.focal_weight(0.0, gamma) == 1
    assert weights.focal_weight(rate, gamma + 1) == pytest.approx((1 - rate) * value, abs=1e-15)


@given(st.floats(-700, 0), st.integers(1, 1024))
def test_response_weight_replaces_one_over_the_group(mean_logp, size):
    value = weights.response_weight(mean_logp, size)
    assert value >= 1 / size
    assert value == pytest.approx(math.exp(-mean_logp) / size, rel=(1 + abs(mean_logp)) * 2.3e-16)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
def test_variance_ratio_is_one_on_policy_and_symmetric(p, old):
    assert weights.variance_ratio(p, p) == 1
    product = weights.variance_ratio(p, old) * weights.variance_ratio(old, p)
    assert product == pytest.approx(1, rel=1e-14)
    assert weights.variance_ratio(p, old) == pytest.approx(
        weights.variance_ratio(1 - p, old), rel=1e-9
    )


def test_the_module_imports_nothing():
    source = importlib.util.find_spec("tailmiss.weights").loader.get_source("tailmiss.weights")
    assert "import" not in source.replace("Nothing is imported", "")
    assert math.e == weights.EULER
