import pytest
import sympy

from tailmiss import reco_symbolic


@pytest.mark.parametrize("statement", reco_symbolic.STATEMENTS, ids=lambda f: f.__name__)
def test_sympy_proves_the_statement(statement):
    assert isinstance(statement(), sympy.Equality)


def test_sympy_refuses_a_false_statement():
    with pytest.raises(ValueError, match="not equal"):
        reco_symbolic.proved(reco_symbolic.p, reco_symbolic.p**2)
