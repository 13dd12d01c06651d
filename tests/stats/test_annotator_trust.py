"""Trust coefficients: the notes' worked case, the algorithm written out, sampling, and what is refused."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.stats import annotator_model as module
from aliquot.stats.alpha import MEASUREMENT_LEVELS, MeasurementLevel, krippendorff_alpha, to_long_form
from aliquot.stats.annotator_model import TRUST_VARIANTS, TrustVariant, group_alphas, trust_coefficients
from aliquot.stats.arrays import FloatArray

WORKED = np.array(
    [[1, 2, 3, 1, 2, 3, 1, 2], [1, 2, 3, 1, 2, 3, 1, 3], [1, 2, 3, 1, 2, 2, 1, 2], [3, 1, 1, 2, 3, 1, 2, 2]],
    dtype=float,
).T
"""The notes' case: A, B and C agree, D does not."""


def test_the_worked_case() -> None:
    printed = trust_coefficients(WORKED)
    assert printed.coefficients.round(4).tolist() == [1.0, 0.8364, 0.8002, 0.0048]
    assert printed.outliers.tolist() == [False, False, False, True]
    assert (printed.combinations, printed.exact) == (11, True)
    assert trust_coefficients(WORKED, variant="released").coefficients.round(4).tolist() == [
        1.0,
        0.8729,
        0.8385,
        0.0039,
    ]


def test_the_alphas_of_the_worked_case() -> None:
    names = {
        "AB": 0.8235,
        "AC": 0.8148,
        "AD": -0.25,
        "BC": 0.6429,
        "BD": -0.4118,
        "CD": -0.2963,
        "ABC": 0.7566,
        "ABD": 0.0366,
        "ACD": 0.0676,
        "BCD": -0.0344,
        "ABCD": 0.2004,
    }
    members = np.array([[letter in name for letter in "ABCD"] for name in names])
    assert group_alphas(WORKED, members, "nominal")[0].round(4).tolist() == list(names.values())


def written_out(table: FloatArray, level: MeasurementLevel, variant: TrustVariant) -> FloatArray:
    """The paper's pseudocode, line by line; the released notebook compares with the alpha before."""
    annotators = table.shape[1]
    alphas = {}
    for n in range(2, annotators + 1):
        for group in combinations(range(annotators), n):
            unit, _annotator, value = to_long_form(table[:, group])
            alpha = krippendorff_alpha(unit, value, level)
            if np.isnan(alpha) and variant == "released" and (np.isfinite(table[:, group]).sum(axis=1) > 1).any():
                alpha = 1.0
            if not np.isnan(alpha):
                alphas[group] = round(alpha, 12)
    coefs, coef = np.zeros(annotators), 1
    score = 0.0 if variant == "paper" else min(alphas.values())
    for group, alpha in sorted(alphas.items(), key=lambda entry: entry[1]):
        if score < alpha:
            coef, score = coef + 1, alpha
        for annotator in group:
            coefs[annotator] += coef * alpha
    return coefs


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), level=st.sampled_from(MEASUREMENT_LEVELS), variant=st.sampled_from(TRUST_VARIANTS))
def test_like_the_pseudocode(seed: int, level: MeasurementLevel, variant: TrustVariant) -> None:
    rng = np.random.default_rng(seed)
    table = np.clip(rng.integers(0, 4, (8, 1)) + rng.integers(-1, 2, (8, 4)), 0, 3).astype(float)
    table[rng.random(table.shape) < 0.2] = np.nan
    sums = written_out(table, level, variant)
    if sums.max() <= 0:
        with pytest.raises(DataError, match="undefined"):
            trust_coefficients(table, level=level, variant=variant)
        return
    assert trust_coefficients(table, level=level, variant=variant).coefficients == pytest.approx(
        sums / sums.max(), abs=1e-9
    )


@pytest.mark.parametrize("level", MEASUREMENT_LEVELS)
def test_alpha_of_groups(level: MeasurementLevel) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 4, (9, 6)).astype(float)
    table[rng.random(table.shape) < 0.3] = np.nan
    members = rng.random((40, 6)) < 0.5
    alphas, comparable = group_alphas(table, members, level)
    for alpha, there, group in zip(alphas, comparable, members, strict=True):
        unit, _annotator, value = to_long_form(table[:, group])
        assert alpha == pytest.approx(krippendorff_alpha(unit, value, level), abs=1e-10, nan_ok=True)
        assert there == (np.isfinite(table[:, group]).sum(axis=1) > 1).any()


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trust_coefficients(WORKED, level="ordinal").coefficients
    monkeypatch.setattr(module, "_BLOCK", 1)
    assert trust_coefficients(WORKED, level="ordinal").coefficients == pytest.approx(whole)


def test_beyond_fifteen_a_part_of_the_combinations_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(80, 1)) + 0.7 * rng.normal(size=(80, 11))).round(1)
    table[:, 4] = rng.normal(size=80)
    exact = trust_coefficients(table, level="interval")
    monkeypatch.setattr(module, "MAX_EXACT_ANNOTATORS", 5)
    drawn = trust_coefficients(table, level="interval", combinations=1000, seed=1)
    assert not drawn.exact
    assert 700 < drawn.combinations <= 1000
    assert drawn.coefficients == pytest.approx(exact.coefficients, abs=0.05)
    assert (
        trust_coefficients(table, level="interval", combinations=1000, seed=1).coefficients == drawn.coefficients
    ).all()
    assert int(np.argmin(drawn.coefficients)) == 4


def test_sixteen_annotators() -> None:
    rng = np.random.default_rng(2)
    table = rng.integers(0, 3, (20, 1)) + rng.integers(0, 2, (20, 16)).astype(float)
    assert not trust_coefficients(table, combinations=300).exact


def test_an_annotator_without_overlap_has_no_coefficient() -> None:
    alone = np.column_stack([WORKED, np.full(8, np.nan)])
    alone = np.vstack([alone, [np.nan] * 4 + [2.0]])
    found = trust_coefficients(alone).coefficients
    assert found[:4] == pytest.approx(trust_coefficients(WORKED).coefficients)
    assert np.isnan(found[4])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([[1.0, np.nan], [np.nan, 2.0]]), "no two annotators share a unit"),
        (np.ones((4, 3)), "on which judgments differ"),
        (np.array([[1.0, 2], [2, 1], [1, 2], [2, 1]]), "no annotator is in combinations that agree better than chance"),
        (np.array([[1.0], [2.0]]), "at least two annotators"),
    ],
    ids=["no overlap", "equal", "opposite", "one annotator"],
)
def test_undefined_is_refused(table: FloatArray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        trust_coefficients(table)


def test_equal_answers_count_as_agreement_in_the_released_variant() -> None:
    assert trust_coefficients(np.ones((4, 3)), variant="released").coefficients.tolist() == [1.0, 1.0, 1.0]


def test_bad_options() -> None:
    with pytest.raises(NameUnknownError, match="`variant` is 'printed'"):
        trust_coefficients(WORKED, variant="printed")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`level` is 'metric'"):
        trust_coefficients(WORKED, level="metric")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`combinations` is 0"):
        trust_coefficients(WORKED, combinations=0)
    with pytest.raises(OptionError, match="ratio scale begins at 0"):
        trust_coefficients(-WORKED, level="ratio")
