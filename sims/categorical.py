r"""The categorical policy of [FGRPO] v2, Sec. 5.1: a softmax over actions, some of them correct.

Every step draws a group of N actions from the policy, gives each its advantage, and moves the
logits by gradient ascent. The correct actions come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmiss import _rng
from tailmiss import _validate as check
from tailmiss.advantages import LARGEST_GROUP, RULES, advantage_table
from tailmiss.weights import focal_weight

if TYPE_CHECKING:
    import pandas as pd

SURROGATES = ("ratio", "probability")
OPTIMIZERS = ("adam", "adamw", "sgd")
FAR = 200.0  # what logits may move, at about the learning rate a step, and stay in range of exp
LARGEST_POLICY = 2**31  # the kernels number actions in 32 bits
MANY = 200  # actions per draw from which the loop over moving actions is the faster


@dataclass(frozen=True)
class CategoricalConfig:
    r"""One run of the categorical simulator; the defaults are the paper's simulation.

    With n_i draws of action i, K of the N correct, A the advantage of its kind and

    .. math:: c_i = \frac{n_i A_i}{N}

    the logits climb ``"ratio"``, sum_i c_i p_i / p_i^{old}, what trainers do on policy, with
    gradient :math:`c_i - p_i \sum_j c_j`; or ``"probability"``, the papers' literal sum_i c_i p_i,
    with gradient :math:`p_i (c_i - \sum_j c_j p_j)`.

    Parameters
    ----------
    n_actions, n_correct : int
        Actions, and how many of them (the first) are correct; 1 <= n_correct < n_actions.
    anchor_logit, correct_logit, incorrect_logit : float
        Initial logits of action 0, of the other correct actions and of the incorrect ones.
    logits : array_like of n_actions, optional
        Any initial policy, in place of those three.
    group_size : int >= 1
        N, actions drawn per step.
    rule : str
        One of ``tailmiss.RULES``; "centered" is the paper's, rewards +1 / -1 minus their mean.
    rule_options : mapping
        Options of the rule, as for ``advantage_table``.
    gamma : float >= 0
        Focal exponent; 0 is the plain rule.
    steps : int >= 1
        Updates.
    learning_rate : float >= 0
    optimizer : "adam", "adamw" or "sgd"
        Textbook definitions, with bias correction and decoupled decay; sgd has no momentum.
    beta1, beta2 : float in [0, 1)
    eps : float > 0
        Of adam and adamw.
    weight_decay : float >= 0
        Of adamw alone; 0.01 is torch's default.
    surrogate : "ratio" or "probability"
    distinct : bool
        Count each drawn action once, in place of its multiplicity. Advantages keep using K of N.
    response_weight_cap : float > 0, optional
        Multiply c_i by ReCo's response weight, min(1 / p_i, cap): the 1/G of ``response_weight``
        is the 1/N of c_i. An action is a response of one token. None is off; inf has no cap.
    entropy_bonus, kl : float >= 0
        Add entropy_bonus * entropy(p) - kl * KL(p || initial policy) to the objective.
    record_every : int >= 1
        Steps between records; step 0 and the last are always recorded.

    Notes
    -----
    [FGRPO] v2 does not name its optimizer or surrogate. The default reproduces every stated claim;
    the literal formula does not (figure ``surrogates``). That is an inference, not the paper's.
    """

    n_actions: int = 128_000
    n_correct: int = 10_000
    anchor_logit: float = 5.0
    correct_logit: float = 3.0
    incorrect_logit: float = 0.0
    logits: ArrayLike | None = None
    group_size: int = 8
    rule: str = "centered"
    rule_options: Mapping[str, Any] = field(default_factory=dict)
    gamma: float = 0.0
    steps: int = 1000
    learning_rate: float = 1e-2
    optimizer: str = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    surrogate: str = "ratio"
    distinct: bool = False
    response_weight_cap: float | None = None
    entropy_bonus: float = 0.0
    kl: float = 0.0
    record_every: int = 10

    def initial_logits(self) -> NDArray[np.float64]:
        """The logits at step 0, checked, of shape (n_actions,)."""
        n = check.whole_number("n_actions", self.n_actions, 2, high=LARGEST_POLICY)
        n_correct = check.whole_number("n_correct", self.n_correct)
        if n_correct >= n:
            raise ValueError(f"n_correct must be < n_actions ({n}); got {n_correct}")
        if self.logits is not None:
            logits = check.finite("logits", self.logits).copy()
            if logits.shape != (n,):
                raise ValueError(f"logits must have shape ({n},); got {logits.shape}")
            return logits
        logits = np.full(n, check.number("incorrect_logit", self.incorrect_logit))
        logits[:n_correct] = check.number("correct_logit", self.correct_logit)
        logits[0] = check.number("anchor_logit", self.anchor_logit)
        return logits


@dataclass(frozen=True)
class CategoricalRun:
    """What one run recorded; arrays of one length, one entry per record.

    Attributes
    ----------
    steps : int array
        Updates made before the record: 0, record_every, ..., the last step.
    q_pos : float array
        Probability of a correct action.
    retained_mass : float array
        M_ret, [FGRPO] v2, Eq. 26: 1 - (probability lost by correct actions that lost some) /
        (initial Q_pos). 1 where no correct action lost any.
    entropy : float array
        Of the policy, in nats.
    improved_share : float array
        Share of correct actions above their initial probability (by more than 1e-12 of it).
    worst_drop : float array
        Largest loss of probability of one correct action, as a change <= 0.
    unsampled_mass, unsampled_change : float arrays
        Mean over the groups since the previous record: Q_u,pos, the mass of correct actions that
        the group did not draw, and its change by the update. NaN at step 0.
    focal_weight, mixed_share : float arrays
        Mean focal weight of those groups, and the share of them with correct and wrong actions.
    logits : float array of n_actions
        At the end.
    """

    steps: NDArray[np.int64]
    q_pos: NDArray[np.float64]
    retained_mass: NDArray[np.float64]
    entropy: NDArray[np.float64]
    improved_share: NDArray[np.float64]
    worst_drop: NDArray[np.float64]
    unsampled_mass: NDArray[np.float64]
    unsampled_change: NDArray[np.float64]
    focal_weight: NDArray[np.float64]
    mixed_share: NDArray[np.float64]
    logits: NDArray[np.float64]

    @property
    def policy(self) -> NDArray[np.float64]:
        """Probabilities at the end."""
        weights = np.exp(self.logits - self.logits.max())
        return weights / weights.sum()

    def frame(self) -> pd.DataFrame:
        """One row per record, with a column ``step``."""
        import pandas as pd

        names = [name for name in self.__dataclass_fields__ if name not in ("steps", "logits")]
        return pd.DataFrame({"step": self.steps, **{name: getattr(self, name) for name in names}})


def simulate_categorical(config: CategoricalConfig, *, rng: _rng.RNG) -> CategoricalRun:
    r"""Train a softmax over actions by group-relative policy gradient, and record what it forgets.

    Parameters
    ----------
    config : CategoricalConfig
        See there.
    rng : int, SeedSequence, Generator or None
        Source of the draws.

    Returns
    -------
    CategoricalRun

    Raises
    ------
    ValueError
        A field of the config out of its range; the message names it.

    Notes
    -----
    [FGRPO] v2, Sec. 5.1 and App. J. Compiled loops that touch only the actions still moving where
    the rest provably stand still, and are otherwise dense; both agree to rounding, and with the
    plain NumPy definition in tests/naive/categorical.py on the same uniforms
    (tests/test_categorical.py). Speed: tests/bench_categorical.py. Releases the GIL.

    Examples
    --------
    >>> run = simulate_categorical(CategoricalConfig(group_size=64, steps=100), rng=0)
    >>> run.q_pos[[0, -1]].round(4).tolist()
    [0.6301, 0.6364]
    """
    from . import _categorical_kernel as kernel
    from ._categorical_large import run_large
    from ._categorical_moving import run_moving
    from ._inverse_cdf import padded

    logits = config.initial_logits()
    n, n_correct = len(logits), int(config.n_correct)
    N = check.whole_number("group_size", config.group_size, high=LARGEST_GROUP)
    check.one_of("rule", config.rule, RULES)
    options = check.rule_options(config.rule_options)
    correct, wrong = advantage_table(config.rule, N, gamma=config.gamma, **options)
    focal = focal_weight(np.arange(N + 1) / N, config.gamma)
    steps = check.whole_number("steps", config.steps)
    every = check.whole_number("record_every", config.record_every)
    surrogate = SURROGATES.index(check.one_of("surrogate", config.surrogate, SURROGATES))
    optimizer = OPTIMIZERS.index(check.one_of("optimizer", config.optimizer, OPTIMIZERS))
    distinct = bool(check.one_of("distinct", config.distinct, (False, True)))
    lr, beta1, beta2, eps, decay, entropy_bonus, kl = _rates(config)
    cap = 0.0
    if config.response_weight_cap is not None:
        within = check.within("response_weight_cap", config.response_weight_cap, 0.0, np.inf)
        cap = float(check.one("response_weight_cap", within))
        if cap == 0.0:
            raise ValueError("response_weight_cap must be > 0, or None for no response weight")

    whole = np.zeros(padded(n))
    whole[:n] = logits
    trace = np.empty((1 + -(-steps // every), len(kernel.COLUMNS)))
    rng = _rng.generator(rng)
    only_drawn = (
        config.optimizer == "adam"
        and config.surrogate == "ratio"
        and not (distinct or cap or entropy_bonus or kl)
        and _centred(correct, wrong)
    )
    largest_step = _largest_step(lr, beta1, beta2)
    small = largest_step <= kernel.SERIES_REACH
    common = lr, beta1, beta2, eps, steps, every, rng, trace
    if only_drawn and N * MANY <= n and lr * steps <= FAR and largest_step < np.inf:
        by_weight = np.argsort(-logits[:n_correct], kind="stable")
        run_moving(whole, n, n_correct, by_weight, N, correct, wrong, focal, *common, small)
    elif only_drawn and largest_step * kernel.REFRESH <= kernel.RANGE:
        run_large(whole, n, n_correct, N, correct, wrong, focal, *common, small)
    else:
        kernel.run_dense(
            whole, n, n_correct, N, correct, wrong, focal, surrogate, distinct, cap,
            entropy_bonus, kl, optimizer, lr, beta1, beta2, eps, decay, steps, every, rng, trace,
        )  # fmt: skip
    columns = dict(zip(kernel.COLUMNS, trace.T.copy(), strict=True))
    return CategoricalRun(columns.pop("step").astype(np.int64), **columns, logits=whole[:n])


def _rates(config: CategoricalConfig) -> tuple[float, ...]:
    lowest = {
        "learning_rate": 0.0,
        "beta1": 0.0,
        "beta2": 0.0,
        "eps": np.finfo(float).tiny,
        "weight_decay": 0.0,
        "entropy_bonus": 0.0,
        "kl": 0.0,
    }
    rates = {name: check.number(name, getattr(config, name), low) for name, low in lowest.items()}
    for name in ("beta1", "beta2"):
        if rates[name] >= 1:
            raise ValueError(f"{name} must be below 1; got {rates[name]}")
    return tuple(rates.values())


def _centred(correct: NDArray[np.float64], wrong: NDArray[np.float64]) -> bool:
    """Whether the advantages of every group sum to zero, but for rounding."""
    N = len(correct) - 1
    K = np.arange(N + 1)
    from_correct, from_wrong = K * correct, (N - K) * wrong
    size = np.abs(from_correct) + np.abs(from_wrong)
    return bool(np.all(np.abs(from_correct + from_wrong) <= 1e-12 * size))


def _largest_step(lr: float, beta1: float, beta2: float) -> float:
    """Bound on Adam's change of a logit in a step, by Cauchy-Schwarz; infinite if there is none.

    Where it is finite, updates shrink once an action is no longer drawn.
    """
    if beta1 >= 0.999 * beta2**0.5:
        return np.inf
    return lr * max(1.0, (1 - beta1) / (1 - beta2) ** 0.5) / (1 - beta1**2 / beta2) ** 0.5
