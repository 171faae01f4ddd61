"""Bugs that trainers have had around group advantages: each trigger, with the right value.

Every test stands for a kind of bug and tries several members of it. The repositories and issue
numbers are those in which the trigger was reported.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

import tailmiss.passk

torch = pytest.importorskip("torch")

import tailmiss.torch as tt  # noqa: E402
from tailmiss.torch import slime  # noqa: E402
from tailmiss.torch._outcome import successes, weighed_grpo  # noqa: E402
from tailmiss.torch.trl import TailMissConfig, TailMissMixin  # noqa: E402

NAN = math.nan


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def grpo(rewards):
    """GRPO's advantage of one group, in Python floats: std with ddof 1, + 1e-6."""
    mean = sum(rewards) / len(rewards)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(r - mean) / (std + 1e-6) for r in rewards]


def slime_rewards(rewards, groups, *, rollouts=None, **settings):
    rollouts = rollouts or [None] * len(rewards)
    samples = [
        SimpleNamespace(group_index=g, rollout_id=i, get_reward_value=lambda args, r=r: r)
        for r, g, i in zip(rewards, groups, rollouts, strict=True)
    ]
    return slime.focal_rewards(SimpleNamespace(**settings), samples)[1]


# 1. Groups of different sizes taken as one group: slime #1414, #2230


@pytest.mark.parametrize("sizes", [(4, 3, 4), (1, 2, 9), (5,), (2, 1, 1, 2)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_uneven_groups(sizes, shuffled, rng):
    groups = np.repeat(range(len(sizes)), sizes)
    rewards = rng.random(len(groups)) < 0.5
    rewards[groups == 0] = True  # one group entirely right
    order = rng.permutation(len(groups)) if shuffled else np.arange(len(groups))
    weights = tt.focal_weights(tensor(rewards[order]), torch.tensor(groups[order]), 1.0)
    shaped = slime_rewards(
        (5.0 * rewards)[order].tolist(), groups[order].tolist(), focal_gamma=1.0, focal_threshold=5
    )
    for group in range(len(sizes)):
        mine, members = groups[order] == group, rewards[groups == group]
        assert set(weights[mine].tolist()) == {1 - members.mean()}
        if 0 < members.sum() < len(members):
            expected = np.array(grpo((5.0 * rewards[order][mine]).tolist())) * (1 - members.mean())
            np.testing.assert_allclose(np.array(shaped)[mine], expected, rtol=1e-9)
        else:
            assert not np.array(shaped)[mine].any()


# 2. None and NaN: TRL #5902, #5126, ms-swift #8123


@pytest.mark.parametrize(
    ("rewards", "rate"),
    [
        ([1, 0, None, 0], 1 / 3),
        ([None, None, 1, 1], 1.0),
        ([None, None, 0, None], 0.0),
        ([1, 0, 0, 0], 0.25),
    ],
)
def test_unscored_rows_are_no_failures_and_spread_nowhere(rewards, rate):
    values = tensor([NAN if r is None else r for r in rewards] + [1, 0])
    groups = [0] * len(rewards) + [1, 1]
    weights = tt.focal_weights(values, groups, 1.0)
    assert weights[:-2].tolist() == [1 - rate] * len(rewards)
    assert weights[-2:].tolist() == [0.5, 0.5]
    assert weights.isfinite().all()
    found = slime_rewards([*rewards, 1, 0], groups, focal_gamma=1.0)
    assert all(f == 0 for f, r in zip(found, rewards, strict=False) if r is None)
    assert np.isfinite(found).all()
    assert found[-2] > 0 > found[-1]


# 3. Success read off a shaped reward: NeMo-RL #2431, verl-recipe #125, open-instruct #659


@pytest.mark.parametrize(
    ("shaped", "threshold", "right"),
    [
        ([-0.2, -0.7, -0.1, 0.0], 0.5, 0),  # all wrong, overlong penalties of different size
        ([1.0, 0.6, 0.5, 0.2], 0.5, 3),  # right, minus a length penalty
        ([0.01, 0.0, 0.01, 1.0], 1.0, 1),  # a wrong answer that scores a little
        ([1.5, 0.5, 0.5, 0.5], 1.0, 1),  # + 0.5 for the format
        ([-1.0, -1.0, 1.0, 1.0], 0.0, 2),  # rewards +-1
    ],
)
def test_success_is_a_threshold_not_a_sign(shaped, threshold, right):
    flags = successes(tensor(shaped), threshold)
    assert flags.sum() == right
    assert tt.focal_weights(flags, [0] * 4, 1.0).tolist() == [1 - right / 4] * 4
    if right == 0:
        assert not tt.advantages("grpo", flags, [0] * 4).any(), "no phantom signal"
    with pytest.raises(ValueError, match="threshold is missing"):
        successes(tensor(shaped), None)
    with pytest.raises(ValueError, match="Compare rewards with a threshold"):
        tt.focal_weights(tensor(shaped), [0] * 4, 1.0)


# 4. A std that is only rounding: NeMo-RL #1518


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e-8, 123456.7])
@pytest.mark.parametrize("n", [3, 7, 11])
def test_equal_rewards_give_exactly_nothing(value, n):
    assert slime_rewards([value] * n, [0] * n, focal_threshold=10.0) == [0.0] * n
    flags = torch.full((n,), float(value > 1))
    for rule in ("grpo", "dr_grpo", "rloo", "maxrl", "passk"):
        assert not tt.advantages(rule, flags, [0] * n).any()


