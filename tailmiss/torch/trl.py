"""TRL: a mixin that weighs the advantages of GRPOTrainer or RLOOTrainer.

from trl import GRPOConfig, GRPOTrainer
class Trainer(TailMissMixin, GRPOTrainer): pass
focal = TailMissConfig(gamma=0.5, success="accuracy_reward", threshold=1.0)
Trainer(..., args=GRPOConfig(...), tailmiss=focal).train()
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ._outcome import check_settings, successes
from .focal import focal_weights, group_metrics
from .reco import MODES, RATIO_CAP, response_weights, token_coefficients

_FORWARD_INPUTS = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)
_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo")


@dataclass(frozen=True)
class TailMissConfig:
    """What :class:`TailMissMixin` multiplies into the advantages.

    Parameters
    ----------
    gamma : float >= 0
        Exponent of the focal weight; 0 turns it off. It multiplies the whole advantage: where all
        of a group are correct it is 0, and so is what a length or format reward adds there.
    success : str, optional
        Name of the reward function that says whether a rollout is correct. May be left out where
        there is only one. Never the sum of several: a format reward would count as success.
    threshold : float, optional
        A rollout is correct if that reward is at least this. May be left out where rewards are 0 or
        1; another value then stops the run.
    renormalize : "none" or "mean"
        "mean" divides the weights by their mean over the rollouts whose advantage is not 0, so that
        the step keeps its size. "none" is the paper's.
    response_weight : bool
        ReCo's weight per response, relative to the 1/G of the group mean.
    response_cap : float >= 1, optional
        Its cap.
    self_normalize : bool
        Make response weights average 1 over the rollouts of the process.
    token_ratio : "off", "none", "ppo", "cispo" or "ratio_mask"
        ReCo's variance ratio in place of the importance ratio, clipped with the trainer's epsilon
        as :func:`tailmiss.torch.token_coefficients` says; under loss_type "cispo" epsilon_high is
        the upper bound itself, as in TRL. GRPOTrainer only.
    ratio_cap : float >= 1
        Its cap.
    rho : float in [0, 1]
        Share of the correct mass that counts as rare in the logged tail-miss estimate.

    Raises
    ------
    ValueError
        A value outside its range.
    """

    gamma: float = 0.5
    success: str | None = None
    threshold: float | None = None
    renormalize: str = "none"
    response_weight: bool = False
    response_cap: float | None = 5.0
    self_normalize: bool = False
    token_ratio: str = "off"
    ratio_cap: float = RATIO_CAP
    rho: float = 0.05

    def __post_init__(self) -> None:
        for name, allowed in (("renormalize", ("none", "mean")), ("token_ratio", ("off", *MODES))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
        check_settings(self.gamma, self.threshold)
        for name, low, high in (
            ("response_cap", 1, math.inf),
            ("ratio_cap", 1, math.inf),
            ("rho", 0, 1),
        ):
            value = getattr(self, name)
            if name == "response_cap" and value is None:
                continue
            if not (isinstance(value, Real) and low <= float(value) <= high):
                raise ValueError(f"{name} must be in [{low:g}, {high:g}]; got {value!r}")


class TailMissMixin:
    """Weighs the advantages of the TRL trainer that follows it among the bases.

    ``class Trainer(TailMissMixin, GRPOTrainer): pass``, then give its constructor
    ``tailmiss=TailMissConfig(...)``. Everything else of the trainer stays as it is.

    Raises
    ------
    TypeError
        The trainer has no advantages to weigh, or stands before the mixin.
    ValueError
        At construction: an unknown reward name, or a token ratio together with what it would make
        wrong. During training: no threshold, and a reward that is neither 0 nor 1; advantages that
        a trainer below spreads over tokens, which a class above the mixin may do.

    Notes
    -----
    Success is read after TRL gathers rewards from all processes, so groups may straddle them. The
    groups are TRL's own, ``num_generations`` neighbours in that order. A reward of None counts
    neither as success nor as failure. Every override calls super(); nothing of TRL is copied.
    """

    # What the trainer brings.
    accelerator: Any
    args: Any
    model: Any
    num_generations: int
    reward_func_names: list[str]
    epsilon_low: float
    epsilon_high: float
    _metrics: Any
    _logs: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("_calculate_rewards", "_generate_and_score_completions"):
            owners = [base for base in cls.__mro__ if name in vars(base)]
            if TailMissMixin not in owners[:-1]:
                raise TypeError(
                    f"{cls.__name__} must derive from TailMissMixin first and then from a TRL"
                    f" trainer with {name}, such as GRPOTrainer or RLOOTrainer"
                )

    def __init__(self, *args: Any, tailmiss: TailMissConfig | None = None, **kwargs: Any) -> None:
        self.tailmiss = TailMissConfig() if tailmiss is None else tailmiss
        self._ratio_inputs: dict[str, Any] | None = None
        if not isinstance(self.tailmiss, TailMissConfig):
            raise TypeError(f"tailmiss must be a TailMissConfig; got {self.tailmiss!r}")
        everything = (*args, *kwargs.values())
        given = next((value for value in everything if hasattr(value, "num_generations")), None)
        if self.tailmiss.token_ratio != "off" and given is not None:
            self._check_token_ratio(given)
        super().__init__(*args, **kwargs)
        if self.tailmiss.token_ratio != "off" and given is None:
            self._check_token_ratio(self.args)
        self._success_column = self._find_success()

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        rewards = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
        column = rewards[:, self._success_column].detach()
        self._success = successes(column, self.tailmiss.threshold, "TailMissConfig(threshold=...)")
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        if output["advantages"].dim() != 1:
            raise ValueError(
                f"advantages must be one per rollout; got shape {tuple(output['advantages'].shape)}"
                f" from below {type(self).__name__}: what spreads them over tokens stands before"
                " TailMissMixin among the bases"
            )
        process, rows = self.accelerator.process_index, len(output["advantages"])
        mine = slice(process * rows, (process + 1) * rows)
        groups = torch.arange(len(self._success), device=self._success.device) // self._group_size()
        weights = focal_weights(self._success, groups, self.tailmiss.gamma)[mine]
        if self.tailmiss.response_weight:
            weights = weights * self._relative_response_weights(output)
        # After this gather every process knows all weights and advantages, in the order of rewards.
        advantages, weights = self.accelerator.gather(
            torch.stack([output["advantages"], weights.to(output["advantages"])], dim=1)
        ).unbind(1)
        if self.tailmiss.renormalize == "mean":
            active = advantages != 0
            mean = (weights * active).sum() / active.sum()
            weights = torch.where(mean > 0, weights / mean, weights)
        advantages = advantages * weights
        output["advantages"] = advantages[mine]
        self._correct_logs(advantages)
        self._log_group_metrics(groups, weights)
        return output

    # Success of each rollout

    def _find_success(self) -> int:
        names, wanted = list(self.reward_func_names), self.tailmiss.success
        if wanted is None and len(names) == 1:
            return 0
        if wanted is None or names.count(wanted) != 1:
            raise ValueError(
                f"success must name the one reward function that says whether a rollout is correct,"
                f" among {', '.join(names)}; got {wanted!r}"
            )
        return names.index(wanted)

    def _group_size(self) -> int:
        if self.model.training:
            return self.num_generations
        return int(getattr(self, "num_generations_eval", self.num_generations))

    # ReCo's response weight

    def _relative_response_weights(self, output: dict[str, Any]) -> Tensor:
        logps = output.get("old_per_token_logps")
        if logps is None:
            logps = self._fresh_logps(output)
        return response_weights(
            logps,
            _loss_mask(output),
            1,
            cap=self.tailmiss.response_cap,
            self_normalize=self.tailmiss.self_normalize,
        )

    @torch.no_grad()
    def _fresh_logps(self, output: dict[str, Any]) -> Tensor:
        """Log-probabilities of the completions; TRL itself skips them when it takes one step."""
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        mode = "train" if self.model.training else "eval"
        logps, *_ = self._get_per_token_logps_and_entropies(
            self.model,
            ids,
            mask,
            output["completion_ids"].shape[1],
            batch_size=getattr(self.args, f"per_device_{mode}_batch_size"),
            **{name: output[name] for name in _FORWARD_INPUTS if name in output},
        )
        return logps

    # ReCo's token ratio: the loss sees a ratio of 1 and per-token advantages c A, whose gradient is
    # c A grad log p. TRL reads the advantages after it computes the logps, when c becomes known.

    def _check_token_ratio(self, args: Any) -> None:
        taken = self.tailmiss.token_ratio
        loss = getattr(args, "loss_type", None)
        if loss is None:
            raise ValueError(
                f"token_ratio {taken!r} needs GRPOTrainer: {type(self).__name__} has one ratio per"
                " sequence"
            )
        refusals = {
            "beta must be 0: TRL corrects its KL term by the importance ratio, which the variance"
            " ratio replaces": args.beta != 0,
            "off_policy_mask_threshold must be None: it compares log-probabilities that the"
            " variance ratio replaces": getattr(args, "off_policy_mask_threshold", None)
            is not None,
            "delta must be None: it bounds the ratio that the variance ratio replaces": (
                getattr(args, "delta", None) is not None
            ),
            "importance_sampling_level must be 'token': the variance ratio is one per token": (
                args.importance_sampling_level != "token"
            ),
            f"loss_type must be one of {', '.join(_LOSSES)}: {loss} has a rule of its own for the"
            " ratio": loss not in _LOSSES,
        }
        for reason, applies in refusals.items():
            if applies:
                raise ValueError(f"token_ratio {taken!r}: {reason}")
        if (
            args.gradient_accumulation_steps % (args.steps_per_generation * args.num_iterations)
            == 0
        ):
            warnings.warn(
                f"token_ratio {taken!r} cannot act: every rollout batch is used for one update, so"
                " the ratio is 1 throughout. Set num_iterations >= 2, or steps_per_generation above"
                " gradient_accumulation_steps.",
                UserWarning,
                stacklevel=4,
            )

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if self.tailmiss.token_ratio == "off" or inputs.get("old_per_token_logps") is None:
            return super()._compute_loss(model, inputs)  # type: ignore[misc]
        self._ratio_inputs = dict(inputs)
        try:
            loss = super()._compute_loss(model, self._ratio_inputs)  # type: ignore[misc]
        finally:
            self._ratio_inputs = None
        metrics = self._metrics["train" if self.model.training else "eval"]
        for name in [name for name in metrics if "clip_ratio" in name]:  # of a ratio that is 1
            metrics[name].pop()
            if not metrics[name]:
                del metrics[name]
        return loss

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)  # type: ignore[misc]
        if self._ratio_inputs is not None:
            inputs, logps = self._ratio_inputs, found[0]
            A, high = inputs["advantages"], self.epsilon_high
            if A.dim() == 1:  # a subclass may have made them one per token, as TRL allows
                A = A.unsqueeze(-1)
            if self.args.loss_type == "cispo":  # the bound itself, not its distance from 1
                high = max(high - 1, 0)
            coefficients = token_coefficients(
                logps,
                inputs["old_per_token_logps"],
                A,
                mode=self.tailmiss.token_ratio,
                clip_low=self.epsilon_low,
                clip_high=high,
                cap=self.tailmiss.ratio_cap,
            )
            inputs["advantages"] = coefficients * A
            inputs["old_per_token_logps"] = logps.detach()
            self._log_coefficients(coefficients, _loss_mask(inputs))
        return found

    # Logs

    def _correct_logs(self, advantages: Tensor) -> None:
        """Replace the advantages that super() logged by the weighted ones."""
        log = self._logs["advantages"]
        for _ in range(min(len(log), len(advantages))):
            log.pop()
        log.extend(advantages.tolist())

    def _log_group_metrics(self, groups: Tensor, weights: Tensor) -> None:
        found = group_metrics(self._success, groups, weights=weights, rho=self.tailmiss.rho)
        mode = "train" if self.model.training else "eval"
        for name, value in zip(found, torch.stack(list(found.values())).tolist(), strict=True):
            if value == value:  # TRL averages over steps: a batch without scores adds nothing
                self._metrics[mode][f"tailmiss/{name}"].append(value)

    def _log_coefficients(self, coefficients: Tensor, mask: Tensor) -> None:
        mask = mask.to(coefficients)
        local = torch.stack(
            [(coefficients * mask).sum(), ((coefficients == 0) * mask).sum(), mask.sum()]
        )
        total, stopped, tokens = self.accelerator.reduce(local, reduction="sum").tolist()
        if tokens:
            metrics = self._metrics["train" if self.model.training else "eval"]
            metrics["tailmiss/token_coefficient"].append(total / tokens)
            metrics["tailmiss/stopped_share"].append(stopped / tokens)


def _loss_mask(batch: dict[str, Any]) -> Tensor:
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask
