import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from calibrated import assert_mean
from naive.reco import enumerated_mass_change
from tailmiss import RULES, advantage_table, variance_ratio
from tailmiss.reco import READINGS, clip_points, gradient_factor, is_masked, net_push
from tailmiss.reco_redistribution import estimate_reco_mass_change, expected_reco_mass_change
from tailmiss.redistribution import expected_mass_change
from tailmiss.sims.tokens import TOKEN_RULES

inside = st.floats(1e-6, 1 - 1e-6)
FIELDS = (
    "delta_pos",
    "delta_unsampled_pos",
    "direct_drift",
    "normalization_coupling",
    "baseline",
)


def test_theory_and_simulator_name_the_same_readings():
    assert READINGS == TOKEN_RULES


@pytest.mark.parametrize("sign", [-1, 1])
@given(p=inside)
def test_on_policy_only_autograd_and_absolute_differ_from_grpo(sign, p):
    for reading in READINGS:
        expected = 1.0
        if reading == "variance_autograd":
            expected = (1 - 2 * p) / (1 - p)
        elif reading == "variance_absolute":
            expected = 4 * p * (1 - p)
        assert gradient_factor(reading, p, p, sign) == expected


@given(p=st.floats(0.01, 0.99), p_old=st.floats(0.01, 0.99))
def test_autograd_is_the_derivative_of_the_ratio_in_log_p(p, p_old):
    """d v / d log p = p dv/dp, by a complex step."""
    h = 1e-30
    slope = p * variance_ratio(p + 1j * h, p_old).imag / h
    factor = gradient_factor("variance_autograd", p, p_old, 1, clip_high=np.inf)
    assert factor == pytest.approx(slope, rel=1e-12, abs=1e-12)


def test_published_points_of_the_autograd_factor():
    p = np.array([0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
    factor = gradient_factor("variance_autograd", p, p)
    np.testing.assert_allclose(factor, [0.5714, 0, -1.3333, -8, -98, -998], atol=1e-4)


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=6))
def test_autograd_on_policy_is_an_anti_saturation_regulariser(z):
    """sum_a pi_a f(pi_a) grad log pi_a = -grad_z sum_a phi(pi_a), phi = -x - ln(1-x)."""
    z = np.array(z)

    def softmax(z):
        e = np.exp(z - z.real.max())
        return e / e.sum()

    def potential(z):
        pi = softmax(z)
        return np.sum(-pi - np.log(1 - pi))

    pi = softmax(z)
    assume(pi.max() < 1 - 1e-6)
    f = gradient_factor("variance_autograd", pi, pi)
    left = pi * f - pi * (pi @ f)
    eye, h = np.eye(z.size), 1e-30
    right = [-potential(z + 1j * h * e).imag / h for e in eye]
    np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-9)


@given(p_old=inside, bound=st.floats(0.1, 3.0))
def test_clip_points_bracket_the_masked_region(p_old, bound):
    low, high = clip_points(p_old, bound)
    if 4 * bound * p_old * (1 - p_old) > 1:
        assert np.isnan(low)
        assert np.isnan(high)
        return
    assume(low < 0.5 - 1e-4)
    for point in (low, high):
        assert variance_ratio(point, p_old) == pytest.approx(bound, rel=1e-8)
    step = 1e-3 * min(low, 0.5 - low)
    between, outside = np.array([low + step, high - step]), np.array([low - step, high + step])
    rising = {"clip_high": bound - 1} if bound >= 1 else None
    falling = {"clip_low": 1 - bound} if bound <= 1 else None
    if rising:
        assert is_masked("variance_ppo", between, p_old, 1, **rising).all()
        assert not is_masked("variance_ppo", outside, p_old, 1, **rising).any()
    if falling:
        assert not is_masked("variance_ppo", between, p_old, -1, **falling).any()
        assert is_masked("variance_ppo", outside, p_old, -1, **falling).all()


