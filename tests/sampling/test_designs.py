"""Designs: how often each item is drawn against its recorded probability, and what each design promises.

The first variant of each design is drawn 8,000 times, its other variants 2,000 times; all items must be within four
standard errors of their probability, and exactly right where it is 0 or 1. The balanced designs, which are slow, draw
from a third of the items.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.sampling.conftest import (
    BUDGET,
    EXACT,
    FEWER,
    MANY,
    N,
    assert_within_four_errors,
    documents_of,
    drawn,
    interleaved,
)

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.errors import DataError
from aliquot.sampling import designs
from aliquot.sampling.item_scores import item_sizes
from aliquot.sampling.methods import all_methods
from aliquot.sampling.select import select

# -- frequencies ---------------------------------------------------------------------------------------------------

VARIANTS: dict[str, tuple[str, ...]] = {
    "segments": ("segments",),
    "documents": ("documents", "documents:max_length=5"),
    "snippets_fixed": ("snippets_fixed:length=3", "snippets_fixed:length=10"),
    "snippets_budgeted": ("snippets_budgeted",),
    "stratified": (
        "stratified:bins=document",
        "stratified:bins=document,allocation=optimal",
        "stratified:bins=domain",
        "stratified:bins=domain,allocation=optimal",
        "stratified:bins=metric,bin_size=5",
        "stratified:bins=metric,bin_size=5,allocation=optimal,metrics=bad",
        "stratified:bins=document,rounding=nearest",
        "stratified:bins=document,rounding=nearest,allocation=optimal",
    ),
    "pps": (
        "pps",
        "pps:size=error,scale=penalties,tau=0",
        "pps:size=difficulty,tau=0",
        "pps:size=variance,metrics=good|bad",
        "pps:size=length,spread=none",
        "pps:size=equal",
        "pps:size=points,tau=0.2",
        "pps:size=bad",
    ),
    "balanced": (
        "balanced:by=pivotal,metrics=good",
        "balanced:by=pivotal,size=difficulty,tau=0.3",
        "balanced:by=cube,metrics=good",
        "balanced:by=cube,size=variance",
    ),
    "casf": ("casf", "casf:batches=3", "casf:redundancy=none,metrics=bad"),
}
CASES = [
    (spec, MANY if spec in {v[0], "balanced:by=cube,metrics=good"} - {"casf"} else FEWER)
    for v in VARIANTS.values()
    for spec in v
]


def test_every_design_is_here():
    known = {name for name, method in all_methods().items() if method.kind == "design"}
    assert known - {"guided"} == VARIANTS.keys()


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize(("spec", "draws"), CASES)
def test_items_are_drawn_as_often_as_their_probability_says(spec, draws):
    evalset, n, rng = interleaved(), BUDGET, np.random.default_rng(2024)
    if spec.startswith("balanced"):
        evalset, n = evalset.keep(items=evalset.ids[: N // 3]), 3
    counts, sizes = np.zeros(len(evalset)), Counter[int]()
    pi = drawn(evalset, spec, rng, n).probability
    assert pi is not None
    for _ in range(draws):
        once = drawn(evalset, spec, rng, n)
        assert once.probability is not None
        assert np.array_equal(once.probability, pi)
        counts[once.rows] += 1
        sizes[len(set(once.rows.tolist()))] += 1
    assert_within_four_errors(counts, pi, draws)
    assert float(pi.sum()) == pytest.approx(n)
    if spec.startswith(EXACT):
        assert set(sizes) == {n}


@pytest.mark.parametrize("spec", [spec for variants in VARIANTS.values() for spec in variants])
def test_every_item_has_a_chance_unless_it_was_asked_to_have_none(spec):
    pi = drawn(interleaved(), spec, np.random.default_rng(0)).probability
    assert pi is not None
    assert ((pi >= 0) & (pi <= 1)).all()
    if "max_length" not in spec and "nearest" not in spec:
        assert (pi > 0).all()


@pytest.mark.parametrize("spec", [s for variants in VARIANTS.values() for s in variants if "max_length" not in s])
@pytest.mark.parametrize("n", [1, N - 1, N])
def test_the_ends_of_the_budget(spec, n):
    once = drawn(interleaved(), spec, np.random.default_rng(3), n)
    assert once.probability is not None
    assert once.probability.sum() == pytest.approx(n)
    assert len(set(once.rows.tolist())) == len(once.rows)
    if spec.startswith(EXACT) or n == N:
        assert len(once.rows) == n


# -- what each design promises beside ------------------------------------------------------------------------------


def runs(evalset: EvalSet, rows: Iterable[int]) -> dict[int, list[list[int]]]:
    """For each document drawn from, the maximal runs of neighbouring positions."""
    codes = documents_of(evalset)
    chosen = set(rows)
    found: dict[int, list[list[int]]] = {}
    for code in np.unique(codes):
        at = [position for position, row in enumerate(np.flatnonzero(codes == code)) if row in chosen]
        if at:
            pieces = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
            found[int(code)] = [piece.tolist() for piece in pieces]
    return found


def assert_snippets(evalset: EvalSet, spec: str, rows: list[int]) -> None:
    """Budgeted: one run of each document, its share of the length; fixed: runs of three, or the whole document."""
    lengths = np.bincount(documents_of(evalset))
    for code, pieces in runs(evalset, rows).items():
        share = BUDGET / N * lengths[code]
        if spec == "snippets_budgeted":
            assert [len(piece) for piece in pieces] in ([int(np.floor(share))], [int(np.ceil(share))])
        else:
            assert all(len(piece) >= min(3, lengths[code]) for piece in pieces)


SNIPPETS = pytest.mark.parametrize("spec", ["snippets_budgeted", "snippets_fixed:length=3"])


@SNIPPETS
def test_snippets_are_contiguous(spec):
    evalset, rng = interleaved(), np.random.default_rng(0)
    for _ in range(200):
        assert_snippets(evalset, spec, drawn(evalset, spec, rng).rows.tolist())


@SNIPPETS
def test_snippets_follow_the_position_in_the_document_where_it_is_given(spec):
    """A file may hold its items in any order; `position` says where an item stands in its document."""
    items, rng = interleaved().items, np.random.default_rng(0)
    shuffled = items.with_columns(pl.Series("position", rng.permutation(N)))
    ordered = interleaved(items=shuffled.sort("position"))
    at = {item: row for row, item in enumerate(ordered.ids)}
    for seed in range(50):
        chosen = select(interleaved(items=shuffled), spec, BUDGET, seed=seed).ids
        assert_snippets(ordered, spec, [at[item] for item in chosen])


@pytest.mark.parametrize("spec", ["documents", "documents:max_length=5"])
def test_documents_are_whole_and_none_is_too_long(spec):
    evalset, rng = interleaved(), np.random.default_rng(0)
    codes = documents_of(evalset)
    for _ in range(200):
        rows = drawn(evalset, spec, rng).rows
        assert len(rows) == np.isin(codes, codes[rows]).sum()
        assert "max" not in spec or np.bincount(codes)[codes[rows]].max(initial=0) <= 5


@pytest.mark.parametrize("spec", ["documents", "snippets_fixed", "snippets_budgeted", "pps"])
def test_documents_are_judged_one_after_the_other(spec):
    """Items of a document stand together and in their order: so are they judged."""
    evalset = interleaved()
    rows = drawn(evalset, spec, np.random.default_rng(4), 12).rows
    codes = documents_of(evalset)[rows]
    assert len(np.unique(codes)) == 1 + (np.diff(codes) != 0).sum()
    assert all((np.diff(rows[codes == code]) > 0).all() for code in np.unique(codes))


@pytest.mark.parametrize("rounding", ["random", "nearest"])
@pytest.mark.parametrize("bins", ["document", "domain", "metric"])
def test_strata_are_recorded_and_met(bins, rounding):
    evalset = interleaved()
    spec = f"stratified:bins={bins},rounding={rounding},bin_size=5"
    for seed in range(30):
        once = drawn(evalset, spec, np.random.default_rng(seed))
        assert once.stratum is not None
        sizes = np.bincount(once.stratum)
        counts = np.bincount(once.stratum[once.rows], minlength=len(sizes))
        target = BUDGET * sizes / N
        assert (np.floor(target) <= counts).all()
        assert (counts <= np.ceil(target)).all()


def test_metric_bins_hold_similar_scores():
    evalset = interleaved()
    codes = designs.bin_codes(evalset, "metric", ("good",), 6)
    assert np.bincount(codes).tolist() == [6, 6, 6, 6]
    means = np.nanmean(evalset.scores["good"], axis=1)
    tops = [means[codes == code].max() for code in range(4)]
    bottoms = [means[codes == code].min() for code in range(4)]
    assert all(top <= bottom for top, bottom in zip(tops, bottoms[1:], strict=False))


def test_pps_draws_hard_items_more_often_and_tau_evens_them_out():
    evalset = interleaved()
    quality = np.nanmean(evalset.scores["good"], axis=1)
    spread = []
    for tau in ("0", "0.5", "1"):
        pi = drawn(evalset, f"pps:size=difficulty,metrics=good,tau={tau}", np.random.default_rng(0)).probability
        assert pi is not None
        spread.append(float(pi.max() - pi.min()))
        assert tau == "1" or np.corrcoef(pi, quality)[0, 1] < -0.7
    assert spread[0] > spread[1] > spread[2] == pytest.approx(0.0)


def test_pps_is_spread_over_documents():
    """Every document gets its share of the sample, rounded up or down."""
    evalset = interleaved()
    codes = documents_of(evalset)
    for seed in range(50):
        once = drawn(evalset, "pps", np.random.default_rng(seed))
        assert once.probability is not None
        share = np.bincount(codes, once.probability)
        counts = np.bincount(codes[once.rows], minlength=len(share))
        assert (np.abs(counts - share) < 2.0).all()


def test_balanced_samples_look_like_the_whole_set():
    """The mean of the metric in the sample varies less than in simple random samples."""
    evalset = interleaved()
    means = np.nanmean(evalset.scores["good"], axis=1)

    def variance(spec: str) -> float:
        rng = np.random.default_rng(5)
        return float(np.var([means[drawn(evalset, spec, rng).rows].mean() for _ in range(400)]))

    plain = variance("segments")
    assert variance("balanced:by=pivotal,metrics=good") < 0.5 * plain
    assert variance("balanced:by=cube,metrics=good") < 0.5 * plain


@pytest.mark.parametrize("spec", ["pps", "pps:size=variance", "pps:size=good", "balanced", "stratified:bins=metric"])
def test_an_item_without_metrics_gets_the_average_and_is_reported(spec):
    fifth = np.arange(N)[:, None] == 4
    blank = {name: np.where(fifth, np.nan, values) for name, values in interleaved().scores.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = select(interleaved(scores=blank), spec, BUDGET)
    assert len(chosen) == BUDGET
    assert {warning.category for warning in caught} == {AliquotWarning}
    assert any("1 of 24 items have no" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("spec", ["documents", "snippets_fixed", "snippets_budgeted", "stratified"])
def test_designs_on_documents_say_when_there_are_none(spec):
    with pytest.raises(DataError, match="documents"):
        select(interleaved(items=interleaved().items.drop("document")), spec, BUDGET)


@pytest.mark.parametrize("spec", ["segments", "pps", "balanced", "stratified:bins=metric", "stratified:bins=domain"])
def test_other_designs_need_no_documents(spec):
    assert len(select(interleaved(items=interleaved().items.drop("document")), spec, BUDGET)) == BUDGET


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pps:tau=1.5", "`tau` is 1.5"),
        ("pps:tau=nan", "`tau` is nan"),
        ("pps:size=dificulty", "did you mean 'difficulty'"),
        ("balanced:size=nothing", "unknown size 'nothing'"),
        ("balanced:by=magic", "choose pivotal or cube"),
        ("stratified:bins=topic", "unknown item column 'topic'"),
        ("stratified:bins=metric,bin_size=0", "bin_size=0"),
        ("stratified:allocation=best", "choose proportional or optimal"),
        ("snippets_fixed:length=0", "at least 1"),
        ("snippets_fixed:length=long", "should be a whole number"),
        ("documents:max_length=1", "1 items in documents of up to 1"),
        ("pps:metrics=god", "did you mean 'good'"),
    ],
)
def test_broken_parameters_are_named(spec, message):
    with pytest.raises(Exception, match=message) as caught:
        select(interleaved(), spec, BUDGET)
    assert caught.type.__module__ == "aliquot.errors"


# -- guided --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["segments", "snippets_budgeted", "(stratified:bins=domain,allocation=optimal)", "pps"])
def test_guided_choice_has_no_probabilities_and_says_so(by):
    chosen = select(interleaved(), "guided", BUDGET, by=by, draws=20, metric="good")
    assert chosen.probability is None
    assert chosen.details["draws"] == 20
    assert 0.5 < chosen.details["metric_spa"] <= 1.0


def test_guided_choice_improves_with_the_number_of_draws():
    def mean_accuracy(draws: int) -> float:
        chosen = [select(interleaved(), "guided", BUDGET, draws=draws, metric="bad", seed=seed) for seed in range(20)]
        return float(np.mean([selection.details["metric_spa"] for selection in chosen]))

    assert mean_accuracy(1) < mean_accuracy(5) < mean_accuracy(50)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("guided:by=metric_avg", "is not a design"),
        ("guided:by=guided", "is not a design"),
        ("guided:draws=0", "at least 1"),
        ("guided:by=segmnts", "did you mean 'segments'"),
        ("guided:by=(pps:taw=1)", "did you mean 'tau'"),
    ],
)
def test_a_guided_choice_that_makes_no_sense_is_refused(spec, message):
    with pytest.raises(Exception, match=message) as caught:
        select(interleaved(), spec, BUDGET, metric="good")
    assert caught.type.__module__ == "aliquot.errors"


def test_guided_choice_of_a_single_item():
    assert len(select(interleaved(), "guided", 1, metric="good")) == 1


def test_guided_choice_of_documents_that_may_draw_none():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert len(select(interleaved(), "guided:by=documents,draws=30", 2, metric="good")) > 0


# -- a utility as size ---------------------------------------------------------------------------------------------


def with_difficulty(factor: float = 1.0) -> EvalSet:
    data = aliquot.synthetic(items=60, systems=3, seed=8)
    values = factor * np.random.default_rng(1).normal(size=60) + 5
    return replace(data, items=data.items.with_columns(pl.Series("hard", values)))


@pytest.mark.parametrize(("options", "slope"), [({"scale": "penalties"}, 0.3), ({"scale": "ratings"}, 0.1)])
def test_a_utility_takes_the_place_of_difficulty(options, slope):
    data = with_difficulty()
    hard = data.items["hard"].to_numpy()
    expected = np.exp(slope * np.clip((hard - hard.mean()) / hard.std(), -3, 3))
    assert item_sizes(data, "(source:column=hard)", **options) == pytest.approx(expected / expected.mean())


def test_the_units_of_a_utility_mean_nothing():
    one, ten = (item_sizes(with_difficulty(factor), "(source:column=hard)") for factor in (1.0, 10.0))
    assert one == pytest.approx(ten)


def test_slopes_of_a_utility_and_of_length():
    data = with_difficulty()
    both, utility, length = (
        item_sizes(data, "(source:column=hard)", slopes=slopes) for slopes in ((0.2, 0.3), (0.2, 0.0), (0.0, 0.3))
    )
    ratio = both / (utility * length)
    assert ratio == pytest.approx(ratio[0])


def test_spreads_of_bins_by_hand():
    """A bin without spread gets a tenth of the pooled one, a single item all of it."""
    values = np.array([1.0, 3.0, 5.0, 5.0, 9.0, 2.0, 4.0, 9.0])
    data = EvalSet(pl.DataFrame({"id": range(8)}), ("A",), scores={"m": values[:, None]})
    codes = np.array([0, 0, 1, 1, 2, 3, 3, 3])
    parts = [np.sqrt(2.0), 0.0, np.nan, np.std([2, 4, 9], ddof=1)]
    pooled = np.sqrt((2.0 + 26.0) / 4)  # squares 2, 0, 0, 26; 8 items less 4 means
    expected = np.array([parts[0], 0.1 * pooled, pooled, parts[3]]) / values.std()
    assert designs._bin_spreads(data, codes, None) == pytest.approx(expected)