def test_leave_one_out_of_one_success_has_no_residue():
    found = tt.advantages("rloo", tensor([1, 0, 0, 0]), [0] * 4)
    assert found.tolist() == [1.0, -1 / 3, -1 / 3, -1 / 3]


# 5. Rewards in low precision: OpenRLHF #1334


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_rewards_are_widened_first(dtype):
    rewards = torch.tensor([1, 1, 1, 1.0078], dtype=dtype)
    seen = []

    def plain(token_level_rewards, response_mask, index):
        seen.append(token_level_rewards.dtype)
        return tensor(grpo(token_level_rewards[:, 0].tolist()), torch.float32)[:, None], None

    found, _ = weighed_grpo(
        rewards[:, None], torch.ones(4, 1), [0] * 4, plain, gamma=0.0, threshold=1.005, setting="t"
    )
    np.testing.assert_allclose(found[:, 0], [-0.5, -0.5, -0.5, 1.5], atol=1e-3)
    assert seen == [torch.float32]
    assert successes(rewards, 1.005).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.7, 0.9, 0.95])
def test_a_reward_equal_to_the_threshold_reaches_it_in_every_precision(dtype, threshold):
    at = torch.tensor(threshold, dtype=dtype)
    below = torch.nextafter(at, torch.tensor(0.0, dtype=dtype))
    rewards = torch.stack([at, below, at])
    assert successes(rewards, threshold).tolist() == [1, 0, 1]

    def plain(token_level_rewards, response_mask, index):
        return torch.ones(3, 1, dtype=torch.float64), None  # of another dtype than the rewards

    found, _ = weighed_grpo(
        rewards[:, None],
        torch.ones(3, 1),
        [0, 0, 1],
        plain,
        gamma=1.0,
        threshold=threshold,
        setting="t",
    )
    assert found.flatten().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("threshold", [NAN, "0.5", [1.0]])
def test_a_threshold_that_is_no_number_does_not_turn_every_rollout_wrong(threshold):
    with pytest.raises(ValueError, match="focal_threshold must be a number; got"):
        successes(tensor([1, 0]), threshold, "focal_threshold")
    with pytest.raises(ValueError, match="focal_threshold must be a number; got"):
        slime_rewards([1, 0], [0, 0], focal_threshold=threshold)


# 6. A group of one: prime-rl #2985


@pytest.mark.parametrize(("flag", "weight"), [(1.0, 0.0), (0.0, 1.0)])
def test_a_single_rollout_has_no_advantage(flag, weight):
    success = tensor([flag, 1, 0])
    assert tt.focal_weights(success, [9, 3, 3], 1.0).tolist() == [weight, 0.5, 0.5]
    for rule in ("grpo", "rloo", "dr_grpo", "maxrl"):
        assert tt.advantages(rule, success, [9, 3, 3])[0] == 0
    assert slime_rewards([flag, 1, 0], [9, 3, 3])[0] == 0


