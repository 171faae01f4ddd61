"""Pure tensor functions against NumPy, enumeration and their own rules."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pandas as pd
import pytest

import tailmiss
from calibrated import assert_mean
from tailmiss import focal_weight

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import tailmiss.torch as tt  # noqa: E402
from tailmiss.torch import _tables, focal, reco  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
GAMMAS = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


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


# Equal to NumPy, bit for bit


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_weights_equal_numpy_to_the_last_bit(gamma, rng):
    flags, ids, rate = every_count(64)
    order = rng.permutation(len(flags))
    found = tt.focal_weights(torch.tensor(flags[order]), torch.tensor(ids[order]), gamma)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), focal_weight(rate[order], gamma))


def test_large_groups_too(rng):
    flags = rng.random(100_000) < 0.3
    ids = np.repeat([0, 1, 2], [70_000, 29_000, 1000])
    found = tt.focal_weights(torch.tensor(flags).double(), torch.tensor(ids), 0.7)
    rate = np.array([flags[ids == group].mean() for group in range(3)])
    assert np.array_equal(found.numpy(), focal_weight(rate, 0.7)[ids])


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


def test_rule_options_reach_the_table():
    success, ids = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), torch.zeros(4).long()
    for options in ({"ddof": 1, "eps": 1e-4}, {"ddof": 0, "eps": 1e-6}):
        found = tt.advantages("grpo", success, ids, **options)
        a, b = tailmiss.advantage_table("grpo", 4, **options)
        assert found.tolist() == [a[1], b[1], b[1], b[1]]
    trl = (success - success.mean()) / (success.std() + 1e-4)
    torch.testing.assert_close(tt.advantages("grpo", success, ids, ddof=1, eps=1e-4), trl)
    kept = tt.advantages("maxrl", torch.zeros(4), ids, keep_all_wrong=True)
    assert kept.tolist() == [-1.0] * 4


def test_tables_of_an_accelerator_hold_the_same_bits_up_to_their_limit(rng):
    n = torch.tensor([0, 1, 7, 64, 100, 130])
    k = torch.tensor([0, 1, 3, 21, 50, 13])
    found = _tables._bounded(n, k, "focal", 0.7, "", 100, torch.float64)[0].numpy()
    rate = np.array([1.0, 1.0, 3 / 7, 21 / 64, 0.5])
    assert np.array_equal(found[:5], focal_weight(rate, 0.7))
    assert found[5] == pytest.approx(0.9**0.7, rel=1e-15)
    beyond = _tables._bounded(n, k, "grpo", 0.0, "", 100, torch.float64)
    assert beyond[:, :5].isfinite().all()
    assert beyond[:, 5].isnan().all(), "an untabulated advantage must not pass for one"


# Groups


IDS = {
    "small": lambda ids: torch.tensor(ids),
    "int32": lambda ids: torch.tensor(ids, dtype=torch.int32),
    "uint8": lambda ids: torch.tensor(ids, dtype=torch.uint8),
    "negative": lambda ids: torch.tensor(ids) - 10**6,
    "far apart": lambda ids: torch.tensor(ids) * (2**61 // 40) - 2**60,
    "extreme": lambda ids: torch.where(torch.tensor(ids) == 0, -(2**63), torch.tensor(ids) + 2**62),
    "strings": lambda ids: [f"uid-{i}" for i in ids],
    "object array": lambda ids: np.array([f"uid-{i}" for i in ids], dtype=object),
    "numpy": lambda ids: np.array(ids),
    "tuples": lambda ids: [(i, "x") for i in ids],
    "python ints": lambda ids: list(ids),
    "list of tensors": lambda ids: list(torch.tensor(ids)),
    "list of numpy": lambda ids: list(np.array(ids)),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_kind_in_any_order(kind, rng):
    ids = rng.integers(0, 40, 300)
    flags = rng.random(300) < 0.4
    expected = np.array([focal_weight(np.array(flags[ids == i].mean()), 0.5) for i in ids])
    found = tt.focal_weights(torch.tensor(flags).double(), IDS[kind](ids.tolist()), 0.5)
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_kept_and_rounded_once(dtype):
    success, ids = torch.tensor([1, 0, 0], dtype=dtype), torch.zeros(3).long()
    found = tt.focal_weights(success, ids, 0.3)
    assert found.dtype == dtype
    exact = torch.tensor(
        focal_weight(np.array(1 / 3), 0.3), dtype=torch.promote_types(dtype, torch.float32)
    )
    assert torch.equal(found, exact.to(dtype).expand(3))
    assert tt.focal_weights(success.bool(), ids, 0.3).dtype == torch.get_default_dtype()
    assert tt.focal_weights(success.int(), ids, 0.3).dtype == torch.get_default_dtype()


def test_no_gradient_flows_through_weights():
    success = torch.tensor([1.0, 0.0], requires_grad=True)
    logps = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    ids = torch.zeros(2).long()
    for found in (
        tt.focal_weights(success, ids, 0.5),
        tt.advantages("grpo", success, ids),
        tt.response_weights(logps, torch.ones(1, 2), 2),
        tt.token_coefficients(logps, logps.detach(), torch.ones(1)),
        *tt.group_metrics(success, ids).values(),
    ):
        assert not found.requires_grad


def test_unscored_rollouts_count_neither_way():
    nan = math.nan
    success = torch.tensor([1.0, 0.0, nan, nan, nan, nan], dtype=torch.float64)
    ids = torch.tensor([0, 0, 0, 1, 1, 2])
    assert tt.focal_weights(success, ids, 1.0).tolist() == [0.5, 0.5, 0.5, 0, 0, 0]
    assert tt.focal_weights(success, ids, 0.0).tolist() == [1.0] * 6
    given = tt.focal_weights(success.nan_to_num(7), ids, 1.0, scored=~success.isnan())
    assert torch.equal(given, tt.focal_weights(success, ids, 1.0))
    assert tt.advantages("rloo", success, ids).tolist() == [1, -1, 0, 0, 0, 0]


def test_an_empty_batch_gives_an_empty_answer():
    empty = torch.zeros(0)
    assert tt.focal_weights(empty, empty.long(), 0.5).shape == (0,)
    assert tt.advantages("grpo", empty, []).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float64])
def test_large_batches_are_weighed_alike(dtype, monkeypatch, rng):
    """The compiled loops of the host and the scatter-add of everywhere else."""
    success = torch.tensor(rng.random(100_000) < 0.4).to(dtype)
    for ids in (torch.tensor(rng.integers(0, 9000, 100_000)), torch.arange(100_000) // 30_000):
        monkeypatch.setattr(focal, "MANY", 1 << 16)
        loops = tt.focal_weights(success, ids, 0.7)
        monkeypatch.setattr(focal, "MANY", 1 << 62)
        assert torch.equal(loops, tt.focal_weights(success, ids, 0.7))


def test_large_batches_are_checked_alike(rng):
    success = torch.tensor(rng.random(100_000) < 0.4).double()
    ids = torch.zeros(100_000).long()
    success[77_777] = math.nan
    rate = success.nansum() / 99_999
    assert tt.focal_weights(success, ids, 1.0)[77_777] == 1 - rate
    success[77_777] = 0.5
    with pytest.raises(ValueError, match=r"got 0\.5 at index 77777"):
        tt.focal_weights(success, ids, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.5], [0, 0], 1.0), r"got 0\.5 at index 1\. Compare rewards with a threshold"),
        (([1, 2], [0, 0], 1.0), r"got 2 at index 1"),
        (([1.0, 0.0], [0], 1.0), r"group_ids must have the shape of success, \(2,\); got \(1,\)"),
        (
            ([1.0, 0.0], ["a", None], 1.0),
            "must name a group for every rollout; got None at index 1",
        ),
        (([1.0, 0.0], [0.5, math.nan], 1.0), "got nan at index 1"),
        (([1.0, 0.0], [0, 0], -1.0), r"gamma must be in \[0, inf\); got -1\.0"),
        (([1.0, 0.0], [0, 0], math.nan), "gamma must be in"),
        (([1.0, 0.0], [0, 0], "1"), r"gamma must be in \[0, inf\); got '1'"),
        (([1.0, 0.0], [0, 0], None), "gamma must be in"),
        (([1.0, 0.0], ["a", pd.NA], 1.0), "must name a group .* got <NA> at index 1"),
        (([1.0, 0.0], ["a", ["b"]], 1.0), r"must name a group .* got \['b'\] at index 1"),
        (([1.0, 0.0], np.array([["a", "b"]] * 2), 1.0), r"got \['a' 'b'\] at index 0"),
        (([[1.0, 0.0]], [0, 0], 1.0), r"one entry per rollout; got shape \(1, 2\)"),
    ],
)
def test_bad_input_is_named(arguments, message):
    success, ids, gamma = arguments
    with pytest.raises(ValueError, match=message):
        tt.focal_weights(torch.tensor(success), ids, gamma)


def test_bad_tensors_are_named():
    success = torch.tensor([1.0, 0.0])
    with pytest.raises(ValueError, match="success must be a tensor; got list"):
        tt.focal_weights([1.0, 0.0], [0, 0], 1.0)
    with pytest.raises(ValueError, match=r"integers or strings; got torch\.float32"):
        tt.focal_weights(success, torch.zeros(2), 1.0)
    with pytest.raises(ValueError, match="scored must be a tensor; got list"):
        tt.focal_weights(success, [0, 0], 1.0, scored=[True, True])
    with pytest.raises(ValueError, match="scored must have the shape"):
        tt.focal_weights(success, [0, 0], 1.0, scored=torch.ones(3).bool())
    with pytest.raises(ValueError, match="weights must have the shape"):
        tt.group_metrics(success, [0, 0], weights=torch.ones(3))
    for rho in (1.5, math.nan, "0.5", None):
        with pytest.raises(ValueError, match="rho must be in"):
            tt.group_metrics(success, [0, 0], rho=rho)
    for ids in (None, 3):
        with pytest.raises(ValueError, match=f"group_ids must be a tensor or .* got {ids}"):
            tt.focal_weights(success, ids, 1.0)
    with pytest.raises(ValueError, match="rule must be one of"):
        tt.advantages("ppo", success, [0, 0])
    with pytest.raises(ValueError, match="has no option 'eta'"):
        tt.advantages("grpo", success, [0, 0], eta=1)
    with pytest.raises(ValueError, match="k must be <= N"):
        tt.advantages("pkpo", success, [0, 0], k=3)


def test_options_may_be_numbers_of_any_library():
    success, ids = torch.tensor([1.0, 0, 0]), [0, 0, 0]
    plain = tt.advantages("grpo", success, ids, ddof=1, eps=1e-4)
    numpy = tt.advantages("grpo", success, ids, ddof=np.int64(1), eps=np.float64(1e-4))
    assert torch.equal(numpy, plain)
    leave_out = tt.advantages("pkpo", success, ids, k=2, leave_out=False)
    assert torch.equal(
        tt.advantages("pkpo", success, ids, k=torch.tensor(2), leave_out=np.bool_(False)), leave_out
    )


def test_ids_of_the_host_stay_there_whatever_the_default_device():
    success = torch.tensor([1.0, 0.0])
    with torch.device("meta"):
        for ids in (["a", "a"], np.array([5, 5])):
            assert tt.focal_weights(success, ids, 1.0).tolist() == [0.5, 0.5]


# The compiler, and no look at the values


def everything(success, ids, logps, old, mask):
    weights = tt.focal_weights(success, ids, 0.7)
    A = tt.advantages("grpo", success, ids, gamma=0.3, ddof=1) * weights
    A = A * tt.response_weights(old, mask, 1, self_normalize=True, group_ids=ids)
    metrics = tt.group_metrics(success, ids, weights=weights)
    loss = tt.reco_loss(logps, old, A, mode="ratio_mask")
    return weights, A, loss, torch.stack(list(metrics.values()))


def batch(B=12, T=5, seed=0):
    rng = torch.Generator().manual_seed(seed)
    success = (torch.rand(B, generator=rng) < 0.5).double()
    ids = torch.randint(0, 4, (B,), generator=rng) * 1000
    old = -torch.rand(B, T, generator=rng, dtype=torch.float64) - 0.01
    logps = (old + 0.3 * torch.randn(B, T, generator=rng, dtype=torch.float64)).clamp(max=-0.01)
    return success, ids, logps, old, torch.ones(B, T)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_compiles_into_one_graph_with_the_same_bits_for_weights(backend):
    torch._dynamo.reset()
    compiled = torch.compile(everything, fullgraph=True, backend=backend)
    for seed, B in ((0, 12), (1, 12), (2, 20)):
        inputs = batch(B, seed=seed)
        expected = everything(*inputs)
        for found, wanted in zip(compiled(*inputs), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
        assert torch.equal(compiled(*inputs)[0], expected[0])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_ids_of_numpy_compile(dtype):
    success, ids = torch.tensor([1.0, 0, 0, 0]), np.array([5, 5, 9, 9], dtype)
    compiled = torch.compile(tt.focal_weights, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(success, ids, 0.5), tt.focal_weights(success, ids, 0.5))


def test_no_value_is_read_and_no_shape_depends_on_one():
    """Fake tensors have no values: reading one, or a shape that depends on one, raises."""
    with FakeTensorMode() as mode:
        inputs = [mode.from_tensor(t) for t in batch()]
        weights, A, loss, metrics = everything(*inputs)
    assert (weights.shape, A.shape, loss.shape, metrics.shape) == ((12,), (12,), (12, 5), (5,))
    assert weights.dtype == torch.float64


def test_what_cannot_be_refused_without_reading_becomes_nan():
    torch._dynamo.reset()
    weights = lambda s, i: tt.focal_weights(s, i, 1.0)  # noqa: E731
    found = torch.compile(weights, fullgraph=True, backend="eager")(
        torch.tensor([1.0, 0.5, 0.0]), torch.tensor([0, 0, 1])
    )
    assert found.isnan().tolist() == [False, True, False]


# Metrics


def test_tail_miss_is_unbiased_for_the_closed_form(rng):
    N, rho, prompts = 6, 0.2, 40_000
    mu = rng.choice([0.05, 0.4, 0.9], prompts)
    flags = rng.random((prompts, N)) < mu[:, None]
    k = flags.sum(1)
    draws = np.where((k > 0) & (k < N), (1 - rho) ** k, 0.0)
    expected = tailmiss.tail_miss_prob(N, mu, rho * mu).mean()
    assert_mean(draws - tailmiss.tail_miss_prob(N, mu, rho * mu), 0.0, detects=0.02)
    ids = torch.arange(prompts).repeat_interleave(N)
    found = tt.group_metrics(torch.tensor(flags.ravel()).double(), ids, rho=rho)
    assert found["tail_miss"].item() == pytest.approx(draws.mean(), rel=1e-12)
    assert found["tail_miss"].item() == pytest.approx(expected, abs=0.02)
    assert found["mixed_share"].item() == pytest.approx(((k > 0) & (k < N)).mean())


def test_metrics_of_an_uneven_batch():
    success = torch.tensor([1.0, 0.0, 1.0, math.nan, 0.0], dtype=torch.float64)
    ids, weights = ["a", "a", "b", "b", "c"], torch.tensor([2.0, 2.0, 0.0, 9.0, 1.0])
    found = tt.group_metrics(success, ids, weights=weights, rho=0.5)
    expected = [2 / 4, 1 / 3, 0.5 / 3, 5 / 4, 25 / 9]
    assert [value.item() for value in found.values()] == pytest.approx(expected)
    nothing = tt.group_metrics(torch.tensor([math.nan]), [0])
    assert all(value.isnan() for value in nothing.values())
