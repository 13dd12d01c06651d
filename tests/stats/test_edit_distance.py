"""Edit distances and segment-weighted means: a plain dynamic programme, and the tables of the proceedings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import MissingExtraError, OptionError
from aliquot.stats.text_similarity import edit_distances, fewer_edits, segment_weighted, text_lengths

# ParaCrawl, Table 2: S1 chosen, S2 chosen, identical, mean distance to S1, to S2; one row per job.
JOBS = {
    "cs": [(38, 8, 1, 23.65, 43.40), (28, 15, 4, 40.37, 53.13), (32, 15, 1, 24.18, 36.77)],
    "de": [(29, 20, 0, 31.47, 32.02), (27, 23, 1, 38.53, 37.27), (30, 19, 0, 32.43, 34.39)],
    "fi": [(44, 7, 1, 30.18, 52.02), (47, 3, 0, 24.24, 61.18), (43, 6, 1, 28.52, 55.56)],
    "lv": [(33, 16, 2, 39.71, 52.95), (32, 15, 1, 45.65, 55.76), (34, 13, 2, 46.16, 58.91)],
    "ro": [(39, 13, 1, 33.84, 46.43), (40, 12, 1, 31.37, 45.51), (45, 6, 2, 38.13, 53.70)],
}
LANGUAGES = {"cs": (98, 38, 6, 29.36, 44.38), "de": (86, 62, 1, 34.20, 34.60), "fi": (134, 16, 2, 27.68, 56.20),
             "lv": (99, 44, 5, 43.77, 55.83), "ro": (124, 31, 4, 34.45, 48.55)}  # fmt: skip


@pytest.mark.parametrize("language", JOBS)
def test_languages_of_the_post_editing_campaign(language):
    jobs = np.array(JOBS[language])
    segments = jobs[:, :3].sum(axis=1).astype(int)
    assert jobs[:, :3].sum(axis=0).tolist() == list(LANGUAGES[language][:3])
    for column, printed in ((3, LANGUAGES[language][3]), (4, LANGUAGES[language][4])):
        assert segment_weighted(jobs[:, column], segments) == pytest.approx(printed, abs=0.006)


@pytest.mark.parametrize(
    ("parts", "total"),
    [((43.7, 37.1, 44.7, 26.1), 36.0), ((33.3, 30.6, 33.7, 18.0), 26.9), ((42.4, 35.8, 43.6, 23.4), 34.2),
     ((23.4, 17.8, 23.9, 13.0), 18.5), ((34.2, 38.5, 34.7, 22.1), 30.2), ((73.6, 76.7, 76.2, 70.7), 73.8)],
)  # fmt: skip
def test_totals_of_the_word_senses_are_weighted_by_words(parts, total):
    """Notes, P10: Tables 4 and 5 (the first is printed as 73.7)."""
    assert segment_weighted(np.array(parts), np.array([606, 816, 1656, 2026])) == pytest.approx(total, abs=0.05)


def test_jobs_without_a_mean_do_not_count():
    assert segment_weighted(np.array([1.0, np.nan]), np.array([2, 5])) == 1.0
    assert np.isnan(segment_weighted(np.array([np.nan]), np.array([2])))


def plain_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@given(st.lists(st.tuples(st.text("abcé ", max_size=8), st.text("abcé ", max_size=8)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_distances_are_levenshtein(pairs):
    finals, outputs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert edit_distances(finals, outputs).tolist() == [plain_distance(a, b) for a, b in pairs]
    assert edit_distances(outputs, finals).tolist() == edit_distances(finals, outputs).tolist()


def test_empty_outputs_are_as_far_as_the_text_is_long():
    assert edit_distances(["abc", ""], ["", ""]).tolist() == [3, 0]
    assert text_lengths(["abc", ""]).tolist() == [3, 0]


def test_two_spellings_of_an_accent_are_the_same():
    assert edit_distances(["Zoe\u0308 ran"], ["Zo\u00eb ran"]).tolist() == [0]


def test_ties_of_edits():
    assert fewer_edits(np.array([1, 2, 3]), np.array([2, 2, 1])).tolist() == [1, 0, -1]


def test_bad_input(monkeypatch):
    with pytest.raises(OptionError, match="2 final texts and 1 outputs"):
        edit_distances(["a", "b"], ["a"])
    monkeypatch.setattr("aliquot.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="rapidfuzz"):
        edit_distances(["a"], ["b"])
