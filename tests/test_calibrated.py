import pytest

from calibrated import assert_bernoulli, assert_mean


def test_correct_samplers_pass(rng):
    assert_bernoulli(rng.binomial(200_000, 0.3), 200_000, 0.3, detects=0.01)
    assert_mean(rng.normal(2.0, 1.0, 200_000), 2.0, detects=0.03)


@pytest.mark.parametrize("wrong", [0.29, 0.31])
def test_wrong_bernoulli_is_caught(rng, wrong):
    with pytest.raises(AssertionError, match="outside"):
        assert_bernoulli(rng.binomial(200_000, wrong), 200_000, 0.3, detects=0.01)


def test_wrong_mean_is_caught(rng):
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_mean(rng.normal(2.03, 1.0, 200_000), 2.0, detects=0.03)


def test_a_test_too_weak_for_its_claim_is_refused(rng):
    with pytest.raises(AssertionError, match="cannot tell"):
        assert_bernoulli(30, 100, 0.3, detects=0.01)
    with pytest.raises(AssertionError, match="draws see"):
        assert_mean(rng.normal(size=100), 0.0, detects=0.01)


def test_false_alarm_rate_is_the_stated_one(rng):
    fails = 0
    for hits in rng.binomial(2_000, 0.5, 4_000):
        try:
            assert_bernoulli(int(hits), 2_000, 0.5, false_fail=0.05, detects=0.1)
        except AssertionError:
            fails += 1
    assert 100 <= fails <= 250
