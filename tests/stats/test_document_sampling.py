"""Runs and documents: frequencies against the recorded probabilities, contiguity, lengths, budgets."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import NameUnknownError, OptionError
from aliquot.stats.arrays import IntArray, Seed
from aliquot.stats.document_sampling import (
    ItemDraw,
    draw_budgeted_snippets,
    draw_fixed_snippets,
    draw_whole_documents,
    required_runs,
)

Sampler = Callable[[np.random.Generator], ItemDraw]
DRAWS = 20_000
# Documents of 1, 2, 3, 5, 7 and 11 items, interleaved, codes not consecutive.
DOCUMENTS = np.random.default_rng(1).permutation(np.repeat([3, 40, 7, 11, 0, 5], [1, 2, 3, 5, 7, 11]))


@st.composite
def collections(draw):
    """Codes of a few documents, their items mixed."""
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=10))
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(np.repeat(np.arange(len(lengths)), lengths))


def assert_frequencies(draw: Sampler, documents: IntArray) -> None:
    """Every item is drawn as often as recorded, and the record is the same in every draw."""
    rng = np.random.default_rng(2026)
    counts = np.zeros(len(documents))
    recorded = draw(rng).probability
    for _ in range(DRAWS):
        counts[draw(rng).indices] += 1
    assert np.array_equal(draw(rng).probability, recorded)
    error = np.sqrt(recorded * (1 - recorded) / DRAWS)
    assert np.all(np.abs(counts / DRAWS - recorded) <= 4 * error + 1e-12)


def chunks(documents: IntArray, indices: IntArray) -> list[tuple[int, int]]:
    """Lengths of the unbroken stretches drawn from each document, as (document length, stretch length)."""
    chosen = np.isin(np.arange(len(documents)), indices)
    found = []
    for code in np.unique(documents):
        inside = chosen[documents == code].tolist()
        found += [(len(inside), len(list(run))) for drawn, run in itertools.groupby(inside) if drawn]
    return found


def assert_draw(drawn: ItemDraw, size: int) -> None:
    assert drawn.indices.dtype == np.int64
    assert np.all(np.diff(drawn.indices) > 0)
    assert drawn.probability.shape == (size,)
    assert np.all((drawn.probability >= 0) & (drawn.probability <= 1 + 1e-12))
    assert np.all(drawn.probability[drawn.indices] > 0)


@pytest.mark.parametrize("n_items", [3, 8, 21.5])
def test_whole_document_frequencies(n_items):
    assert_frequencies(lambda rng: draw_whole_documents(DOCUMENTS, n_items, rng), DOCUMENTS)


def test_whole_document_frequencies_with_a_longest_length():
    assert_frequencies(lambda rng: draw_whole_documents(DOCUMENTS, 6, rng, max_length=7), DOCUMENTS)


@pytest.mark.parametrize(("n_items", "length", "per_document"), [(6, 4, None), (24, 4, None), (6, 4, 1), (20, 3, 1)])
def test_fixed_snippet_frequencies(n_items, length, per_document):
    assert_frequencies(lambda rng: draw_fixed_snippets(DOCUMENTS, n_items, rng, length, per_document), DOCUMENTS)


@pytest.mark.parametrize(("share", "placement"), [(0.4, "even"), (0.3, "uniform")])
def test_budgeted_snippet_frequencies(share, placement):
    assert_frequencies(lambda rng: draw_budgeted_snippets(DOCUMENTS, share, rng, placement), DOCUMENTS)


@given(collections(), st.floats(0, 1), st.integers(0, 10**6))
def test_whole_documents_are_whole_and_near_the_budget(documents, part, seed):
    n_items = round(part * len(documents))
    drawn = draw_whole_documents(documents, n_items, seed)
    assert_draw(drawn, len(documents))
    assert drawn.probability == pytest.approx(np.full(len(documents), n_items / len(documents)))
    assert all(length == stretch for length, stretch in chunks(documents, drawn.indices))
    assert abs(len(drawn.indices) - n_items) < np.bincount(documents).max()


def test_whole_documents_meet_the_budget_closely():
    """On a test set like WMT23's the number of items hardly varies; independent draws would vary by about 50."""
    documents = np.repeat(np.arange(60), np.random.default_rng(0).integers(1, 40, 60))
    sizes = [len(draw_whole_documents(documents, 200, seed).indices) for seed in range(200)]
    assert np.mean(np.abs(np.array(sizes) - 200)) < 3


def test_documents_over_the_longest_length_are_never_drawn_and_say_so():
    drawn = draw_whole_documents(DOCUMENTS, 18, 0, max_length=7)
    assert np.all(drawn.probability[DOCUMENTS == 5] == 0)
    assert drawn.probability[DOCUMENTS != 5] == pytest.approx(np.ones(18))
    assert drawn.indices.tolist() == np.flatnonzero(DOCUMENTS != 5).tolist()
    with pytest.raises(OptionError, match="`n_items` is 19; choose between 0 and the 18 items in documents of up to 7"):
        draw_whole_documents(DOCUMENTS, 19, 0, max_length=7)


