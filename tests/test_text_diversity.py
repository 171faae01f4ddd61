from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.util import ngrams

from tailmiss import diversity as d

WORDS = ["the", "x", "=", "12", "naïve", "数学", "🙂", "e\u0301", "and", "so"]


def corpora(rng):
    """200 corpora: odd ones first, then random ones of 2 to 9 texts of 0 to 14 words."""
    yield from (
        ["", ""],
        ["", "a b c"],
        ["a", "a"],
        ["a", "b"],
        ["one two three four five"] * 4,
        ["数学 は 楽しい 🙂", "数学 は 難しい 🙂", "naïve e\u0301"],
        ["a b", "a b c d e f", "a b c d"],
        ["x x x x x x", "x x", "x"],
    )
    for _ in range(192):
        pool = WORDS[: rng.integers(1, len(WORDS) + 1)]
        yield [
            " ".join(rng.choice(pool, size=rng.integers(0, 15))) for _ in range(rng.integers(2, 10))
        ]


def oracle_self_bleu(texts, max_n, epsilon):
    smooth = SmoothingFunction(epsilon=epsilon).method1
    words = [text.split() for text in texts]
    return np.mean(
        [
            sentence_bleu(
                words[:i] + words[i + 1 :],
                own,
                weights=(1 / max_n,) * max_n,
                smoothing_function=smooth,
            )
            for i, own in enumerate(words)
        ]
    )


def test_distinct_n_and_self_bleu_equal_nltk_on_200_corpora(rng):
    seen = 0
    for texts in corpora(rng):
        for n in (1, 2, 3):
            grams = [gram for text in texts for gram in ngrams(text.split(), n)]
            expected = len(Counter(grams)) / len(grams) if grams else np.nan
            np.testing.assert_equal(d.distinct_n(texts, n), expected)
        for max_n, epsilon in ((1, 0.1), (2, 0.1), (4, 0.1), (4, 0.5), (5, 0.1)):
            ours = d.self_bleu(texts, max_n, epsilon=epsilon)
            assert ours == pytest.approx(oracle_self_bleu(texts, max_n, epsilon), abs=1e-13)
        seen += 1
    assert seen == 200


def test_self_bleu_equals_sacrebleu_with_floor_smoothing(rng):
    from sacrebleu.metrics import BLEU

    metric = BLEU(smooth_method="floor", smooth_value=0.1, tokenize="none", effective_order=False)
    for _ in range(20):
        texts = [" ".join(rng.choice(WORDS[:5], size=rng.integers(5, 12))) for _ in range(5)]
        scores = [
            metric.sentence_score(own, texts[:i] + texts[i + 1 :]).score / 100
            for i, own in enumerate(texts)
        ]
        assert d.self_bleu(texts) == pytest.approx(np.mean(scores), abs=1e-12)


def test_texts_as_strings_tokens_and_padded_arrays_agree(rng):
    ids = rng.integers(0, 6, size=(7, 9))
    ids[2, 5:] = -1
    ids[4] = -1
    lists = [[t for t in row if t >= 0] for row in ids.tolist()]
    strings = [" ".join(map(str, row)) for row in lists]
    for measure in (d.distinct_n, d.self_bleu, lambda x: d.vendi_score(d.ngram_similarity(x))):
        assert measure(ids) == measure(lists) == measure(strings)
    assert d.self_bleu(["ab", "ab"], tokenize=list) == pytest.approx(d.self_bleu(["a b", "a b"]))


@given(st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=2, max_size=6), st.randoms())
def test_measures_stay_in_range_and_ignore_order(texts, random):
    shuffled = random.sample(texts, len(texts))
    bleu, distinct = d.self_bleu(texts), d.distinct_n(texts)
    assert 0 <= bleu <= 1 + 1e-12
    assert bleu == pytest.approx(d.self_bleu(shuffled), abs=1e-12)
    assert np.isnan(distinct) or 0 < distinct <= 1
    assert 1 - 1e-9 <= d.vendi_score(d.ngram_similarity(texts)) <= len(texts) + 1e-9


