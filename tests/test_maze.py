from __future__ import annotations

import io
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrated import assert_bernoulli, assert_mean
from naive import maze as naive
from tailmiss.advantages import advantage_table, weight_function
from tailmiss.figures import _maze
from tailmiss.figures._figure import REFERENCE, read_csv
from tailmiss.sims import _maze_kernel as env
from tailmiss.sims import _maze_policy_kernel as kernel
from tailmiss.sims import _maze_training_kernel as training
from tailmiss.sims import maze_window
from tailmiss.sims.maze import (
    ALGORITHMS,
    MazeConfig,
    WindowPolicy,
    generate_mazes,
    held_out,
    pass_at_k,
    simulate_maze,
    solve_mazes,
)
from tailmiss.sims.maze_encoding import PAPER_VOCABULARY, Encoding
from tailmiss.sims.sweep import run_sweep
from tailmiss.weights import response_weight

SMALL = MazeConfig(
    policy=WindowPolicy(window=5, hidden=8), size=7, algorithm="kruskal", group_size=4, steps=6,
    prompts=8, warm_start_pass_at_1=0.3, warm_start_steps=300, warm_start_prompts=16,
    test_mazes=64, validation_mazes=64, record_every=3,
)  # fmt: skip
SIZE, WINDOW, HIDDEN = 9, 5, 12


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [5, 9, 17, 23])
def test_generators_equal_their_plain_twins(algorithm, size):
    got = generate_mazes(20, size, rng=7, algorithm=algorithm)
    rng = np.random.default_rng(7)
    assert_array_equal(got, [naive.GENERATORS[algorithm](size, rng) for _ in range(20)])


