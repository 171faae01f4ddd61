"""Leaf modules of other trainers: on torchrl itself, else on stubs of documented signatures.

A stub holds what the trainer computes without us, written anew, so that every test reads: the
trainer's own value times the weight of its group.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tailmiss.torch import areal, nemo_rl, openrlhf, prime_rl, rllm, roll, skyrl, slime  # noqa: E402
from tailmiss.torch import swift as swift_leaf  # noqa: E402


@pytest.fixture
def install(monkeypatch):
    """Put a stub module, with its parents, where an import finds it."""

    def put(path, **names):
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            name = ".".join(parts[:i])
            if name not in sys.modules:
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
            if i > 1:
                parent = sys.modules[".".join(parts[: i - 1])]
                monkeypatch.setattr(parent, parts[i - 1], sys.modules[name], raising=False)
        vars(sys.modules[path]).update(names)
        return sys.modules[path]

    return put


def registry():
    """A dict and the decorator factory that fills it, as these trainers have them."""
    known = {}

    def register(name):
        def decorator(function):
            known[name] = function
            return function

        return decorator

    return known, register


def grpo(rewards):
    rewards = torch.as_tensor(rewards, dtype=torch.float64)
    return (rewards - rewards.mean()) / (rewards.std() + 1e-6)


# slime


def sample(reward, group, rollout=None):
    return SimpleNamespace(
        group_index=group, rollout_id=rollout, get_reward_value=lambda args: reward
    )


def test_slime_weighs_uneven_groups_in_any_order():
    samples = [sample(1, 0), sample(0, 1), sample(0, 0), sample(1, 1), sample(0, 1)]
    args = SimpleNamespace(focal_gamma=1.0, grpo_std_normalization=True)
    raw, rewards = slime.focal_rewards(args, samples)
    assert raw == [1, 0, 0, 1, 0]
    first, second = grpo([1, 0]) * 0.5, grpo([0, 1, 0]) * (2 / 3)
    expected = [first[0], second[0], first[1], second[1], second[2]]
    np.testing.assert_allclose(rewards, expected, rtol=1e-12)


def test_slime_counts_a_rollout_of_many_samples_once():
    samples = [sample(1, 0, "a"), sample(1, 0, "a"), sample(1, 0, "a"), sample(0, 0, "b")]
    args = SimpleNamespace(focal_gamma=1.0, grpo_std_normalization=False)
    _, rewards = slime.focal_rewards(args, samples)
    np.testing.assert_allclose(rewards, [0.25, 0.25, 0.25, -0.25])  # baseline 1/2, weight 1/2


def test_slime_leaves_unscored_samples_out():
    samples = [sample(1, 0), sample(0, 0), sample(None, 0), sample(None, 1)]
    args = SimpleNamespace(focal_gamma=1.0, grpo_std_normalization=False)
    _, rewards = slime.focal_rewards(args, samples)
    np.testing.assert_allclose(rewards, [0.25, -0.25, 0, 0])


def test_slime_finds_the_scored_sample_of_a_rollout():
    samples = [sample(None, 0, "a"), sample(1, 0, "a"), sample(0, 0, "b"), sample(0, 0, "c")]
    args = SimpleNamespace(focal_gamma=1.0, grpo_std_normalization=False)
    _, rewards = slime.focal_rewards(args, samples)
    np.testing.assert_allclose(rewards, [0, 4 / 9, -2 / 9, -2 / 9], atol=1e-12)
    assert slime.focal_rewards(args, []) == ([], [])


def test_slime_needs_a_threshold_for_shaped_rewards():
    with pytest.raises(ValueError, match=r"focal_threshold is missing: rollout 1 has reward -0\.5"):
        slime.focal_rewards(SimpleNamespace(), [sample(1, 0), sample(-0.5, 0)])
    args = SimpleNamespace(focal_threshold=0.5, focal_gamma=1.0, grpo_std_normalization=False)
    _, rewards = slime.focal_rewards(args, [sample(1, 0), sample(-0.5, 0)])
    np.testing.assert_allclose(rewards, [0.375, -0.375])


def test_slime_response_weights():
    logps = [torch.tensor([-0.1, -0.3]), torch.tensor([-1.0, -2.0, -9.0])]
    data = {"rewards": [0.5, -1.0], "log_probs": logps, "loss_masks": [[1, 1], [1, 1, 0]]}
    slime.reco_advantages(SimpleNamespace(), data)
    torch.testing.assert_close(data["advantages"][0], torch.full((2,), 0.5 * np.exp(0.2)))
    torch.testing.assert_close(data["returns"][1], torch.full((3,), -np.exp(1.5)))
    empty = {"log_probs": None}
    slime.reco_advantages(SimpleNamespace(), empty)
    assert empty == {"log_probs": None}
    with pytest.raises(ValueError, match=r"got \(1, 2\) and \(1, 3\)"):  # a context-parallel part
        slime.reco_advantages(SimpleNamespace(), data | {"loss_masks": [[1, 1, 1], [1, 1, 0]]})


def test_slime_takes_the_engines_logps_where_slime_does():
    """--use-rollout-logprobs: the trainer then computes none of its own."""
    data = {"rewards": [2.0], "rollout_log_probs": [torch.tensor([-0.2, -0.4])]}
    data["loss_masks"] = [[1, 1]]
    slime.reco_advantages(SimpleNamespace(use_rollout_logprobs=True), data)
    torch.testing.assert_close(data["advantages"][0], torch.full((2,), 2 * np.exp(0.3)))


# prime-rl


def test_prime_rl_custom_loss(install):
    def outputs(loss, metrics):
        return SimpleNamespace(loss=loss, metrics=metrics)

    install("prime_rl.trainer.rl.loss", LossOutputs=outputs)
    logps = torch.tensor([-0.2, -0.5, -7.0, -0.4], requires_grad=True)
    inputs = SimpleNamespace(
        trainer_logprobs=logps,
        inference_logprobs=torch.tensor([-0.3, -0.5, -9.0, -0.6]),
        ref_logprobs=None,
        advantages=torch.full((4,), 2.0),
        loss_mask=torch.tensor([True, True, False, True]),
        loss_weights=None,
    )
    found = prime_rl.reco(inputs, mode="none")
    found.loss.backward()
    p, old = logps.detach().exp(), inputs.inference_logprobs.exp()
    ratio = p * (1 - p) / (old * (1 - old))
    weight = np.exp((0.3 + 0.5 + 0.6) / 3)
    torch.testing.assert_close(logps.grad, -2.0 * weight * ratio * inputs.loss_mask)
    assert found.metrics["response_weight"].item() == pytest.approx(weight)
    inputs.loss_mask = torch.zeros(4, dtype=torch.bool)
    assert prime_rl.reco(inputs).loss.item() == 0


# rllm


def test_rllm_estimator(install):
    known, register = registry()

    class Name(StrEnum):  # what rllm makes of a name in its YAML before it looks it up
        GRPO = "grpo"
        OTHER = "other"

        @classmethod
        def _missing_(cls, value):
            return cls.OTHER

    @register(Name.GRPO)
    def plain(rewards, algorithm_config, **kwargs):
        groups = [grpo(group).numpy() for group in rewards]
        return groups, groups

    install(
        "rllm.trainer.algorithms.advantage",
        get_rllm_adv_estimator=known.__getitem__,
        register_rllm_adv_estimator=register,
    )
    rllm.register(gamma=2.0, threshold=0.5)
    rewards = [np.array([1.0, 0.0, 0.2]), np.array([1.0, 0.8]), np.array([0.0, 0.0])]
    estimator = known[Name("focal_grpo")]
    assert estimator is known["focal_grpo"]  # the name as it stands in an estimator map
    found, returns = estimator(rewards=rewards, algorithm_config=None, traj_groups=[])
    np.testing.assert_allclose(found[0], grpo(rewards[0]) * (2 / 3) ** 2)
    assert not found[1].any()
    assert returns is found
    assert [len(group) for group in found] == [3, 2, 2]


# SkyRL


@pytest.fixture
def skyrl_stub(install):
    estimators, register_estimator = registry()
    losses, register_loss = registry()

    def compute_grpo(
        token_level_rewards, response_mask, index, epsilon=1e-6, grpo_norm_by_std=True, **kwargs
    ):
        sums = token_level_rewards.sum(-1)
        found = torch.zeros_like(sums)
        for group in set(index):
            rows = torch.tensor([i == group for i in index])
            centred = sums[rows] - sums[rows].mean()
            found[rows] = centred / (sums[rows].std() + epsilon) if grpo_norm_by_std else centred
        return found[:, None] * response_mask, None

    install(
        "skyrl.backends.skyrl_train.utils.ppo_utils",
        register_advantage_estimator=register_estimator,
        register_policy_loss=register_loss,
        compute_grpo_outcome_advantage=compute_grpo,
        ppo_policy_loss=lambda lp, old, A, config, mask, rollout: (
            -(torch.exp(lp - old) * A * mask).sum(),
            {"clip_ratio": 0.0},
        ),
        apply_off_policy_correction=lambda loss, old, rollout, mask, config: (loss, mask, {}),
        reduce_loss=lambda loss, mask: (loss * mask).sum(),
    )
    skyrl.register(gamma=1.0)
    return estimators, losses, compute_grpo


def test_skyrl_estimator(skyrl_stub):
    estimators, _, plain = skyrl_stub
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    mask, index = torch.ones(4, 2), np.array(["a", "b", "a", "b"], dtype=object)
    found, _ = estimators["focal_grpo"](
        token_level_rewards=rewards,
        response_mask=mask,
        index=index,
        values=None,
        config=None,
        gamma=1.0,
        lambd=1.0,
        grpo_norm_by_std=False,
    )
    expected = plain(rewards, mask, index, grpo_norm_by_std=False)[0]
    torch.testing.assert_close(found, expected * torch.tensor([0.0, 0.5, 0.0, 0.5])[:, None])


@pytest.mark.parametrize("name", ["reco", "reco_variance", "reco_response"])
def test_skyrl_losses(skyrl_stub, name):
    config = SimpleNamespace(eps_clip_low=0.2, eps_clip_high=0.28, off_policy_correction=None)
    old = torch.tensor([[-0.2, -1.0, -3.0]])
    logps = (old + 0.05).requires_grad_()
    mask, A = torch.tensor([[1.0, 1.0, 0.0]]), torch.full((1, 3), -0.5)
    loss, metrics = skyrl_stub[1][name](logps, old, A, config, loss_mask=mask)
    loss.backward()
    p, p_old = logps.detach().exp(), old.exp()
    ratio = p / p_old if name == "reco_response" else p * (1 - p) / (p_old * (1 - p_old))
    if name != "reco_response":
        ratio = ratio * (ratio >= 0.8)
    weight = 1.0 if name == "reco_variance" else np.exp(0.6)
    torch.testing.assert_close(logps.grad, 0.5 * weight * ratio * mask)
    assert all(isinstance(value, float) for value in metrics.values())


def test_skyrl_losses_read_nothing_at_padding(skyrl_stub):
    config = SimpleNamespace(eps_clip_low=0.2, eps_clip_high=0.28, off_policy_correction=None)
    old = torch.tensor([[-0.3, np.nan], [-0.3, np.nan]])
    logps = torch.tensor([[-0.31, np.nan], [-0.31, np.nan]], requires_grad=True)
    for mask in ([[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        logps.grad = None
        loss, metrics = skyrl_stub[1]["reco"](
            logps, old, torch.ones(2, 2), config, loss_mask=torch.tensor(mask)
        )
        loss.backward()
        assert logps.grad.isfinite().all()
        assert logps.grad[:, 0].any() == bool(mask[0][0])
        assert np.isfinite(list(metrics.values())).all()


# Classes that take a mixin or a wrapper


def test_nemo_rl_wraps_the_estimator_it_creates(install):
    class Plain:
        def compute_advantage(self, prompt_ids, rewards, mask, **kwargs):
            return (rewards - rewards.mean())[:, None].expand(mask.shape)

    module = install("nemo_rl.algorithms.grpo", _create_advantage_estimator=lambda config: Plain())
    nemo_rl.install(gamma=3.0)
    nemo_rl.install(gamma=1.0, threshold=0.5)  # replaces, does not stack
    estimator = module._create_advantage_estimator(None)
    prompts = torch.tensor([[5, 6], [5, 7], [5, 6], [5, 7]])
    rewards, mask = torch.tensor([1.0, 0.0, 0.0, 0.4]), torch.ones(4, 3)
    found = estimator.compute_advantage(
        prompt_ids=prompts, rewards=rewards, mask=mask, repeated_batch={}
    )
    plain = Plain().compute_advantage(prompts, rewards, mask)
    torch.testing.assert_close(found, plain * torch.tensor([0.5, 1.0, 0.5, 1.0])[:, None])


def test_openrlhf_groups_by_index_over_experiences():
    class Plain:
        strategy = SimpleNamespace(
            args=SimpleNamespace(rollout=SimpleNamespace(n_samples_per_prompt=2))
        )

        def compute_advantages_and_returns(self, experiences):
            for e in experiences:
                e.rewards = e.rewards - 1  # a penalty: success is read before it
                e.advantages = torch.ones(len(e.index), 3)
            return experiences

    class Maker(openrlhf.FocalMixin, Plain):
        gamma = 1.0

    experiences = [
        SimpleNamespace(index=[3, 0], rewards=torch.tensor([1.0, 0.0], dtype=torch.bfloat16)),
        SimpleNamespace(index=[1, 2], rewards=torch.tensor([1.0, 1.0], dtype=torch.bfloat16)),
    ]
    first, second = Maker().compute_advantages_and_returns(experiences)
    assert first.advantages[:, 0].tolist() == [0.0, 0.5]
    assert second.advantages[:, 0].tolist() == [0.5, 0.0]


def test_areal_weighs_neighbours():
    class Plain:
        config = SimpleNamespace(reward_norm=SimpleNamespace(group_size=2))

        def _compute_advantages(self, data):
            data["rewards"] -= 5  # in place, as its overlong penalty does
            return data | {"advantages": torch.ones(len(data["rewards"]), 3)}

    class Actor(areal.FocalMixin, Plain):
        gamma = 1.0

    found = Actor()._compute_advantages({"rewards": torch.tensor([1.0, 0, 0, 0])})
    assert found["advantages"][:, 0].tolist() == [0.5, 0.5, 1, 1]
    with pytest.raises(ValueError, match="3 rewards are not whole groups of 2"):
        Actor()._compute_advantages({"rewards": torch.tensor([1.0, 0, 0])})
    for unknown in (None, SimpleNamespace(group_size=1)):  # AReaL's own settings without groups
        Plain.config = SimpleNamespace(reward_norm=unknown)
        with pytest.raises(ValueError, match="group_size must be the rollouts per prompt"):
            Actor()._compute_advantages({"rewards": torch.tensor([1.0, 0])})


@pytest.mark.parametrize("dynamic", [False, True])
def test_swift_weighs_the_gathered_advantages(dynamic):
    class Plain:
        reward_func_names = ("format", "accuracy")
        num_generations, num_generations_eval = 2, 4
        model = SimpleNamespace(training=True)
        dynamic_num_samples = dynamic

        def _compute_advantages(self, samples, rewards_per_func, batch_encoded_inputs):
            return torch.ones(len(rewards_per_func))

    class Trainer(swift_leaf.FocalMixin, Plain):
        gamma, success = 1.0, "accuracy"

    rewards = torch.tensor([[1.0, 1], [1, 0], [1, 0], [1, 0]])
    ids = [("p", "a"), ("q", "b"), ("p", "c"), ("p", "c")]
    samples = [SimpleNamespace(prompt_id=p, request_id=r) for p, r in ids]
    found = Trainer()._compute_advantages(samples, rewards, [])
    # By request p holds one success and one failure, the latter in two rows; q one failure.
    assert found.tolist() == ([0.5, 1, 0.5, 0.5] if dynamic else [0.5, 0.5, 1, 1])
    rewards[2, 1] = np.nan  # request c is then judged by its other row
    samples[2].request_id = "c"
    found = Trainer()._compute_advantages(samples, rewards, [])
    assert found.tolist() == ([0.5, 1, 0.5, 0.5] if dynamic else [0.5, 0.5, 1, 1])
    Trainer.success = None
    with pytest.raises(ValueError, match="success must be one of format, accuracy"):
        Trainer()._compute_advantages(samples, rewards, [])


def test_roll_response_weights():
    class Plain:
        def compute_sample_weights(self, data, response_mask):
            return torch.full((len(response_mask),), 2.0)

    class Worker(roll.ReCoMixin, Plain):
        pass

    data = SimpleNamespace(batch={"old_log_probs": torch.tensor([[-1.0, -3.0], [-9.0, -9.0]])})
    found = Worker().compute_sample_weights(data, torch.tensor([[1, 0], [1, 1]]))
    torch.testing.assert_close(found, torch.tensor([2 * np.e, 10.0], dtype=torch.float32))


@pytest.mark.parametrize("setting", [{"gamma": -1}, {"gamma": None}, {"threshold": "1"}])
@pytest.mark.parametrize("register", [rllm.register, skyrl.register, nemo_rl.install])
def test_settings_are_refused_before_training(register, setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        register(**setting)
    with pytest.raises(ValueError, match="mode must be one of 'none'"):
        skyrl.register(mode="gspo")


# torchrl itself


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_torchrl_weighs_whole_groups():
    pytest.importorskip("torchrl")
    from tensordict import TensorDict

    from tailmiss.torch.torchrl import FocalMCAdvantage

    def trajectory(reward, steps):
        rewards = torch.zeros(steps, 1)
        rewards[-1] = reward
        done = torch.zeros(steps, 1, dtype=torch.bool)
        done[-1] = True
        return TensorDict(
            {
                "query": torch.full((steps,), 7),
                "next": TensorDict({"reward": rewards, "done": done}, batch_size=[steps]),
            },
            batch_size=[steps],
        )

    transform = FocalMCAdvantage(
        grpo_size=3, prompt_key="query", trajectory_return="sum", gamma=2.0, threshold=0.5
    )
    assert transform.inv(trajectory(1.0, 2)) is None
    assert transform.inv(trajectory(0.0, 1)) is None
    found = transform.inv(trajectory(0.0, 2))["advantage"].squeeze(-1)
    expected = grpo([1, 0, 0]) * (2 / 3) ** 2
    rows = expected[[0, 0, 1, 2, 2]].float()
    torch.testing.assert_close(found, rows, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="trajectory_return must be"):
        FocalMCAdvantage(grpo_size=3)
