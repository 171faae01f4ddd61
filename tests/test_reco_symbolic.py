"""ReCo's identities are proved, agree with what is computed, and false ones are refused."""

import subprocess
import sys

import pytest

from tailmiss.reco import clip_points, gradient_factor

sympy = pytest.importorskip("sympy")

from tailmiss import reco_symbolic  # noqa: E402


@pytest.mark.parametrize("state", reco_symbolic.THEOREMS, ids=lambda f: f.__name__)
def test_theorem_is_proved(state):
    theorem = state()
    assert [step for step, holds in theorem.steps if not holds] == []
    assert theorem.proved


def test_statements_are_what_is_computed():
    by_name = {"p": 0.7, "p_0": 0.6, "b": 1.02}
    factor = reco_symbolic.differentiated_ratio().statement.rhs / sympy.Symbol("grad log p")
    values = {x: by_name[str(x)] for x in factor.free_symbols}
    computed = gradient_factor("variance_autograd", 0.7, 0.6)
    assert float(factor.subs(values)) == pytest.approx(computed, rel=1e-12)
    low = reco_symbolic.clip_is_no_trust_region().statement.rhs
    values = {x: by_name[str(x)] for x in low.free_symbols}
    assert float(low.subs(values)) == pytest.approx(clip_points(0.6, 1.02)[0], rel=1e-12)


def test_a_false_identity_is_not_zero():
    assert not reco_symbolic._zero(reco_symbolic.V - reco_symbolic.p / reco_symbolic.p_0)


def test_module_prints_its_proofs():
    done = subprocess.run(
        [sys.executable, "-m", "tailmiss.reco_symbolic"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "proved: negative for p > 1/2: -8 at p = 0.9 on policy" in done.stdout
    assert "FAILED" not in done.stdout
