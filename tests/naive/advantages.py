"""Advantages and weight functions from raw 0/1 rewards, one rollout at a time.

Written from the rules' papers and trainers' code, without the tables of advantages.py: rational
where the rule is, with `math` where it takes a root.
"""

from fractions import Fraction
from itertools import combinations, product
from math import comb, exp
from statistics import fmean, pstdev, stdev


def reinforce(rewards, reward_wrong=0.0):
    return [1.0 if r else reward_wrong for r in rewards]


def rloo(rewards):
    total, N = sum(rewards), len(rewards)
    return [r - Fraction(total - r, N - 1) for r in rewards]


def grpo(rewards, ddof=0, eps=0.0):
    spread = pstdev(rewards) if ddof == 0 else stdev(rewards) if len(rewards) > 1 else 0.0
    mean = fmean(rewards)
    if spread == 0:
        return [0.0] * len(rewards)
    return [(r - mean) / (spread + eps) for r in rewards]


def dr_grpo(rewards):
    return [r - Fraction(sum(rewards), len(rewards)) for r in rewards]


def centered(rewards):
    signs = [2 * r - 1 for r in rewards]
    return [s - Fraction(sum(signs), len(signs)) for s in signs]


def maxrl(rewards, keep_all_wrong=False):
    mean = Fraction(sum(rewards), len(rewards))
    if not mean:
        return [-1.0 if keep_all_wrong else 0.0] * len(rewards)
    return [(r - mean) / mean for r in rewards]


def pkpo(rewards, k=2, leave_out=False):
    """k times the mean, over the k-subsets that hold i, of their best reward.

    leave_out: less the best reward of the subset without i.
    """
    N = len(rewards)
    out = []
    for i in range(N):
        others = [j for j in range(N) if j != i]
        total = 0
        for rest in combinations(others, k - 1):
            best_rest = max((rewards[j] for j in rest), default=0)
            best = max(best_rest, rewards[i])
            total += best - best_rest if leave_out else best
        out.append(Fraction(k * total, comb(N - 1, k - 1)))
    return out


def passk(rewards, k=2):
    """Analytic pass@k advantage: groups of k are the units; a rollout gets its groups' mean."""
    N = len(rewards)
    groups = list(combinations(range(N), k))
    scores = [max(rewards[j] for j in group) for group in groups]
    spread = pstdev(scores) if len(scores) > 1 else 0.0
    if spread == 0:
        return [0.0] * N
    mean = fmean(scores)
    advantage = [(s - mean) / spread for s in scores]
    return [fmean(a for a, g in zip(advantage, groups, strict=True) if i in g) for i in range(N)]


def best_of_n(rewards):
    """Gradient of the best of N: a rollout counts where leaving it out changes the best."""
    return [
        max(rewards) - max((r for j, r in enumerate(rewards) if j != i), default=0)
        for i in range(len(rewards))
    ]


def psr(rewards):
    return [1 if r else 0 for r in rewards]


def nsr(rewards):
    return [0 if r else -1 for r in rewards]


def w_reinforce(rewards, lam=0.1):
    return [lam if r else -1 for r in rewards]


def disco_b(rewards):
    """Difference of the mean scores of correct and wrong rollouts, times N for the group mean."""
    N, K = len(rewards), sum(rewards)
    if K in (0, N):
        return [0] * N
    return [Fraction(N, K) if r else -Fraction(N, N - K) for r in rewards]


def grpo_lead(rewards, ddof=0, eps=0.0):
    def difficulty(x):
        return 0.4 + (1.5 - 0.4) / (1 + exp(10 * (x - 0.75)))

    rho = fmean(rewards)
    plain = grpo(rewards, ddof, eps)
    return [a * difficulty(rho if a > 0 else 1 - rho) for a in plain]


RULES = {
    f.__name__: f
    for f in (
        reinforce, rloo, grpo, dr_grpo, centered, maxrl, pkpo, passk, best_of_n, psr, nsr,
        w_reinforce, disco_b, grpo_lead,
    )
} | {"dapo": grpo}  # fmt: skip


def focal(rule, rewards, gamma, **options):
    """A rule's advantages times (1 - share of correct rollouts)^gamma."""
    scale = (1 - Fraction(sum(rewards), len(rewards))) ** gamma
    return [scale * a for a in RULES[rule](rewards, **options)]


def weight(rule, N, p, gamma=0, **options):
    """w_N(p) from the definition: E[(1/N) sum_i A_i s_i], s = 1/p if correct, -1/(1-p) if wrong.

    grad log pi has mean grad p / p over correct and -grad p / (1-p) over wrong rollouts.
    """
    total = 0
    for rewards in product((0, 1), repeat=N):
        chance = p ** sum(rewards) * (1 - p) ** (N - sum(rewards))
        advantage = focal(rule, rewards, gamma, **options)
        score = [1 / p if r else -1 / (1 - p) for r in rewards]
        total += chance * sum(Fraction(a) * s for a, s in zip(advantage, score, strict=True)) / N
    return total