# 7. Groups by the text of the prompt: TRL #3045, #3052, NeMo-RL #4013


def test_groups_are_ids_not_texts():
    success = tensor([1, 0, 0, 0])
    # The same question twice in a batch: two prompts, two groups.
    assert tt.focal_weights(success, ["7-a", "7-a", "7-b", "7-b"], 1.0).tolist() == [0.5, 0.5, 1, 1]
    # One prompt whose texts differ by a path in each sandbox: one group.
    assert tt.focal_weights(success, ["7"] * 4, 1.0).tolist() == [0.75] * 4
    # Ids that print alike are not alike.
    assert tt.focal_weights(success, [1, "1", 1, "1"], 1.0).tolist() == [0.5, 1, 0.5, 1]


# 8. A rollout of several rows counted several times: slime #2300 to #2302


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_rows_of_one_rollout_count_once(rows):
    rewards, rollouts = [1] * rows + [0], ["a"] * rows + ["b"]
    found = slime_rewards(
        rewards,
        [0] * (rows + 1),
        rollouts=rollouts,
        focal_gamma=1.0,
        grpo_std_normalization=False,
    )
    np.testing.assert_allclose(found, [0.25] * rows + [-0.25])


# 9. "Zero std" of the batch reported for the groups: TRL #7068, #6365


def test_mixed_share_is_of_groups_whatever_scales_the_rewards():
    success, ids = tensor([1, 1, 0, 0, 1, 0]), [0, 0, 1, 1, 2, 2]
    found = tt.group_metrics(success, ids)
    assert found["mixed_share"].item() == pytest.approx(1 / 3)
    assert tt.group_metrics(tensor([1, 1, 0, 0]), [0, 0, 1, 1])["mixed_share"] == 0


# 10. exp overflows, or underflows to a division by zero: OpenRLHF #1293


@pytest.mark.parametrize("T", [1, 300, 10_000])
@pytest.mark.parametrize("mean", [-3.0, -30.0, -90.0])
def test_response_weights_normalise_by_length_before_they_exponentiate(T, mean):
    logps = torch.full((2, T), mean, dtype=torch.float32)
    capped = tt.response_weights(logps, torch.ones(2, T), 8)
    assert capped.tolist() == [0.625, 0.625]
    if mean == -3.0:
        free = tt.response_weights(logps, torch.ones(2, T), 8, cap=None)
        assert free.tolist() == pytest.approx([2.5107, 2.5107], abs=1e-4)


# 11. Old log-probabilities in low precision: verl #6280, TRL #6789


def test_noisy_old_logps_are_bounded_and_show_in_the_sample_size(rng):
    p = torch.tensor(rng.beta(8, 0.5, (64, 200))).clamp(1e-4, 1 - 1e-9)
    logps = p.log()
    noisy = (logps.exp() + 0.004 * torch.tensor(rng.standard_normal(p.shape))).clamp(1e-4, 1).log()
    raw = tt.log_variance_ratio(logps, noisy).exp()
    assert raw.max() > 1000, "the ratio magnifies noise at p near 1"
    for mode in tt.MODES:
        assert tt.token_coefficients(logps, noisy, torch.ones(64), mode=mode).max() <= 10
    weights = tt.response_weights(torch.tensor(rng.normal(-2, 2, (64, 1))), torch.ones(64, 1), 8)
    assert weights.max() <= 5 / 8
    metrics = tt.group_metrics(torch.ones(64), [0] * 64, weights=weights)
    assert metrics["effective_sample_size"] < 60


# 12. Masked tokens in a mean, and rows without a token: TRL #6369, #6439, #4976


