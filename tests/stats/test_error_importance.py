"""Error importance against statsmodels, and types of error that cannot be told apart."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from aliquot.errors import OptionError
from aliquot.stats.regression import error_importance


def campaign(seed: int = 0, answers: int = 120):
    rng = np.random.default_rng(seed)
    counts = rng.poisson([1.0, 0.5, 0.3], (answers, 3)).astype(float)
    cluster = rng.integers(0, 30, answers)
    score = 7 - counts @ np.array([0.5, 1.5, 0.0]) + rng.normal(size=30)[cluster] + rng.normal(size=answers)
    return counts, score, cluster


def test_slopes_and_errors_are_those_of_statsmodels():
    counts, score, cluster = campaign()
    found = error_importance(counts, score, cluster)
    reference = sm.OLS(score, sm.add_constant(counts)).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    np.testing.assert_allclose(found.slopes, reference.params[1:])
    scale = counts.std(axis=0) / score.std()
    np.testing.assert_allclose(found.standardised, reference.params[1:] * scale)
    np.testing.assert_allclose(found.se, reference.bse[1:] * scale)
    np.testing.assert_allclose(found.p, reference.pvalues[1:], atol=1e-12)
    np.testing.assert_allclose(found.low, reference.conf_int()[1:, 0] * scale)
    assert found.r2 == pytest.approx(reference.rsquared)


def test_annotators_have_levels_of_their_own():
    counts, score, cluster = campaign(1)
    people = np.arange(len(score)) % 4
    severe = score + 10.0 * people
    found = error_importance(counts, severe, cluster, groups=people)
    dummies = np.column_stack([counts, np.eye(4)[people]])
    reference = sm.OLS(severe, dummies).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    np.testing.assert_allclose(found.slopes, reference.params[:3])
    scale = _within(counts, people) / _within(severe[:, None], people)
    np.testing.assert_allclose(found.se, reference.bse[:3] * scale)


def _within(values: np.ndarray, people: np.ndarray) -> np.ndarray:
    means = np.array([values[people == p].mean(axis=0) for p in range(4)])
    return np.asarray((values - means[people]).std(axis=0))


def test_positive_slopes_are_kept():
    counts, score, cluster = campaign(2)
    assert error_importance(counts, -score, cluster).slopes[1] > 1.0


def test_errors_that_cannot_be_told_have_no_slope():
    counts, score, cluster = campaign(3)
    wide = np.column_stack([counts, np.zeros(len(score)), counts[:, 0] + counts[:, 1], np.full(len(score), 2.0)])
    found = error_importance(wide, score, cluster)
    assert found.reasons == ("", "", "", "never occurs", "is determined by the others", "never varies")
    assert np.isnan(found.slopes[3:]).all()
    np.testing.assert_allclose(found.slopes[:3], error_importance(counts, score, cluster).slopes)


def test_missing_scores_leave():
    counts, score, cluster = campaign(4)
    gappy = score.copy()
    gappy[:20] = np.nan
    found = error_importance(counts, gappy, cluster)
    assert found.n == 100
    np.testing.assert_allclose(found.slopes, error_importance(counts[20:], score[20:], cluster[20:]).slopes)


def test_intervals_cover():
    hits = []
    for seed in range(200):
        counts, score, cluster = campaign(seed)
        found = error_importance(counts, score, cluster)
        scale = counts.std(axis=0) / score.std()
        truth = np.array([-0.5, -1.5, 0.0]) * scale
        hits.append((found.low <= truth) & (truth <= found.high))
    assert 0.91 <= np.mean(hits) <= 0.98


def test_bad_input():
    counts, score, cluster = campaign()
    with pytest.raises(OptionError, match="too few"):
        error_importance(counts[:3], score[:3], cluster[:3])
    with pytest.raises(OptionError, match="too few"):
        error_importance(counts, score, np.zeros(len(score), dtype=int))
    with pytest.raises(OptionError, match="same for all"):
        error_importance(counts, np.ones(len(score)), cluster)
