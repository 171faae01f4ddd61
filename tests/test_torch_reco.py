"""ReCo's response weights and token ratios on tensors, against NumPy and by hand."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

from tailmiss import response_weight, variance_ratio

torch = pytest.importorskip("torch")

import tailmiss.torch as tt  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


# The response weight


def test_response_weights_equal_numpy_to_the_last_bit(rng):
    logps = -rng.exponential(size=(200, 37))
    mask = rng.random((200, 37)) < 0.6
    mask[0] = False
    found = tt.response_weights(torch.tensor(logps), torch.tensor(mask), 8, cap=None)
    mean = (logps * mask).sum(-1) / np.maximum(mask.sum(-1), 1)
    assert np.array_equal(found.numpy(), response_weight(mean, 8))
    assert found[0] == 1 / 8


def test_response_weights_cap_and_normalise():
    logps = torch.tensor([[-0.1], [-0.2], [-9.0], [-0.1]], dtype=torch.float64)
    mask, G = torch.ones(4, 1), 2
    capped = tt.response_weights(logps, mask, G)
    assert capped[2] == 5 / G
    free = tt.response_weights(logps, mask, G, cap=None)
    assert free[2].item() == pytest.approx(math.e**9 / G)
    normal = tt.response_weights(logps, mask, G, self_normalize=True)
    assert normal.mean().item() == pytest.approx(1 / G)
    ids = torch.tensor([5, 3, 5, 3])
    grouped = tt.response_weights(logps, mask, G, self_normalize=True, group_ids=ids)
    assert grouped[ids == 5].sum().item() == pytest.approx(1)
    assert grouped[ids == 3].sum().item() == pytest.approx(1)
    assert (grouped[2] / grouped[0]).item() == pytest.approx(5 / math.exp(0.1))


def test_response_weights_over_the_published_range_never_meet_the_cap():
    """Probabilities per token of 0.8 to 0.975: G w from 1.03 to 1.25."""
    logps = torch.tensor([0.8, 0.975], dtype=torch.float64).log()[:, None].expand(2, 300)
    found = 8 * tt.response_weights(logps, torch.ones(2, 300), 8)
    assert found.tolist() == pytest.approx([1.25, 1.0256], abs=1e-4)


def test_response_weights_of_whole_logps_are_no_whole_numbers():
    whole = torch.tensor([[-1, 0]])
    assert torch.equal(
        tt.response_weights(whole, torch.ones(1, 2), 4),
        tt.response_weights(whole.float(), torch.ones(1, 2), 4),
    )


def test_response_weights_refuse_bad_input():
    logps, mask = torch.zeros(2, 3), torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"must be \(B, T\) both"):
        tt.response_weights(logps, mask[:1], 2)
    for size in (0, 1.5, math.nan, math.inf, "2"):
        with pytest.raises(ValueError, match=f"group_size must be whole, >= 1; got {size!r}"):
            tt.response_weights(logps, mask, size)
    with pytest.raises(ValueError, match="mask must be a tensor; got ndarray"):
        tt.response_weights(logps, mask.numpy(), 2)
    with pytest.raises(ValueError, match="old_logps must be a tensor; got list"):
        tt.response_weights([[0.0]], mask, 2)
    with pytest.raises(ValueError, match="cap must be >= 1, or None for no cap; got '5'"):
        tt.response_weights(logps, mask, 2, cap="5")
    with pytest.raises(ValueError, match=r"cap must be >= 1, or None for no cap; got 0\.5"):
        tt.response_weights(logps, mask, 2, cap=0.5)


# The token ratio


def sampled(dtype=torch.float64, seed=3, shape=(6, 50)):
    """Logits, the sampled tokens and their log-probabilities under a slightly older policy."""
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(*shape, 7, generator=rng)
    older = logits + 0.5 * torch.randn(*shape, 7, generator=rng)
    tokens = torch.randint(0, 7, (*shape, 1), generator=rng)
    old = older.to(dtype).log_softmax(-1).gather(-1, tokens)[..., 0]
    return (
        logits.to(dtype).requires_grad_(),
        tokens,
        old,
        torch.randn(shape[0], generator=rng).to(dtype),
    )


def gradient(loss, logits):
    return torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0]


@pytest.mark.parametrize("mode", tt.MODES)
def test_first_inner_step_has_exactly_grpos_gradient(mode):
    logits, tokens, _, A = sampled()
    logps = logits.log_softmax(-1).gather(-1, tokens)[..., 0]
    old = logps.detach()
    loss = tt.reco_loss(logps, old, A, mode=mode)
    grpo = -torch.min(
        torch.exp(logps - old) * A[:, None],
        torch.exp(logps - old).clamp(0.8, 1.2) * A[:, None],
    )
    assert torch.equal(gradient(loss, logits), gradient(grpo, logits))
    assert torch.equal(loss, grpo)


@pytest.mark.parametrize("mode", tt.MODES)
def test_later_steps_have_the_written_coefficient(mode):
    logits, tokens, old, A = sampled()
    logps = logits.log_softmax(-1).gather(-1, tokens)[..., 0]
    p, q, A2 = logps.detach().exp(), old.exp(), A[:, None]
    v, r = p * (1 - p) / (q * (1 - q)), p / q
    stop = {"ppo": v, "ratio_mask": r}.get(mode, torch.ones_like(v))
    c = torch.where(((A2 > 0) & (stop > 1.28)) | ((A2 < 0) & (stop < 0.8)), 0, v.clamp(max=10))
    if mode == "cispo":
        c = v.clamp(0.8, 1.28)
    loss = tt.reco_loss(logps, old, A, mode=mode, clip_low=0.2, clip_high=0.28)
    expected = gradient(-c * A2 * logps, logits)
    torch.testing.assert_close(gradient(loss, logits), expected, rtol=1e-9, atol=1e-12)
    assert bool((c == 0).any()) == (mode in ("ppo", "ratio_mask"))


@pytest.mark.parametrize(("p", "factor"), [(0.3, 4 / 7), (0.5, 0.0), (0.6, -0.5), (0.9, -8.0)])
def test_the_differentiated_ratio_turns_the_update_around(p, factor):
    logps = torch.tensor([[math.log(p)]], dtype=torch.float64, requires_grad=True)
    loss = tt.reco_loss(logps, logps.detach(), torch.ones(1), differentiate=True)
    assert gradient(loss, logps).item() == pytest.approx(-factor, abs=1e-12)
    detached = tt.reco_loss(logps, logps.detach(), torch.ones(1))
    assert gradient(detached, logps).item() == -1.0


def test_log_variance_ratio_is_a_drop_in_whose_gradient_is_that_of_log_p():
    logits, tokens, old, _ = sampled()
    logps = logits.log_softmax(-1).gather(-1, tokens)[..., 0]
    found = tt.log_variance_ratio(logps, old)
    p, q = logps.detach().exp(), old.exp()
    torch.testing.assert_close(found.detach().exp(), variance_ratio(p, q), rtol=1e-9, atol=0)
    assert torch.equal(gradient(found, logits), gradient(logps, logits))


def test_log_variance_ratio_accuracy():
    """Against mpmath, over the whole range of log p, in both precisions."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 60

    def exact(value):
        value = mpmath.mpf(value)
        return value + mpmath.log(-mpmath.expm1(value))

    grid = -np.logspace(-6, 3.9, 80)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        logps = torch.tensor(grid, dtype=dtype)
        old = torch.full_like(logps, -0.5)
        expected = [float(exact(x) - exact(-0.5)) for x in logps.tolist()]
        found = tt.log_variance_ratio(logps, old)
        torch.testing.assert_close(
            found.double(),
            torch.tensor(expected, dtype=torch.float64),
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.parametrize("differentiate", [False, True])
@pytest.mark.parametrize("mode", tt.MODES)
def test_values_and_gradients_stay_finite_at_the_edges(mode, differentiate):
    edge = [0.0, -0.0, -1e-12, -1e-8, -1e-6, -0.7, -50.0, -1e4, -1e30, -math.inf]
    new, old = (t.flatten()[None] for t in torch.meshgrid(*[torch.tensor(edge)] * 2, indexing="ij"))
    for A in (1.0, -1.0):
        logps = new.clone().requires_grad_()
        loss = tt.reco_loss(logps, old, torch.tensor([A]), mode=mode, differentiate=differentiate)
        assert loss.isfinite().all()
        assert gradient(loss, logps).isfinite().all()


def test_long_padded_bf16_batches_stay_finite():
    T = 10_000
    logits = torch.randn(2, T, 5, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0))
    logits[0, :, 0] += 32  # saturated: log-softmax is exactly 0 on most tokens
    logits.requires_grad_()
    logps = logits.float().log_softmax(-1)[..., 0]
    mask = torch.arange(T)[None] < torch.tensor([[T], [100]])
    logps = torch.where(mask, logps, 0.0)  # padding, as TRL fills it
    assert (logps == 0).sum() > T
    w = tt.response_weights(logps.detach(), mask, 2)
    loss = tt.reco_loss(logps, logps.detach(), torch.tensor([1.0, -1.0]) * w) * mask
    assert loss.isfinite().all()
    assert gradient(loss, logits).isfinite().all()
    assert w.isfinite().all()
    half = tt.log_variance_ratio(logps.detach().bfloat16(), logps.detach().bfloat16())
    assert half.dtype == torch.bfloat16
    assert not half.any()


