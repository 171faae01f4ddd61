"""The fast simulator against dense NumPy at every group size, and against BroRL's numbers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from tailmiss.figures import brorl
from tailmiss.figures._figure import read_csv, reference
from tailmiss.figures._yardstick import dense_numpy
from tailmiss.sims import CategoricalConfig, simulate_categorical

BRORL = {4: 0.601, 8: 0.603, 16: 0.607, 512: 0.634, 51200: 0.647}
SEEDS, SIZES, FALSE_FAIL = 8, [2**k for k in range(1, 15)], 1e-6


def both(N, gamma, steps, n, rng):
    """(seeds, 2) arrays of Q_pos and M_ret at the end: ours and dense NumPy's."""
    config = CategoricalConfig(
        n_actions=n, n_correct=n * 10_000 // 128_000, group_size=N, gamma=gamma, steps=steps,
        record_every=steps,
    )  # fmt: skip
    ours, dense = [], []
    for stream in rng.spawn(2 * SEEDS)[::2]:
        run = simulate_categorical(config, rng=stream)
        ours.append((run.q_pos[-1], run.retained_mass[-1]))
        dense.append(dense_numpy(N, steps, stream.spawn(1)[0], gamma=gamma, n=n))
    return np.array(ours), np.array(dense)


@pytest.mark.long
@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("N", SIZES)
def test_step_1000_agrees_with_dense_numpy(N, gamma, rng):
    """Welch's test on 8 seeds each; the false-alarm rate is shared by all sizes and measures."""
    ours, dense = both(N, gamma, 1000, 16_000, rng)
    level = FALSE_FAIL / (2 * len(SIZES) * 2)
    for measure in (0, 1):
        a, b = ours[:, measure], dense[:, measure]
        assert stats.ttest_ind(a, b, equal_var=False).pvalue > level, (a.mean(), b.mean())
        spread = np.hypot(a.std(ddof=1), b.std(ddof=1)) / np.sqrt(SEEDS)
        assert abs(a.mean() - b.mean()) < 8 * spread + 1e-12


def test_the_committed_brorl_run_has_the_numbers_of_brorl():
    """Literal surrogate, AdamW, rate 1e-3: Q_pos after 1,000 steps, to the digits stated."""
    table = read_csv(reference(brorl, full=True))
    end = table[(table.step == 1000) & (table.divisor == 1)].set_index("N").q_pos
    assert end.to_dict() == pytest.approx(BRORL, abs=1e-3)


def test_no_interval_of_a_drop_is_above_zero():
    fig = Figure()
    brorl.draw(read_csv(reference(brorl, full=True)), fig)
    assert fig.axes[2].dataLim.y1 == 0.0


@pytest.mark.long
@pytest.mark.parametrize("N", [4, 8, 16, 512])
def test_brorl_again_with_another_seed(N, rng):
    config = CategoricalConfig(
        group_size=N, surrogate="probability", optimizer="adamw", learning_rate=1e-3,
        record_every=1000,
    )  # fmt: skip
    assert simulate_categorical(config, rng=rng).q_pos[-1] == pytest.approx(BRORL[N], abs=1.2e-3)
