"""Every ufunc-like public function: broadcasting, kinds of input, extremes, and refusals.

One table names the functions; the properties hold for each of them. The last test makes sure that
every public function has a property somewhere.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import tailmiss
from tailmiss import sims
from tailmiss import torch as tt

MASS = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 0.5, 1 - 1e-12, np.nextafter(1, 0), 1.0]),
)
OPEN = st.one_of(st.floats(1e-6, 1 - 1e-6), st.sampled_from([1e-9, 0.5, 1 - 1e-9]))
SIZE = st.one_of(st.integers(1, 64), st.sampled_from([2**20, 2**40, 2**53]))
FEW = st.integers(1, 40)
EXPONENT = st.floats(0, 50)


def tail(draw):
    mu_pos = draw(MASS)
    return {"mu_pos": mu_pos, "tau": mu_pos * draw(MASS)}


def open_tail(draw):
    mu_pos = draw(OPEN)
    return {"mu_pos": mu_pos, "tau": mu_pos * draw(st.floats(1e-4, 0.999))}


def counts(draw):
    n = draw(FEW)
    return {"n": n, "c": draw(st.integers(0, n)), "k": draw(FEW)}


def group_of_counts(draw):
    point = counts(draw)
    return {"n": point["n"], "c": point["c"], "N": point["k"]}


def mixed(draw):
    return {"N": draw(SIZE), "mu_pos": draw(MASS)}


def g_counts(draw):
    return counts(draw) | {"tau": draw(MASS)}


CASES = {
    "mixed_group_prob": (mixed, (0, 1)),
    "miss_prob": (lambda draw: {"N": draw(SIZE), "tau": draw(MASS)}, (0, 1)),
    "tail_miss_prob": (lambda draw: {"N": draw(SIZE)} | tail(draw), (0, 1)),
    "log_tail_miss_prob": (lambda draw: {"N": draw(SIZE)} | tail(draw), (-np.inf, 0)),
    "worst_group_size": (open_tail, (2, np.inf)),
    "covering_group_size": (lambda draw: open_tail(draw) | {"delta": draw(OPEN)}, (2, np.inf)),
    "learning_rate_multiplier": (lambda draw: {"gamma": draw(EXPONENT)}, (0, 1)),
    "focal_weight": (
        lambda draw: {"success_rate": draw(MASS), "gamma": draw(EXPONENT)},
        (0, 1),
    ),
    "pass_at_k": (counts, (0, 1)),
    "pass_hat_k": (counts, (0, 1)),
    "g_pass_at_k": (g_counts, (0, 1)),
    "maj_at_k": (counts, (0, 1)),
    "mg_pass_at_k": (counts, (0, 1)),
    "mixed_share": (group_of_counts, (0, 1)),
    "tail_miss_share": (lambda draw: group_of_counts(draw) | {"rho": draw(MASS)}, (0, 1)),
}
UNCHECKED = {"focal_weight"}
INTEGERS = {"worst_group_size", "covering_group_size"}

names = pytest.mark.parametrize("name", CASES)
quick = settings(max_examples=60, deadline=None)


@names
@quick
@given(data=st.data())
def test_a_scalar_stays_in_range(name, data):
    arguments, (low, high) = CASES[name]
    values = arguments(data.draw)
    result = getattr(tailmiss, name)(**values)
    assert np.ndim(result) == 0
    undefined = "n" in values and values.get("k", values.get("N")) > values["n"]
    assert np.isnan(result) if undefined else low <= result <= high


@names
@quick
@given(data=st.data())
def test_arrays_broadcast_to_the_scalar_results(name, data):
    arguments, _ = CASES[name]
    points = [arguments(data.draw) for _ in range(3)]
    keys = list(points[0])
    together = {key: np.array([point[key] for point in points]) for key in keys}
    function = getattr(tailmiss, name)
    result = function(**together)
    assert result.shape == (3,)
    assert result.dtype == (np.int64 if name in INTEGERS else np.float64)
    one_by_one = [function(**point) for point in points]
    np.testing.assert_allclose(result, one_by_one, rtol=1e-12, atol=0)
    lists = function(**{key: column.tolist() for key, column in together.items()}) if (
        name not in UNCHECKED
    ) else result  # fmt: skip
    np.testing.assert_array_equal(result, lists)


@names
@quick
@given(data=st.data())
def test_shapes_follow_the_broadcasting_rules(name, data):
    arguments, _ = CASES[name]
    point = arguments(data.draw)
    drawn = data.draw(
        mutually_broadcastable_shapes(num_shapes=len(point), max_dims=3, max_side=3, min_side=0)
    )
    full = {
        key: np.full(shape, value)
        for (key, value), shape in zip(point.items(), drawn.input_shapes, strict=True)
    }
    assert getattr(tailmiss, name)(**full).shape == drawn.result_shape


@pytest.mark.parametrize("name", [name for name in CASES if name not in UNCHECKED])
@quick
@given(data=st.data())
def test_nan_anywhere_is_refused_by_name_and_index(name, data):
    arguments, _ = CASES[name]
    point = arguments(data.draw)
    key = data.draw(st.sampled_from(list(point)))
    place = data.draw(st.integers(0, 2))
    column = np.full(3, float(point[key]))
    column[place] = np.nan
    with pytest.raises(ValueError, match=rf"^{key} must be .*nan at index {place}$"):
        getattr(tailmiss, name)(**(point | {key: column}))


@pytest.mark.parametrize("name", [name for name in CASES if name not in UNCHECKED])
@pytest.mark.parametrize("bad", ["text", None, [[1, 2], [3]], 1j, object()])
def test_what_is_no_number_is_refused(name, bad):
    arguments, _ = CASES[name]
    keys = list(arguments(lambda strategy: 0.5 if strategy in (MASS, OPEN) else 1))
    for key in keys:
        point = dict.fromkeys(keys, 1) | {key: bad}
        with pytest.raises(ValueError, match=r" must be "):
            getattr(tailmiss, name)(**point)


@pytest.mark.parametrize("rule", tailmiss.RULES)
@quick
@given(N=st.integers(2, 300), gamma=EXPONENT, p=MASS)
def test_every_rule_has_finite_tables_and_weights(rule, N, gamma, p):
    correct, wrong = tailmiss.advantage_table(rule, N, gamma=gamma)
    assert correct.shape == wrong.shape == (N + 1,)
    assert correct[0] == wrong[N] == 0
    assert np.isfinite(correct).all()
    assert np.isfinite(wrong).all()
    assert (correct >= 0).all()
    assert np.isfinite(tailmiss.weight_function(rule, N, p, gamma=gamma))


def test_every_public_function_has_a_property():
    """It stands in the table above, or a test with @given names it."""
    named = set(CASES)
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "given(" in "".join(
                map(ast.unparse, node.decorator_list)
            ):
                named |= {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
                named |= {x.attr for x in ast.walk(node) if isinstance(x, ast.Attribute)}
    public = {(m, name) for m in (tailmiss, sims, tt) for name in m.__all__}
    functions = {name for module, name in public if inspect.isroutine(getattr(module, name))}
    assert len(functions) > 40
    assert not functions - named
