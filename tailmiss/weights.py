"""The weights, each written once, as plain arithmetic.

The same function objects run on floats, NumPy arrays, torch tensors and SymPy symbols, and compile
under numba; theory, simulators and trainers all call these. Nothing is imported and nothing is
validated here: callers check their inputs once, at their own boundary.
"""

EULER = 2.718281828459045


def focal_weight(success_rate, gamma):  # type: ignore[no-untyped-def]
    r"""Focal weight of a group, :math:`g = (1 - \hat\mu)^\gamma`.

    One scalar per group; it multiplies the normalised advantage of every rollout in it. No gradient
    flows through it.

    Parameters
    ----------
    success_rate : scalar, array, tensor or symbol in [0, 1]
        Share of correct rollouts in the group, K/N.
    gamma : scalar or array >= 0
        0 gives 1 everywhere (the plain method), also at success rate 1.

    Returns
    -------
    Same kind as the input, in [0, 1].

    Notes
    -----
    [FGRPO] v2, Eq. 12. One subtraction and one power: exact to the rounding of both. Not checked,
    so that the one expression serves every kind of value; a count in place of a rate is nonsense.
    ``tailmiss.torch.focal_weights`` checks.

    Examples
    --------
    >>> focal_weight(0.75, 2)
    0.0625
    """
    return (1 - success_rate) ** gamma


def response_weight(mean_logp, group_size):  # type: ignore[no-untyped-def]
    r"""ReCo's response weight, :math:`w = 1 / (G \bar\pi)` with :math:`\bar\pi = e^{\ell}`.

    Parameters
    ----------
    mean_logp : scalar, array, tensor or symbol <= 0
        Mean log-likelihood per token of the response under the old policy, in nats.
    group_size : int >= 1
        Rollouts in the group, G. The weight replaces the 1/G of the group mean.

    Returns
    -------
    Same kind as the input, >= 1 / group_size.

    Notes
    -----
    [RECO] v1. Reading :math:`\bar\pi` as the geometric mean and w as replacing 1/G is our choice;
    the paper's text leaves it open. Evaluated as a power of e so that the one expression serves
    every array type; relative error below (1 + abs(mean_logp)) * 2.3e-16.

    Examples
    --------
    >>> response_weight(0.0, 8)
    0.125
    """
    return EULER ** (-mean_logp) / group_size


def variance_ratio(p, p_old):  # type: ignore[no-untyped-def]
    r"""ReCo's token ratio, :math:`p(1-p) / (p_{old}(1-p_{old}))`.

    Parameters
    ----------
    p, p_old : scalar, array, tensor or symbol in (0, 1)
        Probability of the sampled token under the current and the rollout policy.

    Returns
    -------
    Same kind as the input, >= 0; exactly 1 on policy.

    Notes
    -----
    [RECO] v1. It multiplies the gradient of log p as a detached coefficient; differentiating it
    turns the update around for p > 1/2. Near p = 1 use ``tailmiss.torch.log_variance_ratio``, which
    never forms 1 - p.

    Examples
    --------
    >>> variance_ratio(0.5, 0.5)
    1.0
    """
    return p * (1 - p) / (p_old * (1 - p_old))