def test_a_clip_on_the_variance_ratio_is_no_trust_region():
    low, _ = clip_points(0.9, 0.8)
    assert low == pytest.approx(0.0781, abs=1e-4)
    assert brentq(lambda p: p / 0.9 - 0.8, 0.1, 0.9) == pytest.approx(0.72)
    assert gradient_factor("variance", 0.5, 0.9, -1) == pytest.approx(0.25 / 0.09)
    assert gradient_factor("variance", 0.5, 0.99, -1) == pytest.approx(25.25, abs=0.01)
    edge = np.array([0.296, 0.704])
    np.testing.assert_allclose(variance_ratio(0.5, edge), 1.2, atol=1e-3)
    np.testing.assert_allclose(clip_points(0.99, 1.2)[1], 0.98797, atol=1e-5)
    np.testing.assert_allclose(clip_points(0.99, 0.8)[1], 0.99202, atol=1e-5)


@given(p=inside, p_old=inside, sign=st.sampled_from([-1, 1]))
def test_detached_readings_are_the_ratio_where_nothing_masks(p, p_old, sign):
    v = variance_ratio(p, p_old)
    for reading, watched in (("variance_ppo", v), ("variance_ratio_mask", p / p_old)):
        cut = watched > 1.2 if sign > 0 else watched < 0.8
        assert gradient_factor(reading, p, p_old, sign) == (0.0 if cut else v)
    assert gradient_factor("variance", p, p_old, sign) == v
    assert gradient_factor("variance_cispo", p, p_old, sign) == min(max(v, 0.8), 1.2)
    assert gradient_factor("variance", p, p_old, sign, cap=2.0) == min(v, 2.0)


def test_torch_adapter_has_the_same_coefficients(rng):
    torch = pytest.importorskip("torch")
    reco = pytest.importorskip("tailmiss.torch.reco")
    p, p_old = rng.uniform(0.01, 0.99, (2, 200))
    A = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    logs = [torch.tensor(np.log(x)[:, None]) for x in (p, p_old)]
    for mode, reading in (
        ("none", "variance"),
        ("ppo", "variance_ppo"),
        ("cispo", "variance_cispo"),
        ("ratio_mask", "variance_ratio_mask"),
    ):
        theirs = reco.token_coefficients(*logs, torch.tensor(A), mode=mode, cap=10.0)
        ours = gradient_factor(reading, p, p_old, A, cap=10.0)
        np.testing.assert_allclose(theirs[:, 0].numpy(), ours, rtol=1e-9)


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("rule", ["grpo", "maxrl", "psr", "nsr"])
@pytest.mark.parametrize(("length", "cap"), [(1, np.inf), (1, 3.0), (4, 5.0), (30, 1.1)])
def test_expected_mass_change_equals_enumeration(surrogate, rule, length, cap):
    policies = [
        ([0.5, 0.2, 0.2, 0.1], [1, 1, 0, 0]),
        ([0.6, 0.05, 0.15, 0.2], [0, 1, 1, 1]),
        ([0.7, 0.3], [1, 1]),
        ([0.7, 0.3], [0, 0]),
    ]
    for (p, correct), N, gamma in zip(policies, (4, 5, 3, 2), (0, 1, 0.5, 0), strict=True):
        how = {"rule": rule, "gamma": gamma, "length": length, "cap": cap, "surrogate": surrogate}
        exact = expected_reco_mass_change(p, correct, N, **how)
        expected = enumerated_mass_change(p, correct, N, self_normalize=False, **how)
        np.testing.assert_allclose([getattr(exact, f) for f in FIELDS], expected, atol=1e-13)


