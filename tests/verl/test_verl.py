"""verl 0.9.1 itself, on CPU, in an environment of its own: ``make test-verl``."""

from __future__ import annotations

import logging
import subprocess
import sys
import uuid
import warnings

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig

import tailmiss
import tailmiss.torch as tt

# Not imported from tailmiss: what the entry point has registered.
focal_grpo = core_algos.get_adv_estimator_fn("focal_grpo")
NAMES = ["reco", "reco_variance", "reco_response"]


def batch(seed=0, bs=24, T=5):
    rng = torch.Generator().manual_seed(seed)
    mask = torch.ones(bs, T)
    mask[::3, 3:] = 0
    rewards = torch.zeros(bs, T)
    rewards[:, 2] = (torch.rand(bs, generator=rng) < 0.4).float()
    uids = [str(uuid.UUID(int=i)) for i in (torch.randint(0, 5, (bs,), generator=rng)).tolist()]
    return rewards, mask, np.array(uids, dtype=object)


def algorithm(**settings):
    return OmegaConf.create({"adv_estimator": "focal_grpo", "use_kl_in_reward": False} | settings)


def test_the_entry_point_registers_everything_wherever_verl_is_imported():
    program = (
        "import verl, sys; from verl.trainer.ppo import core_algos as c;"
        "c.get_adv_estimator_fn('focal_grpo');"
        f"[c.get_policy_loss_fn(n) for n in {NAMES}];"
        "print('registered')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip().endswith("registered"), done.stderr


def test_no_plugins_no_registration():
    program = (
        "import verl; from verl.trainer.ppo import core_algos as c;"
        "c.get_adv_estimator_fn('focal_grpo')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"VERL_USE_EXTERNAL_PLUGINS": "none", "PATH": ""},
    )
    assert "Unknown advantage estimator" in done.stderr


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("by_std", [True, False])
def test_focal_grpo_is_grpo_times_the_weight(gamma, by_std):
    rewards, mask, uids = batch()
    found, returns = focal_grpo(
        token_level_rewards=rewards,
        response_mask=mask,
        index=uids,
        config=algorithm(focal_gamma=gamma, norm_adv_by_std_in_grpo=by_std),
    )
    plain, _ = core_algos.compute_grpo_outcome_advantage(
        rewards, mask, uids, norm_adv_by_std_in_grpo=by_std
    )
    sums = rewards.sum(1).numpy()
    rate = {u: sums[uids == u].mean() for u in set(uids)}
    weights = tailmiss.focal_weight(np.array([rate[u] for u in uids], np.float64), gamma)
    torch.testing.assert_close(found, plain * torch.tensor(weights)[:, None].float())
    assert torch.equal(found, returns)
    if gamma == 0:
        assert torch.equal(found, plain)


def test_verl_calls_it_through_compute_advantage():
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    rewards, mask, uids = batch()
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": uids},
    )
    found = compute_advantage(data, "focal_grpo", config=algorithm(focal_gamma=1.0))
    expected, _ = focal_grpo(rewards, mask, uids, algorithm(focal_gamma=1.0))
    assert torch.equal(found.batch["advantages"], expected)


def test_an_unscored_row_leaves_its_group_whole():
    rewards = torch.tensor([[1.0], [0.0], [float("nan")], [0.0]])
    mask, uids = torch.ones(4, 1), np.array(["a"] * 4, dtype=object)
    found, _ = focal_grpo(rewards, mask, uids, algorithm(focal_gamma=1.0))
    kept = [0, 1, 3]
    plain, _ = core_algos.compute_grpo_outcome_advantage(rewards[kept], mask[kept], uids[kept])
    torch.testing.assert_close(found[kept], plain * (2 / 3))
    assert found[2] == 0


def test_what_verl_may_pass_and_what_it_may_not():
    rewards = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    mask, uids = torch.ones(4, 1), np.array(["a"] * 4, dtype=object)
    expected, _ = focal_grpo(rewards, mask, uids, None)
    for same in (mask.double(), mask.bool(), mask.bfloat16(), mask.long()):
        assert torch.equal(focal_grpo(rewards, same, uids, algorithm())[0], expected)
    assert not focal_grpo(rewards * torch.nan, mask, uids)[0].any()
    assert not focal_grpo(rewards, mask, np.arange(4))[0].any(), "groups of one have no signal"
    assert focal_grpo(rewards[:0], mask[:0], uids[:0])[0].shape == (0, 1)
    with pytest.raises(ValueError, match=r"algorithm.focal_threshold must be a number; got '0\.5'"):
        focal_grpo(rewards, mask, uids, algorithm(focal_threshold="0.5"))
    with pytest.raises(ValueError, match="group_ids must have the shape of success"):
        focal_grpo(rewards, mask, uids[:3], algorithm())


