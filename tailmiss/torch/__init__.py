"""The adapter: the same weights on torch tensors, and inside trainers.

Groups are named by explicit ids, weights carry no gradient, and nothing waits for the device. One
leaf module per trainer (``tailmiss.torch.trl``, ``tailmiss.torch.verl``, ...) imports that trainer.
"""

from .focal import advantages, focal_weights, group_metrics
from .reco import MODES, log_variance_ratio, reco_loss, response_weights, token_coefficients

__all__ = [
    "MODES",
    "advantages",
    "focal_weights",
    "group_metrics",
    "log_variance_ratio",
    "reco_loss",
    "response_weights",
    "token_coefficients",
]