def assert_perfect_and_shortest(mazes):
    moves, lengths = solve_mazes(mazes)
    goal = mazes.shape[1] - 2
    for maze, path, length in zip(mazes, moves, lengths, strict=True):
        squares = naive.graph(maze)
        assert nx.is_tree(squares)
        assert len(squares) == 2 * ((len(maze) - 1) // 2) ** 2 - 1
        visited = naive.walk(path[:length])
        assert visited == nx.shortest_path(squares, (1, 1), (goal, goal))
        assert (path[length:] == -1).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_mazes_are_perfect_and_paths_shortest(algorithm, rng):
    assert_perfect_and_shortest(generate_mazes(150, 17, rng=rng, algorithm=algorithm))
    assert_perfect_and_shortest(generate_mazes(20, 31, rng=rng, algorithm=algorithm))


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ten_thousand_mazes_are_perfect_and_paths_shortest(algorithm, rng):
    assert_perfect_and_shortest(generate_mazes(10_000, 17, rng=rng, algorithm=algorithm))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ten_thousand_mazes_hold_as_many_openings_as_a_tree(algorithm, rng):
    mazes = generate_mazes(10_000, 17, rng=rng, algorithm=algorithm)
    assert ((mazes == 0).sum((1, 2)) == 2 * 64 - 1).all()
    cells = mazes[:, 1::2, 1::2]
    assert not cells.any()
    assert mazes[:, ::2, ::2].all()
    solve_mazes(mazes)


def test_path_lengths_of_prim_mazes(rng):
    lengths = solve_mazes(generate_mazes(40_000, 17, rng=rng))[1]
    assert_bernoulli(int((lengths == 28).sum()), len(lengths), 0.769, detects=0.03)
    assert abs((lengths == 28).mean() - 0.769) < 0.015
    assert abs(lengths.mean() - 29.08) < 0.1


def test_wilson_trees_are_uniform(rng):
    mazes = generate_mazes(20_000, 5, rng=rng, algorithm="wilson")
    closed = mazes[:, [1, 2, 2, 3], [2, 1, 3, 2]].argmax(1)
    for wall in range(4):
        assert_bernoulli(int((closed == wall).sum()), len(mazes), 0.25, detects=0.03)


def test_paths_are_shortest_where_there_are_loops(rng):
    mazes = generate_mazes(100, 11, rng=rng)
    mazes[:, 1:-1, 1:-1][rng.random((100, 9, 9)) < 0.3] = 0
    moves, lengths = solve_mazes(mazes)
    for maze, path, length in zip(mazes, moves, lengths, strict=True):
        visited = naive.walk(path[:length])
        assert visited[-1] == (9, 9)
        assert not any(maze[square] for square in visited)
        assert length == nx.shortest_path_length(naive.graph(maze), (1, 1), (9, 9))


def test_random_walks_reach_the_goal_as_often_as_they_should(rng):
    mazes = generate_mazes(3, 5, rng=rng, algorithm="wilson")
    reached = np.zeros(3, np.int64)
    made = env.random_walks(mazes, 200_000, 30, reached, rng)
    assert made > 3 * 200_000
    for maze, hits in zip(mazes, reached, strict=True):
        p = naive.reach_probability(maze, 30)
        assert_bernoulli(int(hits), 200_000, p, detects=0.004)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generate_mazes(1, 8, rng=0), "size must be odd; got 8"),
        (lambda: generate_mazes(1, 3, rng=0), "size must be whole, >= 5"),
        (lambda: generate_mazes(-1, 9, rng=0), "n must be whole, >= 0"),
        (lambda: generate_mazes(1, 9, rng=0, algorithm="dfs"), "algorithm must be one of 'prim'"),
        (lambda: solve_mazes(np.ones((1, 9, 9))), "the goal of maze 0 cannot be reached"),
        (lambda: solve_mazes(np.zeros((9, 9))), r"mazes must be \(n, size, size\)"),
        (lambda: solve_mazes(np.full((1, 9, 9), 2)), r"mazes must be in \[0, 1\]; got 2"),
        (lambda: MazeConfig(size=16), "size must be odd"),
        (lambda: MazeConfig(rule="ppo"), "rule must be one of"),
        (lambda: MazeConfig(gamma=-1.0), "gamma must be finite and >= 0"),
        (lambda: MazeConfig(group_size=0), "group_size must be whole"),
        (lambda: MazeConfig(weighting="mean"), "weighting must be one of"),
        (lambda: MazeConfig(weight_cap=0.5), "weight_cap must be"),
        (lambda: MazeConfig(response_weight="no"), "response_weight must be one of False, True"),
        (lambda: MazeConfig(warm_start_pass_at_1=[0.1]), "warm_start_pass_at_1 must be one number"),
        (lambda: MazeConfig(policy="window"), "policy must be a WindowPolicy or"),
        (lambda: WindowPolicy(window=4), "window must be odd and at most 13; got 4"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def learner(rng, scale=0.5):
    parameters = rng.normal(scale=scale, size=kernel.n_parameters(SIZE, WINDOW, HIDDEN))
    return parameters, *kernel.ready(parameters, SIZE, WINDOW, HIDDEN)


def test_target_probability_is_the_product_along_the_path(rng):
    parameters, model, _ = learner(rng)
    mazes = generate_mazes(12, SIZE, rng=rng, algorithm="wilson")
    moves, lengths = solve_mazes(mazes)
    got = np.empty(12)
    training.target_log_probs(mazes, moves, lengths, parameters, WINDOW, HIDDEN, got)
    expected = [
        naive.path_log_prob(model, maze, path[:n], WINDOW)
        for maze, path, n in zip(mazes, moves, lengths, strict=True)
    ]
    assert_allclose(got, expected, rtol=1e-12)


def warm_started():
    """A policy of middling success on mazes it has not seen, one of them, and its exact p."""
    parameters = maze_window.warm_start(SMALL)[0].parameters
    policy = SMALL.policy
    mazes, moves, lengths = held_out(SMALL, "test")
    log_p = np.empty(len(mazes))
    training.target_log_probs(
        mazes, moves, lengths, parameters, policy.window, policy.hidden, log_p
    )
    one = int(np.argmin(np.abs(log_p - np.log(0.3))))
    _, weights = kernel.ready(parameters, *maze_window.shape(SMALL))
    path = np.append(moves[one, : lengths[one]], -1)
    return parameters, weights, mazes[one], path, float(log_p[one])


def test_exact_pass_at_k_equals_sampling(rng):
    _, weights, maze, path, log_p = warm_started()
    k, groups = 2, 60_000
    work = kernel.workspace(*maze_window.shape(SMALL), k)
    hits = 0
    for _ in range(groups):
        found, used = kernel.roll_out(maze, path, True, k, weights, work, rng)
        kernel.forget_slots(work, used)
        hits += found > 0
    expected = float(pass_at_k(log_p, k))
    assert 0.2 < expected < 0.8
    assert_bernoulli(hits, groups, expected, detects=0.02)


def group_and_advantages(rng, response):
    parameters, model, weights = learner(rng)
    N = 6
    maze = generate_mazes(1, SIZE, rng=rng)[0]
    moves, _ = solve_mazes(maze[None])
    work = kernel.workspace(SIZE, WINDOW, HIDDEN, N)
    _, used = kernel.roll_out(maze, np.append(moves[0], -1), True, N, weights, work, rng)
    work.correct[:] = rng.random(N) < 0.5  # any verdicts will do
    rollouts = [work.moves[i, : work.lengths[i]].copy() for i in range(N)]
    correct = work.correct.copy()
    kernel.credit(N, 0.7, -0.4, response, work)
    flat, slope, gradient = kernel.blank_gradient(SIZE, WINDOW, HIDDEN)
    kernel.backward(weights, gradient, work, used)
    kernel.fold(gradient[0], WINDOW, slope[0])
    assert (work.slot_of == -1).all()
    assert (work.coefficient == 0).all()
    assert (gradient[0] == 0).all()
    return parameters, model, maze, rollouts, np.where(correct, 0.7, -0.4), flat


@pytest.mark.parametrize("cap", [0.0, 1.5, 1e9])
def test_gradient_equals_torch_autograd(cap, rng):
    torch = pytest.importorskip("torch")
    _, model, maze, rollouts, advantage, got = group_and_advantages(rng, cap)
    leaves = [torch.tensor(part, requires_grad=True) for part in model]
    w1, b1, w2, b2 = leaves
    loss = torch.zeros((), dtype=torch.float64)
    for moves, a in zip(rollouts, advantage, strict=True):
        states = [
            naive.features(maze, square, previous, WINDOW)
            for square, previous in zip(naive.walk(moves), [4, *moves[:-1]], strict=False)
        ]
        x = torch.tensor(np.array(states))
        logp = ((x @ w1 + b1).relu() @ w2 + b2).log_softmax(1)
        chosen = logp[torch.arange(len(moves)), torch.tensor(moves.astype(int))]
        if cap:
            N = len(rollouts)
            a *= min(N * response_weight(float(chosen.detach().mean()), N), cap)
        loss = loss - a * chosen.sum()
    loss.backward()
    expected = np.concatenate([leaf.grad.numpy().ravel() for leaf in leaves])
    assert_allclose(got, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adamw_equals_torch(weight_decay, rng):
    torch = pytest.importorskip("torch")
    ours, moments = rng.normal(size=40), np.zeros((2, 40))
    theirs = torch.tensor(ours, requires_grad=True)
    optimiser = torch.optim.AdamW([theirs], lr=1e-2, weight_decay=weight_decay)
    for step in range(1, 51):
        gradient = rng.normal(size=40) * 10.0 ** rng.integers(-6, 3, 40)
        theirs.grad = torch.tensor(gradient)
        optimiser.step()
        training.adamw(ours, gradient, moments, step, 1e-2, weight_decay)
    assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_expected_update_is_the_weight_function_times_the_gradient_of_p(rng):
    """E[sum_i A_i grad log pi] = N w_N(p) grad p, on the simulator's own groups."""
    parameters, weights, maze, path, log_p = warm_started()
    size, window, hidden = maze_window.shape(SMALL)
    slope_of_log = np.empty((1, parameters.size))
    training.target_gradients(
        maze[None], path[None], np.array([len(path) - 1]), parameters, window, hidden, slope_of_log
    )
    size_of_slope = np.linalg.norm(slope_of_log)
    N, trials = 4, 5_000
    gain, loss = advantage_table("grpo", N, gamma=1.0)
    work = kernel.workspace(size, window, hidden, N)
    flat, slope, gradient = kernel.blank_gradient(size, window, hidden)
    draws = np.empty(trials)
    for i in range(trials):
        flat[:] = 0
        hits, used = kernel.roll_out(maze, path, True, N, weights, work, rng)
        kernel.credit(N, gain[hits], loss[hits], 0.0, work)
        kernel.backward(weights, gradient, work, used)
        kernel.fold(gradient[0], window, slope[0])
        draws[i] = -flat @ slope_of_log[0] / size_of_slope / N
    p = np.exp(log_p)
    expected = weight_function("grpo", N, p, gamma=1.0) * p * size_of_slope
    assert_mean(draws, float(expected), detects=0.3 * float(expected))


def test_expected_change_is_the_slope_along_the_expected_update(rng):
    """Moving parameters a little along u changes ln p of an unseen maze as predicted."""
    config = replace(SMALL, rule="rloo", gamma=1.0)
    learner, _ = maze_window.warm_start(config)
    mazes = generate_mazes(30, config.size, rng=rng, algorithm=config.algorithm)
    fresh, unseen = (mazes, *solve_mazes(mazes)), held_out(config, "test")
    change, size = maze_window.expected_change(config, learner, fresh, unseen)
    p = np.exp(maze_window.target_log_probs(config, learner, *fresh))
    w = weight_function("rloo", config.group_size, p, gamma=1.0)
    u = (w * p) @ maze_window.gradients(config, learner, *fresh) / 30
    assert_allclose(size, np.linalg.norm(u))
    after, before = (
        maze_window.target_log_probs(
            config, maze_window.Learner(learner.parameters + h * u, learner.moments), *unseen
        )
        for h in (1e-6, -1e-6)
    )
    assert_allclose((after - before) / 2e-6, change, rtol=1e-5, atol=1e-6)


def test_a_maze_not_in_the_batch_moves_as_expected():
    """One plain gradient step per batch, averaged over batches, against the exact expectation."""
    config = replace(SMALL, group_size=2, rule="rloo", prompts=64)
    learner, _ = maze_window.warm_start(config)
    mazes = generate_mazes(20_000, config.size, rng=9, algorithm=config.algorithm)
    moves, lengths = solve_mazes(mazes)
    change, _ = maze_window.expected_change(
        config, learner, (mazes, moves, lengths), held_out(config, "test")
    )
    gain, loss = advantage_table("rloo", 2)
    shape = maze_window.shape(config)
    _, weights = kernel.ready(learner.parameters, *shape)
    flat, slope, gradient = kernel.blank_gradient(*shape)
    work = kernel.workspace(*shape, 2)
    rng = np.random.default_rng(10)
    for maze, path, n in zip(mazes, moves, lengths, strict=True):
        hits, used = kernel.roll_out(maze, np.append(path[:n], -1), True, 2, weights, work, rng)
        kernel.credit(2, gain[hits], loss[hits], 0.0, work)
        kernel.backward(weights, gradient, work, used)
    kernel.fold(gradient[0], shape[1], slope[0])
    update = -flat / (2 * len(mazes))
    sampled = maze_window.gradients(config, learner, *held_out(config, "test")) @ update
    assert np.corrcoef(sampled, change)[0, 1] > 0.99


def test_paths_are_drawn_with_their_own_probability(rng):
    learner, _ = maze_window.warm_start(SMALL)
    maze = held_out(SMALL, "test")[0][0]
    drawn = maze_window.sample_paths(SMALL, learner, maze, 4_000, rng)
    counts: dict[bytes, int] = {}
    for moves, _ in drawn:
        counts[moves.tobytes()] = counts.get(moves.tobytes(), 0) + 1
    likely, log_p = max(drawn, key=lambda pair: pair[1])
    assert_bernoulli(counts[likely.tobytes()], 4_000, np.exp(log_p), detects=0.07)
    model = kernel.layers(learner.parameters, SMALL.size, SMALL.policy.window, SMALL.policy.hidden)
    assert_allclose(naive.path_log_prob(model, maze, likely, SMALL.policy.window), log_p)


def test_a_batch_misses_rare_prompts_as_often_as_sampling_says(rng):
    from tailmiss.figures.maze_forgetting import batch_tail_miss

    p, rare = np.array([0.3, 0.6, 0.02, 0.1]), np.array([False, False, True, True])
    N, groups, trials = 3, 2, 40_000
    prompts = rng.integers(0, 4, (trials, groups))
    hits = rng.binomial(N, p[prompts])
    missed = ~((hits > 0) & rare[prompts]).any(1)
    active = ((hits > 0) & (hits < N)).any(1)
    expected = batch_tail_miss(N, p, rare, groups)
    assert_bernoulli(int((missed & active).sum()), trials, expected, detects=0.03)


def test_the_command_prints_a_run():
    command = shutil.which("tailmiss", path=str(Path(sys.executable).parent)) or "tailmiss"
    arguments = ["--size", "5", "--steps", "2", "--prompts", "2", "--warm-start-steps", "1"]
    arguments += ["--test-mazes", "8", "--gamma", "1", "--rule", "rloo", "--seed", "3"]
    done = subprocess.run(
        [command, "simulate", "maze", *arguments], capture_output=True, text=True, check=True
    )
    table = pd.read_csv(io.StringIO(done.stdout))
    assert table["step"].tolist() == [0, 2] * 3
    bad = subprocess.run(
        [command, "simulate", "maze", "--size", "8"], capture_output=True, text=True
    )
    assert bad.returncode == 2
    assert bad.stderr == "tailmiss: size must be odd; got 8\n"


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_results_do_not_depend_on_the_workers(backend):
    configs = [replace(SMALL, gamma=gamma) for gamma in (0.0, 1.0)]
    made = []
    for jobs in (1, 2):
        with joblib.parallel_config(backend=backend, n_jobs=jobs):
            made.append(pd.concat(run_sweep(simulate_maze, configs, rng=5, repeats=2)))
    pd.testing.assert_frame_equal(*made, check_exact=True)


def test_a_run_reports_its_base_and_every_class():
    run = simulate_maze(SMALL, rng=1)
    assert_array_equal(run.steps, [0, 3, 6])
    assert run.log_p.shape == (3, SMALL.test_mazes)
    assert_array_equal(run.lengths, held_out(SMALL, "test")[2])
    frame = run.frame()
    everything, shortest, detour = (
        frame[frame.mazes == name].reset_index() for name in ("all", "shortest", "detour")
    )
    mixture = shortest.share * shortest["pass@128"] + detour.share * detour["pass@128"]
    assert_allclose(everything["pass@128"], mixture, rtol=1e-12)
    assert everything.reward.isna().tolist() == [True, False, False]
    assert (np.diff(frame[["pass@1", "pass@128", "pass@256", "pass@1024", "pass@2048"]]) >= 0).all()


def test_runs_of_one_base_seed_share_base_and_mazes():
    one = simulate_maze(SMALL, rng=1)
    other = simulate_maze(replace(SMALL, gamma=1.0, group_size=8), rng=2)
    assert_array_equal(one.log_p[0], other.log_p[0])
    elsewhere = simulate_maze(replace(SMALL, base_seed=1), rng=1)
    assert (one.log_p[0] != elsewhere.log_p[0]).any()


def test_controls_are_the_plain_update_without_gamma():
    plain = simulate_maze(SMALL, rng=3).log_p
    for control in ("batch_mean", "learning_rate"):
        assert_allclose(simulate_maze(replace(SMALL, weighting=control), rng=3).log_p, plain)


def test_a_constant_weight_does_nothing_under_adamw():
    """AdamW divides by the gradient's size: dividing by N or N - 1 in the std is the same."""
    runs = [
        simulate_maze(replace(SMALL, rule_options={"ddof": ddof}), rng=3).log_p for ddof in (0, 1)
    ]
    assert_allclose(*runs, atol=1e-4)


@pytest.mark.parametrize("rule", ["dapo", "maxrl", "rloo", "psr", "nsr", "disco_b"])
def test_any_rule_runs(rule):
    run = simulate_maze(replace(SMALL, rule=rule, response_weight=True), rng=1)
    assert np.isfinite(run.log_p).all()
    assert (run.log_p[1] != run.log_p[0]).any()


def test_dapo_draws_until_the_batch_is_mixed():
    gain, loss, focal = replace(SMALL, rule="dapo").tables
    parameters = maze_window.warm_start(SMALL)[0].parameters
    policy, counts = SMALL.policy, np.zeros(6)
    training.reinforce(
        parameters, np.zeros((2, parameters.size)), 0, 5, 8, SMALL.size, 1, policy.window,
        policy.hidden, True, gain, loss, focal, False, 0.0, 10, 1e-3, 0.0, 0.0,
        np.random.default_rng(0), counts,
    )  # fmt: skip
    assert counts[3] == 5 * 8
    assert counts[2] > counts[3]


def test_reaching_the_goal_is_easier_than_the_target():
    runs = [simulate_maze(replace(SMALL, success=s, steps=3), rng=4) for s in ("target", "goal")]
    assert runs[0].train[1, 0] <= runs[1].train[1, 0]


def test_gradient_norm_is_clipped():
    plain, clipped = (
        simulate_maze(replace(SMALL, clip_norm=norm, steps=3), rng=4).log_p[-1]
        for norm in (0, 1e-9)
    )
    assert (plain != clipped).any()


def test_grpo_forgets_where_the_focal_weight_keeps():
    """The quick preset, in miniature: 17x17 mazes, N = 8, 300 steps, one seed."""
    base = MazeConfig(steps=300, record_every=300, test_mazes=256)
    grpo, focal = (simulate_maze(replace(base, gamma=gamma), rng=0) for gamma in (0.0, 1.0))
    before, after = grpo.pass_at_k(2048)
    assert after < before - 0.01
    assert focal.pass_at_k(2048)[-1] > after
    assert grpo.pass_at_k(1)[-1] > 5 * grpo.pass_at_k(1)[0]


@pytest.mark.long
def test_a_committed_arm_repeats():
    """Fig. 7 at N = 8 with gamma = 1, all four seeds. Sums are in a fixed order: to rounding."""
    full = _maze.grid("window", _maze.WINDOW)
    configs = [c for c in full if (c.group_size, c.gamma, c.weighting) == (8, 1.0, "focal")]
    made = run_sweep(simulate_maze, configs, rng=_maze.stream(0))
    again = _maze.summary(
        pd.concat(_maze.labelled(*run, "") for run in zip(made, configs, strict=True))
    )
    kept = read_csv(REFERENCE / "full" / "fig7.csv").merge(again[[*_maze.ARM, "step"]])
    assert len(kept) == len(again) == 21
    for column in ("reward", "pass@1", "pass@2048", "pass@2048_low"):
        assert_allclose(again[column], kept[column], rtol=1e-6)


def test_paper_tokens():
    mazes = generate_mazes(2, 17, rng=0)
    moves, lengths = solve_mazes(mazes)
    encoding = Encoding("tokens", 17)
    prompts = encoding.prompts(mazes)
    words = [PAPER_VOCABULARY[token] for token in prompts[0]] + [PAPER_VOCABULARY[encoding.start]]
    assert len(words) == 310
    assert len(PAPER_VOCABULARY) == 32
    assert words[:2] == ["<bos>", "GRID_START"]
    assert words[-2:] == ["GRID_END", "PATH_START"]
    squares = np.array(words[2:-2]).reshape(17, 18)
    assert (squares[:, -1] == "NEWLINE").all()
    assert_array_equal(squares[:, :-1] == "WALL", mazes[0] == 1)
    assert squares[1, 1] == "START"
    assert squares[15, 15] == "GOAL"
    answers, n = encoding.answers(moves, lengths)
    names = {0: "UP", 1: "DOWN", 2: "LEFT", 3: "RIGHT"}
    path = [PAPER_VOCABULARY[token] for token in answers[0, : n[0]]]
    assert path == [names[int(move)] for move in moves[0, : lengths[0]]] + ["DONE"]


def test_cell_tokens_say_which_sides_are_open():
    maze = generate_mazes(1, 9, rng=3, algorithm="kruskal")
    encoding = Encoding("cells", 9)
    tokens = encoding.prompts(maze).reshape(4, 4)
    for row in range(4):
        for column in range(4):
            sides = [maze[0, 2 * row + 1 + dr, 2 * column + 1 + dc] == 0 for dr, dc in naive.STEPS]
            assert tokens[row, column] == sum(1 << i for i, side in enumerate(sides) if side)


@pytest.mark.parametrize(("kind", "size"), [("cells", 9), ("tokens", 5)])
def test_reaching_the_goal_equals_walking(kind, size, rng):
    encoding = Encoding(kind, size)
    mazes = generate_mazes(30, size, rng=rng)
    mazes[:, 2, 1 : size - 1 : 2] = 0  # loops, so that random answers reach the goal
    answers = rng.choice([*encoding.moves, encoding.moves[1], encoding.moves[3], encoding.done, 0],
                         size=(30, 400, 9), p=[.1, .17, .1, .17, .17, .17, .1, .02])  # fmt: skip
    targets, _ = encoding.answers(*solve_mazes(mazes))
    answers = np.pad(answers, ((0, 0), (0, 0), (0, targets.shape[1] + 9)))
    answers[:, 0, : targets.shape[1]] = targets
    answers[:, 1, 0], answers[:, 1, 1] = encoding.moves[1], encoding.moves[0]  # there and back
    answers[:, 1, 2 : 2 + targets.shape[1]] = targets
    got = encoding.reach_goal(mazes, answers)

    def walked(maze, tokens):
        square, reached = (1, 1), False
        for token in tokens:
            if token == encoding.done:
                return reached
            if token not in encoding.moves:
                return False
            dr, dc = naive.STEPS[int(token - encoding.moves[0])]
            for _ in range(encoding.stride):
                if not reached:
                    square = (square[0] + dr, square[1] + dc)
                    if maze[square]:
                        return False
            reached |= square == (size - 2, size - 2)
        return False

    expected = [[walked(m, tokens) for tokens in a] for m, a in zip(mazes, answers, strict=True)]
    assert_array_equal(got, expected)
    assert got[:, 0].all()
    assert 0 < got[:, 2:].mean() < 1