def test_thresholds_and_refusals():
    rewards, mask, uids = batch()
    shaped = rewards - 0.25
    with pytest.raises(
        ValueError, match=r"focal_threshold is missing: rollout 0 has reward -1\.25"
    ):
        focal_grpo(shaped, mask, uids, algorithm())
    found, _ = focal_grpo(shaped, mask, uids, algorithm(focal_threshold=-0.5))
    expected, _ = focal_grpo(rewards, mask, uids, algorithm())
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="use_kl_in_reward=False"):
        focal_grpo(rewards, mask, uids, algorithm(use_kl_in_reward=True))
    with pytest.raises(ValueError, match="gamma must be in"):
        focal_grpo(rewards, mask, uids, algorithm(focal_gamma=-1))


def actor(**settings):
    return FSDPActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=2, clip_ratio=0.2, **settings
    )


def policies(seed=1, shape=(6, 7)):
    rng = torch.Generator().manual_seed(seed)
    old = torch.rand(shape, generator=rng).clamp(0.05, 0.95).log()
    new = (old + 0.3 * torch.randn(shape, generator=rng)).clamp(max=-1e-3).requires_grad_()
    mask = torch.rand(shape, generator=rng) < 0.8
    A = torch.randn(shape[0], 1, generator=rng).expand(shape)
    return old, new, A, mask


@pytest.mark.filterwarnings("ignore:ReCo's variance ratio")
@pytest.mark.parametrize("name", [*NAMES, *(f"reco_{m}" for m in tt.MODES)])
def test_losses_run_backward_with_the_documented_gradient(name):
    old, new, A, mask = policies()
    loss, metrics = core_algos.get_policy_loss_fn(name)(
        old_log_prob=old,
        log_prob=new,
        advantages=A,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=actor(),
        rollout_is_weights=None,
    )
    loss.backward()
    assert all(isinstance(value, float) for value in metrics.values())
    w = torch.ones(len(old), 1)
    if name != "reco_variance":
        mean = (old * mask).sum(1) / mask.sum(1)
        w = torch.exp(-mean).clamp(max=5)[:, None]
    if name == "reco_response":
        reference = new.detach().requires_grad_()
        expected, _ = core_algos.compute_policy_loss_vanilla(
            old, reference, A * w, mask, config=actor()
        )
        expected.backward()
        torch.testing.assert_close(new.grad, reference.grad)
        return
    mode = name.removeprefix("reco_") if name.removeprefix("reco_") in tt.MODES else "ppo"
    c = tt.token_coefficients(new, old, A, mode=mode)
    torch.testing.assert_close(new.grad, -(c * A * w * mask) / mask.sum())


@pytest.mark.filterwarnings("ignore:ReCo's variance ratio")
@pytest.mark.parametrize("name", [*NAMES, *(f"reco_{m}" for m in tt.MODES)])
@pytest.mark.parametrize("kept", [0, 3])
def test_padding_is_never_read(name, kept):
    """NaN there, or a micro-batch without a token: finite gradients and metrics, as vanilla's."""
    old, new, A, _ = policies()
    mask = torch.zeros(old.shape, dtype=torch.bool)
    mask[:, :kept] = True
    old = old.masked_fill(~mask, torch.nan)
    new = new.detach().masked_fill(~mask, torch.nan).requires_grad_()
    config = actor()
    config.global_batch_info.update(dp_size=1, batch_num_tokens=18, global_batch_size=6)
    loss, metrics = core_algos.get_policy_loss_fn(name)(old, new, A, mask, config=config)
    loss.backward()
    assert new.grad.isfinite().all()
    assert bool(new.grad.any()) == bool(kept)
    assert np.isfinite(list(metrics.values())).all(), metrics


@pytest.mark.filterwarnings("ignore:ReCo's variance ratio")
def test_the_first_update_has_the_gradient_of_vanilla():
    old, _, A, mask = policies()
    grads = []
    for name in ("vanilla", "reco_variance"):
        new = old.clone().requires_grad_()
        loss, _ = core_algos.get_policy_loss_fn(name)(old, new, A, mask, config=actor())
        loss.backward()
        grads.append(new.grad)
    assert torch.equal(*grads)


def test_it_warns_once_that_one_update_leaves_the_ratio_at_one(monkeypatch):
    import tailmiss.torch.verl as plugin

    monkeypatch.setattr(plugin, "_warned", False)
    old, new, A, mask = policies()
    loss = core_algos.get_policy_loss_fn("reco")
    with pytest.warns(UserWarning, match="from the second update"):
        loss(old, new, A, mask, config=actor(ppo_epochs=1))
    with warnings.catch_warnings(action="error"):
        loss(old, new, A, mask, config=actor(ppo_epochs=1))


def test_a_broken_verl_is_reported_loudly(monkeypatch, caplog):
    import importlib

    import tailmiss.torch.verl as plugin

    monkeypatch.delattr(core_algos, "register_policy_loss")
    with caplog.at_level(logging.ERROR), pytest.raises(ImportError):
        importlib.reload(plugin)
    assert "cannot register itself" in caplog.text
