"""Every public tensor function: ranges, order of the rollouts, kinds of ids, extreme inputs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import tailmiss  # noqa: E402
import tailmiss.torch as tt  # noqa: E402

few = settings(max_examples=40, deadline=None)
BATCHES = st.lists(
    st.tuples(st.sampled_from([0, 1, 7, 2**40, -3]), st.sampled_from([0.0, 1.0])),
    min_size=1, max_size=24,
)  # fmt: skip
LOGPS = st.one_of(
    st.floats(-60, 0), st.sampled_from([0.0, -1e-12, -1e-7, -0.5, -104.0, -1e6, -np.inf])
)


def split(batch):
    ids, success = zip(*batch, strict=True)
    return torch.tensor(success, dtype=torch.float64), torch.tensor(ids)


@few
@given(BATCHES, st.floats(0, 20), st.randoms())
def test_focal_weights_are_the_groups_own(batch, gamma, random):
    success, ids = split(batch)
    found = tt.focal_weights(success, ids, gamma)
    rates = np.array([success[ids == group].mean().item() for group in ids])
    np.testing.assert_allclose(found, tailmiss.focal_weight(rates, gamma), rtol=1e-14)
    names = [f"prompt {group}" for group in ids.tolist()]
    assert torch.equal(found, tt.focal_weights(success, names, gamma))
    order = random.sample(range(len(batch)), len(batch))
    assert torch.equal(found[order], tt.focal_weights(success[order], ids[order], gamma))
    assert torch.equal(tt.focal_weights(success.bool(), ids, gamma), found.float())


@few
@given(BATCHES, st.sampled_from(["grpo", "rloo", "maxrl", "centered", "psr"]), st.floats(0, 3))
def test_advantages_are_the_tables_entries(batch, rule, gamma):
    success, ids = split(batch)
    found = tt.advantages(rule, success, ids, gamma=gamma)
    for i, group in enumerate(ids.tolist()):
        inside = success[ids == group]
        N, K = len(inside), int(inside.sum())
        if N > 1:
            correct, wrong = tailmiss.advantage_table(rule, N, gamma=gamma)
            assert found[i].item() == pytest.approx((correct if success[i] else wrong)[K])


@few
@given(BATCHES, st.floats(0, 1))
def test_group_metrics_are_shares_of_the_batch(batch, rho):
    success, ids = split(batch)
    found = {name: value.item() for name, value in tt.group_metrics(success, ids, rho=rho).items()}
    groups = [success[ids == group] for group in ids.unique().tolist()]
    mixed = [g for g in groups if 0 < g.sum() < len(g)]
    assert Fraction(found["mixed_share"]).limit_denominator(99) == Fraction(len(mixed), len(groups))
    assert found["success_rate"] == pytest.approx(success.mean().item())
    assert 0 <= found["tail_miss"] <= found["mixed_share"]
    assert found["effective_sample_size"] == pytest.approx(len(batch))


@few
@given(
    st.lists(st.lists(LOGPS, min_size=3, max_size=3), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=15, max_size=15), st.integers(1, 64),
    st.sampled_from([None, 1.0, 5.0]), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_response_weights_stay_below_their_cap(rows, mask, size, cap, dtype):
    logps = torch.tensor(rows, dtype=dtype)
    mask = torch.tensor(mask[: logps.numel()]).reshape(logps.shape)
    found = tt.response_weights(logps, mask, size, cap=cap)
    assert found.shape == (len(rows),)
    assert found.dtype == dtype
    assert (found >= (1 - 1e-6) / size).all()
    if cap is not None:
        assert (found <= cap / size * (1 + 1e-6)).all()
    elsewhere = torch.where(mask, logps, torch.tensor(float("nan"), dtype=dtype))
    assert torch.equal(found, tt.response_weights(elsewhere, mask, size, cap=cap))


@few
@given(
    st.lists(st.tuples(LOGPS, LOGPS), min_size=1, max_size=8), st.floats(-3, 3),
    st.sampled_from(tt.MODES), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_token_functions_are_finite_at_any_probability(pairs, advantage, mode, dtype):
    new, old = (torch.tensor([column], dtype=dtype) for column in zip(*pairs, strict=True))
    ratio = tt.log_variance_ratio(new, old)
    assert ratio.isfinite().all()
    assert (tt.log_variance_ratio(new, new) == 0).all()
    assert torch.equal(ratio, -tt.log_variance_ratio(old, new))
    A = torch.tensor([advantage], dtype=dtype)
    c = tt.token_coefficients(new, old, A, mode=mode)
    assert ((c >= 0) & (c <= 10)).all()
    assert (tt.token_coefficients(new, new, A, mode=mode) == 1).all()
    logps = new.clone().requires_grad_()
    loss = tt.reco_loss(logps, old, A, mode=mode)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logps.grad.isfinite().all()
    inside = new.isfinite()
    torch.testing.assert_close(logps.grad[inside], (-c * A).to(dtype)[inside])
