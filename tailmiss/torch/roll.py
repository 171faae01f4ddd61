"""ROLL: ReCo's response weight in its actor, named by ``worker_cls`` in the YAML.

    from roll.pipeline.rlvr.actor_worker import ActorWorker
    class Worker(ReCoMixin, ActorWorker): pass

A worker sees parts of groups, so the focal weight does not belong here: multiply the advantages
where the pipeline has them all, after ``compute_advantage``.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .reco import response_weights


class ReCoMixin:
    """Multiplies ``compute_sample_weights`` by the response weights, relative to 1/G."""

    response_cap: float | None = 5.0

    def compute_sample_weights(self, data: Any, response_mask: Tensor) -> Tensor:
        weights = super().compute_sample_weights(data, response_mask)  # type: ignore[misc]
        logps = data.batch["old_log_probs"]
        return weights * response_weights(logps, response_mask, 1, cap=self.response_cap).to(
            weights
        )
