"""Timing bar of the token simulator: its kernel against the twin of tests/naive, in one run."""

import statistics
import time

import numpy as np
import pytest

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
def test_kernel_is_50_times_faster_than_its_twin(benchmark):
    config = TokenConfig(
        prompts=512, prompts_per_policy=1, group_size=8, length=16, vocabulary=32, strategies=16
    )
    task = make_task(config, rng=0)
    u = np.random.default_rng(1).random((512, 8, 16))
    warm = task.logits.copy()
    train_step(config, task, warm, u)
    started = time.perf_counter()
    expected, _, _ = naive.train_step(config, task, task.logits, u)
    slow = time.perf_counter() - started
    np.testing.assert_array_equal(warm, expected)

    times = {train_step: [], vectorised_step: []}

    def timed():
        for step, seconds in times.items():
            logits = task.logits.copy()
            started = time.perf_counter()
            step(config, task, logits, u)
            seconds.append(time.perf_counter() - started)
            np.testing.assert_allclose(logits, expected, atol=1e-12)

    benchmark.pedantic(timed, rounds=15, warmup_rounds=2)
    fast, vectorised = (statistics.median(seconds) for seconds in times.values())
    benchmark.extra_info.update(seconds=fast, ratio=slow / fast, over_vectorised=vectorised / fast)
    print(
        f"kernel {fast * 1e3:.1f} ms; twin {slow:.2f} s, {slow / fast:.0f} times;"
        f" vectorised NumPy {vectorised * 1e3:.1f} ms, {vectorised / fast:.1f} times"
    )
    assert slow / fast >= 50
