"""Theorems are proved, say what the library computes, and false ones are not proved."""

import subprocess
import sys

import numpy as np
import pytest

from tailmiss import advantage_table, learning_rate_multiplier, mass_change, tail_miss_prob
from tailmiss import weight_function as computed_weight

sp = pytest.importorskip("sympy")

from tailmiss import _theorem, symbolic  # noqa: E402
from tailmiss import symbolic_redistribution as written  # noqa: E402


@pytest.mark.parametrize("state", symbolic.THEOREMS, ids=lambda f: f.__name__)
def test_theorem_is_proved(state):
    theorem = state()
    assert [step for step, holds in theorem.steps if not holds] == []
    assert theorem.proved


def test_false_statements_are_not_proved():
    drift = symbolic.unsampled_correct_mass_change().statement.rhs
    assert _theorem.equal(drift, drift + 0)
    assert not _theorem.equal(drift, drift + written.eta / _theorem.N * written.A_2)
    assert not _theorem.equal(drift, drift.subs(written.S_R, -written.S_R))
    c, n = sp.Symbol("c", positive=True), _theorem.N
    assert not _theorem.equal(c ** (n + 1), c**n)
    assert not _theorem.theorem("", "", None, {"a step SymPy cannot decide": None}).proved
    assert not _theorem.theorem("", "", None, {}).proved


def test_a_step_that_does_not_hold_is_printed_and_told_by_the_exit_status(capsys):
    def doubtful():
        return _theorem.theorem("Name", "source", 1, {"this holds": True, "this does not": None})

    assert _theorem.report([doubtful, symbolic.tail_miss]) == 1
    assert capsys.readouterr().out.startswith(
        "Name  (source)\n  1\n  proved: this holds\n  FAILED: this does not\n\nTail-miss"
    )


def test_tail_miss_statement_is_what_is_computed():
    statement = symbolic.tail_miss().statement.rhs
    by_name = {str(s): s for s in statement.free_symbols}
    for N, mu, tau in ((1, 0.5, 0.25), (5, 0.75, 0.125), (9, 0.25, 0.03125)):
        exact = statement.subs(
            {by_name[name]: sp.Rational(x) for name, x in (("N", N), ("mu", mu), ("tau", tau))}
        )
        assert tail_miss_prob(N, mu, tau) == pytest.approx(float(exact), rel=1e-14)


def test_mass_change_statements_are_what_is_computed(rng):
    p, correct = rng.dirichlet(np.ones(8)), np.arange(8) < 5
    counts = np.array([1, 0, 2, 0, 1, 0, 1, 0])
    sampled = counts > 0
    found = mass_change(p, correct, counts, group_size=5, eta=0.5, reward_wrong=-0.25)

    def square(which):
        return (p[which] ** 2).sum()

    values = {
        "N": 5, "eta": 0.5, "R_c": 1.0, "R_w": -0.25,
        "S_R": p[sampled & correct].sum() - 0.25 * p[sampled & ~correct].sum(),
        "A_2": square(sampled & correct), "B_2": square(sampled & ~correct),
        "U_pos2": square(~sampled & correct), "U_neg2": square(~sampled & ~correct),
        "Q_pos": p[correct].sum(), "Q_u_pos": p[~sampled & correct].sum(),
    }  # fmt: skip
    for theorem, value in (
        (symbolic.correct_mass_change(), found.delta_pos),
        (symbolic.unsampled_correct_mass_change(), found.delta_unsampled_pos),
    ):
        formula = theorem.statement.rhs
        stated = formula.subs({s: values[str(s)] for s in formula.free_symbols})
        assert value == pytest.approx(float(stated), abs=1e-16)


def test_multiplier_and_weight_statements_are_what_is_computed():
    multiplier = symbolic.learning_rate().statement.rhs
    (gamma,) = multiplier.free_symbols
    for value in (0, 0.5, 1, 2, 3.25):
        stated = float(multiplier.subs(gamma, value).evalf())
        assert learning_rate_multiplier(value) == pytest.approx(stated, rel=1e-14)
    weight = symbolic.weight_function().statement.rhs
    a, b = advantage_table("grpo", 5)
    (p,) = (s for s in weight.free_symbols if str(s) == "p")
    written = weight.subs(_theorem.N, 5).doit()
    tables = {sp.IndexedBase("a")[K]: a[K] for K in range(6)}
    tables |= {sp.IndexedBase("b")[K]: b[K] for K in range(6)}
    for share in (0.1, 0.5, 0.8):
        stated = float(written.subs(tables).subs(p, share))
        assert computed_weight("grpo", 5, share) == pytest.approx(stated, rel=1e-13)


def test_the_module_prints_all_proofs():
    run = subprocess.run(
        [sys.executable, "-m", "tailmiss.symbolic"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("proved: ") >= 2 * len(symbolic.THEOREMS)
    assert "FAILED" not in run.stdout
