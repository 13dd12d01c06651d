"""Fitting: ridge and gradient boosting, compared by cross-validation over campaigns, with source length beside them.

All slopes are estimated within campaigns. The log length is hardly penalised: it is the baseline that the other
features must add to; so a model that learns nothing falls back to length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.ensemble import GradientBoostingRegressor

from aliquot.data.source_features import standardised
from aliquot.errors import DataError
from aliquot.learn.corpus import FEWEST, Corpus, held_out_features
from aliquot.stats import trees as boosted
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.text_features import SURFACE
from aliquot.stats.trees import Trees
from aliquot.stats.within_ridge import centred, group_weights, sparse_within_ridge, within_ridge

_LENGTH = SURFACE.index("log length")
_FOLDS = 5
_LEAST_SPREAD = 0.25
_EASY = 1e-6
BASELINE = "source_length"


@dataclass(frozen=True)
class Candidate:
    """A way of fitting: penalties per source on dense features and in all on n-grams (0: none), and boosting or not."""

    penalty: float
    ngrams: float = 0.0
    boost: bool = False

    @property
    def name(self) -> str:
        """How the report calls it."""
        return f"{self.kind}:penalty={self.penalty:g}" + (f",ngrams={self.ngrams:g}" if self.ngrams else "")

    @property
    def kind(self) -> str:
        """Ridge or gbm."""
        return "gbm" if self.boost else "ridge"


CAREFUL = (Candidate(20.0), Candidate(5.0), Candidate(5.0, ngrams=300.0))
FREE = (
    Candidate(1.0), Candidate(1.0, ngrams=300.0), Candidate(5.0, ngrams=100.0), Candidate(5.0, boost=True),
    Candidate(5.0, ngrams=300.0, boost=True),
)  # fmt: skip
_CLEARLY = 2.0


@dataclass(frozen=True, eq=False)
class Fit:
    """What was fitted, on standardised features."""

    centre: FloatArray
    scale: FloatArray
    slopes: FloatArray
    ngrams: NDArray[np.float32]
    trees: Trees | None

    def standardised(self, dense: FloatArray) -> FloatArray:
        """Dense features as the fit saw them."""
        return standardised(dense, self.centre, self.scale)


def fit(corpus: Corpus, rows: IntArray, candidate: Candidate, seed: int) -> Fit:
    """Fit a candidate on some of the sources."""
    groups = np.unique(corpus.groups[rows], return_inverse=True)[1].astype(np.int64)
    weight = group_weights(groups)
    target, dense = corpus.target[rows], corpus.dense[rows]
    centre = np.average(dense, axis=0, weights=weight)
    inside = np.sqrt(np.average(centred(dense, groups, weight) ** 2, axis=0, weights=weight))
    scale = np.maximum(inside, _LEAST_SPREAD * np.sqrt(np.average((dense - centre) ** 2, axis=0, weights=weight)))
    scale = np.where(scale > 1e-12, scale, 1.0)  # a constant tells nothing
    x = standardised(dense, centre, scale)
    penalty = np.full(x.shape[1], candidate.penalty * len(rows))
    penalty[_LENGTH] = _EASY * len(rows)
    slopes = within_ridge(x, target, groups, weight, penalty)
    left = centred(target - x @ slopes, groups, weight)
    weights = np.zeros(0, dtype=np.float32)
    if candidate.ngrams:
        weights = sparse_within_ridge(corpus.ngrams[rows], left, groups, weight, candidate.ngrams).astype(np.float32)
    grown = _boosted(x, left, weight, seed) if candidate.boost else None
    return Fit(centre, scale, slopes, weights, grown)


def _boosted(x: FloatArray, left: FloatArray, weight: FloatArray, seed: int) -> Trees:
    """Shallow trees on what ridge on the dense features leaves; n-grams, where there are any, are beside them."""
    model = GradientBoostingRegressor(
        n_estimators=60, learning_rate=0.05, max_depth=3, min_samples_leaf=max(5, min(60, len(x) // 20)),
        subsample=0.5, max_features=0.5, init="zero", random_state=seed,
    )  # fmt: skip
    return boosted.from_boosting(model.fit(x, left, sample_weight=weight))


def predicted(found: Fit, corpus: Corpus, rows: IntArray, dense: FloatArray) -> FloatArray:
    """Predictions for sources of the corpus, with their features given."""
    x = found.standardised(dense)
    values = x @ found.slopes
    if len(found.ngrams):
        values = values + corpus.ngrams[rows] @ found.ngrams
    if found.trees is not None:
        values = values + boosted.predict(found.trees, x)
    return np.asarray(values, dtype=np.float64)


# -- cross-validation ----------------------------------------------------------------------------------------------


def folds(corpus: Corpus, seed: int) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Name, training rows and test rows: a campaign left out at a time; fifths of the documents where there is one.

    A source that occurs in the part left out is never trained on, in whatever campaign it stands.
    """
    if len(corpus.names) > 1:
        labels, code = corpus.names, corpus.groups
    else:
        units = np.unique(corpus.units, return_inverse=True)[1]
        part = np.random.default_rng(seed).permutation(units.max() + 1) % _FOLDS
        labels, code = tuple(f"{corpus.names[0]}, part {k + 1}" for k in range(_FOLDS)), part[units]
    for number, label in enumerate(labels):
        test = np.flatnonzero(code == number)
        held = {corpus.texts[row] for row in test}
        train = np.array(
            [row for row in np.flatnonzero(code != number) if corpus.texts[row] not in held], dtype=np.int64
        )
        if len(test) > 2 and len(train) >= FEWEST:
            yield label, train, test


def spearman(values: FloatArray, target: FloatArray) -> float:
    """Rank correlation; 0 where the prediction does not vary."""
    a, b = rankdata(values), rankdata(target)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def cross_validated(corpus: Corpus, seed: int) -> tuple[Candidate, dict[str, dict[str, float]]]:
    """Return the chosen candidate and, for each, its Spearman correlation with the target on each part left out."""
    parts = list(folds(corpus, seed))
    if not parts:
        raise DataError(
            f"{len(corpus)} sources of {len(corpus.names)} campaigns are too few, or too much alike, to learn from: no "
            f"part can be left out with {FEWEST} other sources to train on"
        )
    dense = {label: held_out_features(corpus, train, test) for label, train, test in parts}
    scores = {BASELINE: {label: spearman(corpus.lengths[test], corpus.target[test]) for label, _, test in parts}}

    for candidate in (*CAREFUL, *FREE):
        scores[candidate.name] = {}
        for label, train, test in parts:
            values = predicted(fit(corpus, train, candidate, seed), corpus, test, dense[label])
            scores[candidate.name][label] = spearman(values, corpus.target[test])
    return chosen({c: np.array(list(scores[c.name].values())) for c in (*CAREFUL, *FREE)}), scores


def chosen(found: Mapping[Candidate, FloatArray]) -> Candidate:
    """The careful ridge with the best mean, or a freer candidate that is clearly better, part by part.

    A handful of campaigns says little about which candidate is best: taking the best mean of all lost to source length
    on campaigns never seen, while this rule gained (docs/evidence-sources.md). Clearly: by two standard errors.
    """
    best = max(CAREFUL, key=lambda candidate: float(found[candidate].mean()))
    for candidate in FREE:
        gain = found[candidate] - found[best]
        if len(gain) > 1 and gain.mean() > _CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)):
            best = candidate
    return best
