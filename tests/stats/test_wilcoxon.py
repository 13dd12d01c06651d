"""Wilcoxon's test of all pairs against scipy, pair by pair, and against all sign flips written out."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats import pairwise as wilcoxon
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import wilcoxon_p


def table(seed: int, items: int, systems: int = 5, holes: float = 0.0, whole: bool = False) -> FloatArray:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(items, systems)) + 0.3 * rng.normal(size=systems)
    scores = np.round(2 * scores) if whole else scores
    scores[rng.random(scores.shape) < holes] = np.nan
    return scores


def scipy_p(d: FloatArray, method: str) -> float:
    d = d[~np.isnan(d)]
    return float(stats.wilcoxon(d, alternative="greater", method=method).pvalue) if d.any() else 0.5


def enumerated_p(d: FloatArray) -> float:
    """P(W >= w) over all 2^n sign flips."""
    d = d[~np.isnan(d) & (d != 0)]
    if not len(d):
        return 0.5
    ranks = stats.rankdata(np.abs(d))
    null = np.array(list(product([0.0, 1.0], repeat=len(d)))) @ ranks
    return float((null >= ranks[d > 0].sum()).mean())


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("items", [3, 14, 51, 400])
def test_asymptotic_is_scipys(items: int, holes: float, whole: bool) -> None:
    scores = table(items, items, holes=holes, whole=whole)
    p = wilcoxon_p(scores, "asymptotic")
    for a, b in combinations(range(5), 2):
        assert p[a, b] == pytest.approx(scipy_p(scores[:, a] - scores[:, b], "asymptotic"), abs=1e-10)
        assert p[b, a] == pytest.approx(scipy_p(scores[:, b] - scores[:, a], "asymptotic"), abs=1e-10)
        assert p[a, b] + p[b, a] == pytest.approx(1, abs=1e-12)
    assert (np.diag(p) == 0.5).all()


@pytest.mark.parametrize("items", [1, 2, 9, 25, 50])
def test_auto_is_exact_without_ties(items: int) -> None:
    scores = table(items, items)
    p = wilcoxon_p(scores)
    for a, b in product(range(5), repeat=2):
        if a != b:
            assert p[a, b] == pytest.approx(scipy_p(scores[:, a] - scores[:, b], "exact"), rel=1e-10)


def test_auto_follows_scipys_rule() -> None:
    for items, whole, method in [(51, False, "asymptotic"), (14, True, "asymptotic"), (30, False, "exact")]:
        scores = table(7, items, whole=whole)
        p = wilcoxon_p(scores)
        for a, b in combinations(range(5), 2):
            assert p[a, b] == pytest.approx(scipy_p(scores[:, a] - scores[:, b], method), abs=1e-10)
            assert p[a, b] == pytest.approx(scipy_p(scores[:, a] - scores[:, b], "auto"), abs=1e-10)


def test_the_rule_counts_the_items_that_both_have() -> None:
    scores = np.vstack([table(3, 20), np.full((60, 5), np.nan)])
    np.testing.assert_array_equal(wilcoxon_p(scores), wilcoxon_p(scores[:20]))
    # A single zero among 20 items: dropped, but no exact distribution any more.
    scores[0, 0] = scores[0, 1]
    assert wilcoxon_p(scores)[0, 1] == wilcoxon_p(scores, "asymptotic")[0, 1]


CELLS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.5, np.nan])
TABLES = arrays(np.float64, st.tuples(st.integers(0, 8), st.integers(0, 4)), elements=CELLS)


@settings(max_examples=150, deadline=None)
@given(scores=TABLES)
def test_few_items_with_ties_are_enumerated(scores: FloatArray) -> None:
    p = wilcoxon_p(scores)
    for a, b in product(range(scores.shape[1]), repeat=2):
        expected = enumerated_p(scores[:, a] - scores[:, b]) if a != b else 0.5
        assert p[a, b] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(scores=TABLES, data=st.data())
def test_order_sign_and_scale(scores: FloatArray, data: st.DataObject) -> None:
    systems = np.array(data.draw(st.permutations(range(scores.shape[1]))), dtype=np.int64)
    items = np.array(data.draw(st.permutations(range(len(scores)))), dtype=np.int64)
    for p, again in [
        (wilcoxon_p(scores), wilcoxon_p(scores[np.ix_(items, systems)])),
        (wilcoxon_p(scores, "asymptotic"), wilcoxon_p(scores[np.ix_(items, systems)], "asymptotic")),
    ]:
        np.testing.assert_allclose(again, p[np.ix_(systems, systems)], rtol=1e-12)
    np.testing.assert_allclose(wilcoxon_p(-scores), wilcoxon_p(scores).T, rtol=1e-12)
    np.testing.assert_array_equal(wilcoxon_p(4 * scores + 8), wilcoxon_p(scores))


def test_pairs_that_cannot_differ_have_one_half() -> None:
    scores = table(1, 30, systems=4)
    scores[:, 1] = scores[:, 0]
    scores[:15, 2], scores[15:, 3] = np.nan, np.nan
    for p in (wilcoxon_p(scores), wilcoxon_p(scores, "asymptotic")):
        assert p[0, 1] == p[1, 0] == p[2, 3] == p[3, 2] == 0.5


def test_both_tails_keep_their_digits() -> None:
    scores = np.column_stack([np.arange(1.0, 401.0), np.zeros(400)])
    p = wilcoxon_p(scores)
    assert 0 < p[0, 1] < 1e-60
    assert p[0, 1] == pytest.approx(scipy_p(scores[:, 0], "asymptotic"), rel=1e-9)
    assert wilcoxon_p(scores[:50])[0, 1] == 2.0**-50


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = table(5, 40, systems=7, holes=0.1, whole=True)
    whole = wilcoxon_p(scores)
    monkeypatch.setattr(wilcoxon, "_CHUNK", 100)
    np.testing.assert_array_equal(wilcoxon_p(scores), whole)


def test_level_is_kept() -> None:
    """Of 20 items of equal systems, P(W >= 150) = 0.0487 is the largest probability below 0.05."""
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(2000, 20, 2))
    hits = np.array([wilcoxon_p(scores)[0, 1] < 0.05 for scores in tables])
    assert hits.mean() == pytest.approx(0.0487, abs=4 * np.sqrt(0.0487 * 0.9513 / 2000))


def test_arguments_are_not_changed_and_empty_tables_work() -> None:
    scores = table(2, 10, holes=0.2)
    kept = scores.copy()
    wilcoxon_p(scores)
    np.testing.assert_array_equal(scores, kept)
    assert wilcoxon_p(np.empty((0, 3))).tolist() == np.full((3, 3), 0.5).tolist()
    assert wilcoxon_p(np.empty((4, 0))).shape == (0, 0)


def test_errors_name_the_argument_the_value_and_the_remedy() -> None:
    with pytest.raises(NameUnknownError, match=r"`method` is 'exact'\. Available: 'auto', 'asymptotic'"):
        wilcoxon_p(np.ones((2, 2)), "exact")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"scores has 1 dimension\(s\)"):
        wilcoxon_p(np.ones(3))
    with pytest.raises(OptionError, match="infinite"):
        wilcoxon_p(np.array([[np.inf, 1.0]]))