@given(collections(), st.floats(0, 1), st.integers(1, 12), st.integers(0, 10**6))
def test_tiled_snippets_have_their_length_and_budget(documents, part, length, seed):
    n_items = round(part * len(documents))
    drawn = draw_fixed_snippets(documents, n_items, seed, length, None)
    assert_draw(drawn, len(documents))
    assert drawn.probability.sum() == pytest.approx(n_items)
    stretches = chunks(documents, drawn.indices)
    assert all(stretch >= min(length, size) for size, stretch in stretches)
    if n_items and drawn.probability.min() <= 0.5:  # no two neighbouring runs are drawn together
        assert all(stretch == min(length, size) for size, stretch in stretches)
        assert abs(len(drawn.indices) - n_items) <= length


@given(collections(), st.floats(0, 1), st.integers(1, 12), st.integers(1, 3), st.integers(0, 10**6))
def test_fixed_snippets_have_their_length_and_budget(documents, part, length, most, seed):
    """A document gives at most as many runs as allowed; where that is not enough, as few as suffice."""
    n_items = round(part * len(documents))
    drawn = draw_fixed_snippets(documents, n_items, seed, length, most)
    assert_draw(drawn, len(documents))
    assert drawn.probability.sum() == pytest.approx(n_items)
    sizes = np.bincount(documents)
    given_runs = required_runs(sizes[sizes > 0], n_items, length, most)
    assert given_runs >= most
    for code in np.unique(documents[drawn.indices]):
        assert (documents[drawn.indices] == code).sum() <= given_runs * length
    stretches = chunks(documents, drawn.indices)
    assert all(stretch >= min(length, size) for size, stretch in stretches)
    if given_runs == 1:
        assert len(set(documents[drawn.indices].tolist())) == len(stretches)
        assert all(stretch == min(length, size) for size, stretch in stretches)
        assert abs(len(drawn.indices) - n_items) <= length
        assert n_items <= np.minimum(sizes, length).sum()


@pytest.mark.parametrize("per_document", [None, 1])
def test_many_short_documents_do_not_spoil_the_budget_of_fixed_snippets(per_document):
    documents = np.repeat(np.arange(300), np.tile([1, 1, 2, 3, 9, 30], 50))
    sizes = np.array([len(draw_fixed_snippets(documents, 600, seed, 10, per_document).indices) for seed in range(200)])
    assert np.abs(sizes - 600).max() <= 10
    assert sizes.mean() == pytest.approx(600, abs=1.5)


def test_one_snippet_a_document_favours_short_documents_as_published():
    """Knowles and Lo, table 4: a document of 5 gives all of its items, one of 40 a quarter of them."""
    documents = np.repeat([0, 1], [5, 40])
    one = draw_fixed_snippets(documents, 7.5, 0).probability
    assert one == pytest.approx(np.r_[np.full(5, 0.5), np.full(40, 0.5 * 10 / 40)])
    any_number = draw_fixed_snippets(documents, 7.5, 0, per_document=None).probability
    assert any_number == pytest.approx(np.full(45, 7.5 / 45))


def test_fixed_snippet_probabilities_by_hand():
    # 5 items, runs of 3: from the front {0-2, 2-4}, from the back the same; item 2 is in both.
    for most in (1, None):
        drawn = draw_fixed_snippets(np.zeros(5, dtype=int), 3, 0, length=3, per_document=most)
        assert drawn.probability == pytest.approx([0.5, 0.5, 1.0, 0.5, 0.5])
        # 7 items, runs of 3: {0-2, 3-5, 4-6} or {0-2, 1-3, 4-6}, 9 places for 7 items: p = 3/9 for 3 items.
        drawn = draw_fixed_snippets(np.zeros(7, dtype=int), 3, 0, length=3, per_document=most)
        assert drawn.probability * 6 == pytest.approx([2, 3, 3, 2, 3, 3, 2])
    # Two of the three runs: 5 1/3 items on average, {0-2, 3-5}, {0-2, 4-6} or {3-5, 4-6}, and the mirror image.
    drawn = draw_fixed_snippets(np.zeros(7, dtype=int), 16 / 3, 0, length=3, per_document=2)
    assert drawn.probability * 6 == pytest.approx([4, 5, 5, 4, 5, 5, 4])
    assert required_runs(np.array([7]), 16 / 3, 3) == 2
    assert required_runs(np.array([7]), 5.4, 3) == 3


def test_all_runs_when_the_budget_is_everything():
    for draw in (
        draw_fixed_snippets(DOCUMENTS, 29, 0, 4),
        draw_whole_documents(DOCUMENTS, 29, 0),
        draw_budgeted_snippets(DOCUMENTS, 1, 0),
    ):
        assert len(draw.indices) == 29
        assert draw.probability == pytest.approx(np.ones(29))