def test_token_functions_refuse_bad_input():
    x = torch.zeros(1, 2)
    with pytest.raises(
        ValueError, match="mode must be one of 'none', 'ppo', 'cispo', 'ratio_mask'"
    ):
        tt.token_coefficients(x, x, x, mode="gspo")
    with pytest.raises(ValueError, match="clip_low and clip_high must be >= 0"):
        tt.token_coefficients(x, x, x, clip_low=-0.1)
    with pytest.raises(ValueError, match=r"cap must be >= 1; got 0\.5"):
        tt.token_coefficients(x, x, x, cap=0.5)
    with pytest.raises(ValueError, match="logps and old_logps must have one shape"):
        tt.log_variance_ratio(x, x[:, :1])
    wrong = [torch.ones(2), torch.ones(1, 3), torch.ones(2, 2), torch.tensor(1.0)]
    for function, A in itertools.product((tt.token_coefficients, tt.reco_loss), wrong):
        with pytest.raises(ValueError, match=r"advantages must be .* for logps \(1, 2\); got"):
            function(x, x, A)


def test_nothing_warns_on_extreme_logps():
    with warnings.catch_warnings(action="error"):
        found = tt.response_weights(torch.tensor([[-2000.0], [-math.inf]]), torch.ones(2, 1), 4)
    assert found.tolist() == [1.25, 1.25]
