"""tailmiss: when a group-relative update forgets rare correct answers, and what to do about it."""

from .advantages import RULES, advantage_table, learning_rate_multiplier, weight_function
from .audit import audit
from .curves import audit_curve
from .diversity import distinct_n, self_bleu, unseen_correct_mass
from .estimate import Estimate, MeanEstimate
from .montecarlo import estimate_tail_miss_prob
from .passk import g_pass_at_k, maj_at_k, mg_pass_at_k, pass_at_k, pass_hat_k
from .passk_uncertainty import mean_pass_at_k, pass_at_k_variance, posterior_pass_at_k
from .prompts import PromptPopulation, mixed_share, tail_miss_share
from .redistribution import ExpectedMassChange, MassChange, expected_mass_change, mass_change
from .rollouts import Rollouts, read_rollouts
from .sampled_mass import expected_baseline, expected_missed_mass, expected_sampled_mass
from .tail_miss import (
    concentration_zone,
    covering_group_size,
    log_tail_miss_prob,
    miss_prob,
    mixed_group_prob,
    tail_miss_prob,
    worst_group_size,
)
from .weights import focal_weight, response_weight, variance_ratio

__version__ = "0.1.0"

__all__ = [
    "RULES",
    "Estimate",
    "ExpectedMassChange",
    "MassChange",
    "MeanEstimate",
    "PromptPopulation",
    "Rollouts",
    "advantage_table",
    "audit",
    "audit_curve",
    "concentration_zone",
    "covering_group_size",
    "distinct_n",
    "estimate_tail_miss_prob",
    "expected_baseline",
    "expected_mass_change",
    "expected_missed_mass",
    "expected_sampled_mass",
    "focal_weight",
    "g_pass_at_k",
    "learning_rate_multiplier",
    "log_tail_miss_prob",
    "maj_at_k",
    "mass_change",
    "mean_pass_at_k",
    "mg_pass_at_k",
    "miss_prob",
    "mixed_group_prob",
    "mixed_share",
    "pass_at_k",
    "pass_at_k_variance",
    "pass_hat_k",
    "posterior_pass_at_k",
    "read_rollouts",
    "response_weight",
    "self_bleu",
    "tail_miss_prob",
    "tail_miss_share",
    "unseen_correct_mass",
    "variance_ratio",
    "weight_function",
    "worst_group_size",
]