@pytest.mark.parametrize("surrogate", ["ratio", "probability"])
@pytest.mark.parametrize("rule", RULES)
def test_without_the_weight_it_is_the_plain_expected_mass_change(surrogate, rule, rng):
    p = rng.dirichlet(np.full(300, 0.3))
    correct = rng.random(300) < 0.4
    plain = expected_mass_change(p, correct, 16, rule=rule, gamma=0.5, surrogate=surrogate)
    ours = expected_reco_mass_change(
        p, correct, 16, rule=rule, gamma=0.5, surrogate=surrogate, cap=1
    )
    for name in FIELDS:
        assert getattr(ours, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("self_normalize", [False, True])
def test_monte_carlo_twin_agrees(self_normalize, rng):
    p, correct, N = [0.5, 0.2, 0.2, 0.1], [1, 1, 0, 0], 4
    how = {"rule": "grpo", "gamma": 0.0, "length": 2, "cap": 5.0}
    groups = 400_000
    found = estimate_reco_mass_change(
        p, correct, N, groups=groups, rng=rng, self_normalize=self_normalize, **how
    )
    expected = enumerated_mass_change(
        p, correct, N, surrogate="ratio", self_normalize=self_normalize, **how
    )
    for name, value in zip(FIELDS, expected, strict=True):
        estimate = getattr(found, name)
        assert estimate.trials == groups
        assert abs(estimate.value - value) <= 6.2 * estimate.standard_error + 1e-15
        assert estimate.standard_error < 0.004


def test_monte_carlo_agrees_at_size(rng):
    p = np.repeat([0.04, 0.01], [15, 40])
    correct = np.arange(55) % 3 == 0
    exact = expected_reco_mass_change(p, correct, 8, length=4)
    found = estimate_reco_mass_change(p, correct, 8, length=4, groups=50_000, rng=rng)
    for name in FIELDS:
        estimate = getattr(found, name)
        assert abs(estimate.value - getattr(exact, name)) <= 6.2 * estimate.standard_error


@pytest.mark.parametrize("length", [1, 4, np.inf])
def test_own_rollouts_push_by_the_power_of_p_that_the_length_leaves(length, rng):
    """E[n_i omega_i A_i] is the same multiple of p_i^(1-1/L) for every correct answer."""
    p, N = np.array([0.4, 0.05, 0.55]), 6
    counts = rng.multinomial(N, p, size=400_000)[:, :2]
    a, _ = advantage_table("rloo", N)
    pushed = counts * p[:2] ** (-1 / length) * a[counts.sum(axis=1)][:, None]
    share = p[:2] ** (1 - 1 / length)
    assert_mean(pushed[:, 0] / share[0] - pushed[:, 1] / share[1], 0.0, detects=0.2)


def test_net_push_of_the_worked_example():
    logp = np.log([0.93, 0.94, 0.95, 0.87, 0.88, 0.89, 0.90, 0.91])
    a, b = advantage_table("grpo", 8)
    A = np.where(np.arange(8) < 3, a[3], b[3])
    assert net_push(logp, A) == pytest.approx(-0.029, abs=5e-4)
    assert net_push(np.zeros(8), A) == pytest.approx(0, abs=1e-15)
    assert net_push(logp, A, self_normalize=True) < 0
    assert net_push(logp, A, cap=1) == pytest.approx(0, abs=1e-15)
    assert net_push([-800.0, -1e-9], [1.0, -1.0]) == pytest.approx(5 / 2 - 1 / 2), "no overflow"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_factor("ppo", 0.5, 0.5), "reading must be one of"),
        (lambda: gradient_factor("variance", [0.5, 1.0], 0.5), r"p must be in \(0, 1\).*index 1"),
        (lambda: gradient_factor("variance", 0.5, 0.0), "p_old must be in"),
        (lambda: gradient_factor("variance", 0.5, 0.5, cap=0.5), "cap must be in"),
        (lambda: is_masked("importance", 0.5, 0.5, clip_low=-0.1), "clip_low must be in"),
        (lambda: clip_points(0.5, -1), "bound must be finite and >= 0; got -1"),
        (lambda: net_push([0.1], [1.0]), "mean_logp must be in"),
        (lambda: net_push([-0.1], [1.0], cap=0.1), "cap must be in"),
        (lambda: net_push([-0.1, -0.2], [1.0]), r"must both be \(..., G\)"),
        (lambda: net_push(-0.1, 1.0), r"must both be \(..., G\)"),
        (lambda: net_push([], []), r"must both be \(..., G\), G >= 1; got \(0,\)"),
        (lambda: estimate_reco_mass_change([1], [1], 2, cap=[2, 3], groups=1), "cap must be one"),
        (lambda: expected_reco_mass_change([0.5, 0.5], [1, 0], 2, length=0.5), "length must be"),
        (lambda: expected_reco_mass_change([0.5, 0.5], [1, 0], 2, rule="x"), "rule must be one"),
        (lambda: expected_reco_mass_change([0.5, 0.4], [1, 0], 2), "p must"),
        (lambda: expected_reco_mass_change([0.5, 0.5], [1, 0], 2, eta=np.nan), "eta must be"),
        (lambda: expected_reco_mass_change([1.0], [1], 2, length=[1, 2]), "length must be one"),
        (lambda: estimate_reco_mass_change([0.5, 0.5], [1, 0], 2, groups=0), "groups must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