def test_nothing_to_measure_is_nan_and_no_match_is_zero():
    assert np.isnan(d.distinct_n([]))
    assert np.isnan(d.distinct_n(["one"], 2))
    assert np.isnan(d.self_bleu([]))
    assert np.isnan(d.self_bleu(["a b c"]))
    assert d.self_bleu(["a b c d", "a b x d"], epsilon=0) == 0.0


def test_groups_are_measured_apart_and_averaged(rng):
    texts = [" ".join(rng.choice(WORDS, size=8)) for _ in range(12)]
    groups = rng.integers(0, 3, size=12).tolist()
    found = d.group_diversity([*texts, None, "alone"], [*groups, 0, "single"])
    apart = [[t for t, g in zip(texts, groups, strict=True) if g == k] for k in range(3)]
    several = [own for own in apart if len(own) > 1]
    assert found["self_bleu"].trials == len(several)
    assert found["self_bleu"].value == pytest.approx(np.mean([d.self_bleu(x) for x in several]))
    assert found["distinct_2"].value == pytest.approx(np.mean([d.distinct_n(x) for x in several]))
    assert np.isnan(d.group_diversity([], [])["vendi"].value)


def test_vendi_of_answers_is_the_exponential_of_their_entropy(rng):
    answers = rng.integers(0, 4, size=40)
    share = np.bincount(answers) / 40
    share = share[share > 0]
    expected = np.exp(-np.sum(share * np.log(share)))
    assert d.vendi_score(answers[:, None] == answers) == pytest.approx(expected, rel=1e-10)


def test_variance_profile_counts_by_hand_and_survives_saturation():
    p = [np.array([0.5, 0.9, 0.9, 0.2]), np.array([0.3]), np.array([])]
    expected = np.array([(0.25 + 0.09 + 0.21) / 3, 0.09, 0.16])
    np.testing.assert_allclose(d.variance_profile([np.log(x) for x in p]), expected, rtol=1e-12)
    padded = np.array([[np.log(0.5), np.log(0.9), np.nan], [np.log(0.3), np.nan, np.nan]])
    np.testing.assert_allclose(d.variance_profile(padded, 2), [(0.25 + 0.21) / 2, 0.09])
    assert d.variance_profile([[-1e-18]], 1)[0] == pytest.approx(1e-18, rel=1e-12)
    assert np.isnan(d.variance_profile([], 2)).all()


def test_rare_nll_shift_takes_the_least_likely_under_the_base(rng):
    base = -rng.random(1000)
    new = base + 0.05
    rarest = np.argsort(base)[:10]
    new[rarest] = base[rarest] - np.arange(10)
    shift = d.rare_nll_shift(base, np.minimum(new, 0))
    assert shift.trials == 10
    assert shift.value == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.distinct_n("one string"), "texts must be several"),
        (lambda: d.self_bleu("one string"), "texts must be several"),
        (lambda: d.distinct_n(["a", None]), "strings or sequences.*None at index 1"),
        (lambda: d.self_bleu([1, 2]), "strings or sequences.*1 at index 0"),
        (lambda: d.group_diversity(["a"], [1, 2]), "groups must hold 1 labels"),
        (lambda: d.variance_profile([-1.0]), "one row of tokens"),
        (lambda: d.vendi_score([[1, 2], [2, 1]]), "positive semidefinite"),
        (lambda: d.distinct_n(["a"], 0), "n must be whole, >= 1"),
        (lambda: d.self_bleu(["a", "b"], 1.5), "max_n must be whole"),
        (lambda: d.self_bleu(["a", "b"], epsilon=-1), "epsilon must be finite and >= 0"),
        (lambda: d.distinct_n(np.arange(4)), "2-D array"),
        (lambda: d.distinct_n(np.array([[1.0, -1.0]])), "integer token ids; .* of float64"),
        (lambda: d.vendi_score([[1.0, 0.2]]), "square matrix"),
        (lambda: d.vendi_score([[1.0, 0.2], [0.3, 1.0]]), "symmetric"),
        (lambda: d.variance_profile([[-1.0], [0.5]]), r"logps\[1\] must be in"),
        (lambda: d.rare_nll_shift([-1.0], [-1.0, -2.0]), "equal length"),
        (lambda: d.rare_nll_shift([-1.0], [-1.0], share=0), "share must be in"),
        (lambda: d.rare_nll_shift([1.0], [-1.0]), "base_logp must be in"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