@given(collections(), st.floats(0.01, 1), st.sampled_from(["even", "uniform"]), st.integers(0, 10**6))
def test_budgeted_snippets_are_one_run_of_the_right_length(documents, share, placement, seed):
    drawn = draw_budgeted_snippets(documents, share, seed, placement)
    assert_draw(drawn, len(documents))
    assert np.all(drawn.probability > 0)
    stretches = chunks(documents, drawn.indices)
    assert len(stretches) <= len(np.unique(documents))
    assert all(abs(stretch - share * size) < 1 for size, stretch in stretches)
    assert abs(len(drawn.indices) - share * len(documents)) < 1
    for code in np.unique(documents):  # the expected length of every run is exact
        inside = documents == code
        assert drawn.probability[inside].sum() == pytest.approx(share * inside.sum())


def test_budgeted_snippets_take_at_most_one_run_of_a_document():
    for seed in range(100):
        drawn = draw_budgeted_snippets(DOCUMENTS, 0.4, seed)
        assert max(np.bincount([size for size, _ in chunks(DOCUMENTS, drawn.indices)])) == 1


def test_uniform_placement_by_hand():
    # 5 items, runs of 2: four starts; the ends are covered by one, the others by two.
    drawn = draw_budgeted_snippets(np.zeros(5, dtype=int), 0.4, 0, "uniform")
    assert drawn.probability == pytest.approx([0.25, 0.5, 0.5, 0.5, 0.25])
    # 3 items at 1/2: length 1 or 2, half each: 1/2 (1/3, 1/3, 1/3) + 1/2 (1/2, 1, 1/2).
    drawn = draw_budgeted_snippets(np.zeros(3, dtype=int), 0.5, 0, "uniform")
    assert drawn.probability == pytest.approx([5 / 12, 8 / 12, 5 / 12])


def test_even_placement_by_hand():
    # 5 items, runs of 2: {01, 23, 34} or {01, 12, 34}: item 3 or item 1 is covered twice.
    drawn = draw_budgeted_snippets(np.zeros(5, dtype=int), 0.4, 0)
    assert drawn.probability == pytest.approx([1 / 3, 1 / 2, 1 / 3, 1 / 2, 1 / 3])


def test_even_placement_evens_the_weights():
    documents = np.zeros(100, dtype=int)
    lowest = {p: draw_budgeted_snippets(documents, 0.5, 0, p).probability.min() for p in ("even", "uniform")}
    assert lowest == pytest.approx({"even": 0.5, "uniform": 1 / 51})


def test_a_document_of_one_item_is_drawn_with_the_share():
    # Footnote 3 of the paper.
    drawn = draw_budgeted_snippets(np.arange(10), 0.4, 0)
    assert len(drawn.indices) == 4
    assert drawn.probability == pytest.approx(np.full(10, 0.4))
    pairs = {tuple(draw_budgeted_snippets(np.arange(4), 0.5, seed).indices.tolist()) for seed in range(200)}
    assert pairs == set(itertools.combinations(range(4), 2))  # neighbours in the file may be rounded up together


def test_same_seed_same_draw_and_the_seeds_differ():
    draws: list[Callable[[Seed], ItemDraw]] = [
        lambda seed: draw_whole_documents(DOCUMENTS, 10, seed),
        lambda seed: draw_fixed_snippets(DOCUMENTS, 10, seed, 3),
        lambda seed: draw_budgeted_snippets(DOCUMENTS, 0.3, seed),
    ]
    for draw in draws:
        assert draw(5).indices.tolist() == draw(5).indices.tolist()
        assert len({tuple(draw(seed).indices) for seed in range(20)}) > 5


def test_nothing_to_draw_from():
    nothing = np.empty(0, dtype=int)
    for draw in (
        draw_whole_documents(nothing, 0, 0),
        draw_fixed_snippets(nothing, 0, 0),
        draw_budgeted_snippets(nothing, 0.5, 0),
    ):
        assert (draw.indices.size, draw.probability.size) == (0, 0)


def test_broken_arguments_are_named():
    with pytest.raises(OptionError, match=r"`share` is 1.5"):
        draw_budgeted_snippets(DOCUMENTS, 1.5, 0)
    with pytest.raises(NameUnknownError, match="`placement` is 'round'"):
        draw_budgeted_snippets(DOCUMENTS, 0.5, 0, "round")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`length` is 0"):
        draw_fixed_snippets(DOCUMENTS, 5, 0, length=0)
    with pytest.raises(OptionError, match="`per_document` is 0"):
        draw_fixed_snippets(DOCUMENTS, 5, 0, per_document=0)
    with pytest.raises(OptionError, match="`n_items` is 30; choose between 0 and the 29 items there are"):
        draw_fixed_snippets(DOCUMENTS, 30, 0)
    with pytest.raises(OptionError, match="`documents` has type float64"):
        draw_whole_documents(np.array([0.5]), 1, 0)