@pytest.mark.parametrize("rubbish", [0.0, -100.0, NAN, -math.inf])
def test_masked_tokens_are_never_read(rubbish):
    logps = torch.tensor([[-0.5, -1.5, rubbish], [rubbish, rubbish, rubbish]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    found = tt.response_weights(logps, mask, 2)
    assert found.tolist() == pytest.approx([math.e / 2, 0.5])
    assert tt.response_weights(logps, mask.bool(), 2).tolist() == found.tolist()


# 13. A normaliser divided twice under gradient accumulation: test_trl.py, on the trainer itself


# 14, 16. Success from the rows of one process only; logs of advantages that were replaced later:
# TRL #5030, #3896, #7298


class Bus:
    """gather for threads that stand for processes."""

    def __init__(self, ranks):
        self.barrier, self.parts = threading.Barrier(ranks), [None] * ranks

    def accelerator(self, rank):
        def gather(part):
            self.parts[rank] = part
            self.barrier.wait()
            whole = torch.cat(self.parts)
            self.barrier.wait()
            return whole

        return SimpleNamespace(process_index=rank, gather=gather)


class StubTrainer:
    """The places of a TRL trainer that the mixin touches."""

    reward_func_names = ("accuracy",)
    num_generations = 4
    args = None

    def __init__(self, accelerator, rewards, ranks):
        self.accelerator, self.rewards = accelerator, rewards
        self.rows = len(rewards) // ranks
        self.model = SimpleNamespace(training=True)
        self._metrics = defaultdict(lambda: defaultdict(list))
        self._logs = {"advantages": deque(maxlen=len(rewards))}

    def _calculate_rewards(self, *_):
        return self.rewards[:, None]

    def _generate_and_score_completions(self, inputs):
        self._calculate_rewards()
        plain = torch.arange(1.0, len(self.rewards) + 1)
        self._logs["advantages"].extend(plain.tolist())
        first = self.accelerator.process_index * self.rows
        return {"advantages": plain[first : first + self.rows]}


class Weighed(TailMissMixin, StubTrainer):
    pass


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("renormalize", ["none", "mean"])
def test_groups_that_straddle_processes(ranks, renormalize):
    rewards = torch.tensor([1.0, 0, 0, 0, 1, 1, 1, 0])
    bus = Bus(ranks)
    config = TailMissConfig(gamma=1.0, renormalize=renormalize)
    trainers = [Weighed(bus.accelerator(r), rewards, ranks, tailmiss=config) for r in range(ranks)]
    outputs = [None] * ranks

    def work(rank):
        outputs[rank] = trainers[rank]._generate_and_score_completions([None])

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    weights = torch.tensor([0.75] * 4 + [0.25] * 4)
    if renormalize == "mean":
        weights = weights / 0.5
    expected = torch.arange(1.0, 9.0) * weights
    assert torch.equal(torch.cat([output["advantages"] for output in outputs]), expected)
    for trainer in trainers:
        assert list(trainer._logs["advantages"]) == expected.tolist(), "the log must not be stale"
        assert trainer._metrics["train"]["tailmiss/success_rate"] == [0.5]


@pytest.mark.parametrize(
    ("rewards", "logged"), [([1.0] * 8, [0.0]), ([NAN] * 8, []), ([NAN] * 7 + [1.0], [0.0])]
)
def test_a_batch_without_signal_does_not_blank_the_log_of_others(rewards, logged):
    """The trainer logs means over steps: one NaN among them would be all that is seen."""
    rewards, bus = torch.tensor(rewards), Bus(1)
    trainer = Weighed(bus.accelerator(0), rewards, 1, tailmiss=TailMissConfig(gamma=1.0))
    trainer._generate_and_score_completions([None])
    metrics = trainer._metrics["train"]
    assert metrics["tailmiss/effective_sample_size"] == logged
    assert metrics["tailmiss/mean_weight"] == logged
    assert metrics["tailmiss/success_rate"] == [1.0] * len(logged)


# 15. pass@k of fewer than k samples: human-eval #35, #68


@pytest.mark.parametrize(("n", "c", "k"), [(2, 0, 5), (1, 1, 2), (10, 3, 11)])
def test_pass_at_k_needs_k_samples(n, c, k):
    assert math.isnan(tailmiss.passk.pass_at_k(n, c, k)), "unknown, and not 1"
