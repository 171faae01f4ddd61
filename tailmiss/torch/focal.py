"""Focal weights, advantages and batch metrics of groups of rollouts."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .. import _validate as check
from ..advantages import advantage_table
from . import _groups, _tables

GroupIds: TypeAlias = Tensor | Iterable[Any]
# Rollouts from which the host weighs by compiled loops: more than a training batch.
MANY = 1 << 16


def focal_weights(
    success: Tensor, group_ids: GroupIds, gamma: float, *, scored: Tensor | None = None
) -> Tensor:
    r"""Focal weight of every rollout's group, :math:`g = (1 - k/n)^\gamma`.

    k of the n scored rollouts of the group are correct. Multiply advantages by it after they are
    normalised.

    Parameters
    ----------
    success : tensor (B,)
        1 / 0 or True / False; NaN marks an unscored rollout. Compare rewards with a threshold
        first: the sum of several rewards is no success flag.
    group_ids : tensor (B,) of integers, or B strings or other hashable objects
        Rollouts of one prompt share an id; any order, any sizes. Integers stay on the device.
    gamma : float >= 0
        0 gives 1 everywhere.
    scored : bool tensor (B,), optional
        Rollouts that count in k and n; default: those that are not NaN.

    Returns
    -------
    tensor (B,) in [0, 1], without gradient
        On success's device, in its dtype if floating, else the default dtype. Unscored rollouts get
        their group's weight. A group without scored rollouts counts as one without wrong ones:
        weight 0, or 1 if gamma = 0.

    Raises
    ------
    ValueError
        gamma negative or not finite; shapes differ; a float tensor of ids, or a missing id; on the
        host also a success other than 0, 1, NaN, which on an accelerator, where reading it would
        make the host wait, becomes a NaN weight.

    Notes
    -----
    [FGRPO] v2, Eq. 12. In float64 equal to ``tailmiss.focal_weight`` on NumPy arrays to the last
    bit (tests/test_torch.py): the values of all counts are tabulated by NumPy and looked up. On an
    accelerator this holds for groups up to 1024 rollouts; larger ones differ by a unit in the last
    place. Works under torch.compile and FakeTensorMode without graph breaks; nothing waits for the
    device. On the host, ids whose range is below 2B cost no sort (tests/bench_torch.py).

    Examples
    --------
    >>> focal_weights(torch.tensor([1.0, 0, 0, 0, 1, 1]), ["a", "a", "b", "b", "a", "a"], 2)
    tensor([0.0625, 0.0625, 1.0000, 1.0000, 0.0625, 0.0625])
    """
    check_gamma(gamma)
    with torch.no_grad():
        return _per_rollout(success, group_ids, scored, "focal", gamma)


def advantages(
    rule: str,
    success: Tensor,
    group_ids: GroupIds,
    *,
    gamma: float = 0.0,
    scored: Tensor | None = None,
    max_group_size: int = _tables.MAX_GROUP_SIZE,
    **options: Any,
) -> Tensor:
    r"""Advantage of every rollout under a count-based rule, times the focal weight.

    .. math:: A_i = (1 - k/n)^\gamma \, a_k \text{ if correct, else } (1 - k/n)^\gamma \, b_k

    Parameters
    ----------
    rule : str
        One of ``tailmiss.RULES``.
    success, group_ids, gamma, scored
        As for :func:`focal_weights`.
    max_group_size : int >= 1
        Largest group on an accelerator, where sizes are not read; a larger one gets NaN. The host
        has no limit.
    **options
        As for ``tailmiss.advantage_table``: ``ddof=1`` with ``eps=1e-4`` is TRL's grpo, with
        ``eps=1e-6`` verl's.

    Returns
    -------
    tensor (B,) without gradient
        Dtype and device as :func:`focal_weights`. Unscored rollouts, and groups too small for the
        rule (one rollout under rloo), get 0.

    Raises
    ------
    ValueError
        As :func:`focal_weights` and ``tailmiss.advantage_table``.

    Notes
    -----
    Equal to ``tailmiss.advantage_table`` to the last bit in float64 (tests/test_torch.py).

    Examples
    --------
    >>> advantages("rloo", torch.tensor([1.0, 0, 0, 0]), [7, 7, 7, 7])
    tensor([ 1.0000, -0.3333, -0.3333, -0.3333])
    """
    check_gamma(gamma)
    if not torch.compiler.is_compiling():
        smallest = check.whole_number("k", options.get("k", 2))
        advantage_table(rule, max(2, smallest), gamma=gamma, **options)
    with torch.no_grad():
        return _per_rollout(success, group_ids, scored, rule, gamma, max_group_size, options)


def group_metrics(
    success: Tensor,
    group_ids: GroupIds,
    *,
    scored: Tensor | None = None,
    weights: Tensor | None = None,
    rho: float = 0.05,
) -> dict[str, Tensor]:
    r"""What a batch of groups looks like: numbers for a training log.

    Parameters
    ----------
    success, group_ids, scored
        As for :func:`focal_weights`.
    weights : tensor (B,) >= 0, optional
        Weights that multiply the advantages; default 1.
    rho : float in [0, 1]
        Share of the correct mass that counts as rare, for the tail-miss estimate.

    Returns
    -------
    dict of 0-d float tensors on success's device, at least float32
        ``success_rate`` over scored rollouts; ``mixed_share`` of the groups with a scored rollout;
        ``tail_miss``, the share of those groups that are mixed and hold no rollout of a rare subset
        of the correct ones; ``mean_weight`` and ``effective_sample_size``
        :math:`(\sum w)^2 / \sum w^2` over scored rollouts, 0 if all weights are. NaN where nothing
        is scored.

    Raises
    ------
    ValueError
        As :func:`focal_weights`; rho outside [0, 1].

    Notes
    -----
    tail_miss averages 1[0 < k < n] (1 - rho)^k: given k correct rollouts each lies outside the rare
    subset with probability 1 - rho, so this is unbiased for the mean over prompts of
    ``tailmiss.tail_miss_prob(n, mu, rho * mu)`` (tests/test_torch.py), with no estimate of mu.

    Examples
    --------
    >>> found = group_metrics(torch.tensor([1.0, 0, 0, 0]), [0, 0, 1, 1])
    >>> print({name: round(value.item(), 3) for name, value in list(found.items())[:3]})
    {'success_rate': 0.25, 'mixed_share': 0.5, 'tail_miss': 0.475}
    """
    if not (isinstance(rho, Real) and 0 <= rho <= 1):
        raise ValueError(f"rho must be in [0, 1]; got {rho!r}")
    with torch.no_grad():
        _groups.check_shape(success)
        correct, scored, invalid = _groups.flags(success, scored)
        slots, size = _groups.label(group_ids, success)
        n, k = _groups.counts(correct, scored, slots, size)
        dtype = torch.promote_types(_dtype(success), torch.float32)
        seen = torch.ones_like(correct) if scored is None else scored
        if weights is None:
            w = seen.to(dtype)
        else:
            _groups.check_like("weights", weights, success)
            w = torch.where(seen, weights.to(success.device, dtype), 0)
        groups, rollouts = (n > 0).sum().to(dtype), n.sum().to(dtype)
        mixed = ((k > 0) & (k < n)).to(dtype)
        squares = (w * w).sum()
        found = {
            "success_rate": k.sum() / rollouts,
            "mixed_share": mixed.sum() / groups,
            "tail_miss": (mixed * (1 - rho) ** k.to(dtype)).sum() / groups,
            "mean_weight": w.sum() / rollouts,
            "effective_sample_size": w.sum() ** 2
            / squares.masked_fill((squares == 0) & (rollouts > 0), 1),
        }
        if invalid is not None:
            bad = invalid.any()
            found = {name: torch.where(bad, torch.nan, value) for name, value in found.items()}
        return found


def _per_rollout(
    success: Tensor,
    group_ids: GroupIds,
    scored: Tensor | None,
    rule: str,
    gamma: float,
    limit: int = _tables.MAX_GROUP_SIZE,
    options: dict[str, Any] | None = None,
) -> Tensor:
    _groups.check_shape(success)
    dtype, options = _dtype(success), options or {}
    slots, size = _groups.label(group_ids, success)
    if len(slots) >= MANY and rule == "focal" and scored is None and _groups.readable(success):
        from . import _many

        wide = torch.promote_types(dtype, torch.float32)
        weights = _many.focal_weights(success, slots, size, float(gamma), wide)
        if weights is not None:
            return weights.to(dtype)
    correct, scored, invalid = _groups.flags(success, scored)
    n, k = _groups.counts(correct, scored, slots, size)
    values = _tables.values(rule, n, k, gamma, options, limit, dtype)
    result = values[0].index_select(0, slots)
    if rule != "focal":
        result = torch.where(correct, result, values[1].index_select(0, slots))
        if scored is not None:
            result = result.masked_fill(~scored, 0)
    if invalid is not None:
        result = result.masked_fill(invalid, torch.nan)
    return result.to(dtype)


def _dtype(success: Tensor) -> torch.dtype:
    return success.dtype if success.dtype.is_floating_point else torch.get_default_dtype()


def check_gamma(gamma: float) -> None:
    if not (isinstance(gamma, Real) and 0 <= gamma < float("inf")):
        raise ValueError(f"gamma must be in [0, inf); got {gamma!r}")
