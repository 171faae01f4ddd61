"""tailmiss: when a group-relative update forgets rare correct answers, and what to do about it."""

from .advantages import RULES, advantage_table, learning_rate_multiplier, weight_function
from .estimate import Estimate, MeanEstimate
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
    "MeanEstimate",
    "advantage_table",
    "concentration_zone",
    "covering_group_size",
    "focal_weight",
    "learning_rate_multiplier",
    "log_tail_miss_prob",
    "miss_prob",
    "mixed_group_prob",
    "response_weight",
    "tail_miss_prob",
    "variance_ratio",
    "weight_function",
    "worst_group_size",
]
