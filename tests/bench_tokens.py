"""Timing bar of the token simulator: its kernel against the twin of tests/naive."""

import numpy as np
import pytest
from timings import in_turns

from naive import tokens as naive
from tailmiss import advantage_table
from tailmiss.sims.tokens import TokenConfig, make_task, train_step


def vectorised_step(config, task, logits, u):
    """The same first GRPO step with NumPy over all rollouts at once, for scale."""
    P, N, T = u.shape
    row, c = np.arange(P)[:, None], np.zeros((P, N), int)
    tokens, contexts = np.empty((2, P, N, T), int)
    for t in range(T):
        z = logits[row, c]
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        cumulative = np.cumsum(e, axis=-1)
        tokens[..., t] = (cumulative <= u[..., t, None] * cumulative[..., -1:]).sum(axis=-1)
        contexts[..., t] = c
        c = task.child[row, c, tokens[..., t]]
    hits = (tokens[:, :, None] == task.strategies[:, None]).all(axis=-1) & task.correct[:, None]
    success = hits.any(axis=-1)
    a, b = advantage_table("grpo", N)
    K = success.sum(axis=1)[:, None]
    A = np.broadcast_to((np.where(success, a[K], b[K]) / N)[..., None], tokens.shape)
    push, total = np.zeros(logits.shape), np.zeros(logits.shape[:2])
    prompt = np.broadcast_to(row[..., None], tokens.shape)
    np.add.at(push, (prompt, contexts, tokens), A)
    np.add.at(total, (prompt, contexts), A)
    moved = np.nonzero(total.astype(bool) | push.any(axis=-1))
    e = np.exp(logits[moved] - logits[moved].max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    logits[moved] += config.learning_rate * (push[moved] - total[moved][:, None] * e)


@pytest.mark.bench
def test_kernel_is_50_times_faster_than_its_twin(measured):
    config = TokenConfig(
        prompts=512, prompts_per_policy=1, group_size=8, length=16, vocabulary=32, strategies=16
    )
    task = make_task(config, rng=0)
    u = np.random.default_rng(1).random((512, 8, 16))

    def step(update):
        """The same update from the initial logits."""
        logits = task.logits.copy()
        update(config, task, logits, u)
        return logits

    twin = []
    (slow,) = in_turns(
        lambda: twin.append(naive.train_step(config, task, task.logits, u)), repeats=1, warm_up=0
    )
    expected = twin[0][0]
    np.testing.assert_array_equal(step(train_step), expected)
    np.testing.assert_allclose(step(vectorised_step), expected, atol=1e-12)
    ours, vectorised = in_turns(
        lambda: step(train_step), lambda: step(vectorised_step), repeats=15, warm_up=2
    )
    what = "token simulator, a step of 512 prompts x 8 rollouts x 16 tokens"
    measured(what, ours, "vectorised NumPy", vectorised)
    measured(what, np.median(ours), "the same in plain Python", slow, faster=50)
