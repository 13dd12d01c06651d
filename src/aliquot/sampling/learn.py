"""`learn`: from past campaigns to a model that predicts from a source alone how useful judging it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot._version import __version__
from aliquot.core.result import Result, make_signature
from aliquot.core.view import Column, View
from aliquot.core.written import format_fixed
from aliquot.errors import OptionError, unknown_name
from aliquot.io.inputs import DataLike, as_evalsets
from aliquot.sampling.source_features import scale_features
from aliquot.sampling.source_model import SourceModel, unlikeness_parts
from aliquot.sampling.text_vectors import DEFAULT_MODEL
from aliquot.sampling.training import (
    BASELINE,
    Corpus,
    ModelCandidate,
    Target,
    build_corpus,
    cross_validate,
    fit_candidate,
    remember_texts,
)
from aliquot.stats.arrays import FloatArray
from aliquot.stats.text_features import SURFACE_FEATURES
from aliquot.validation import one_of

Features = Literal["light", "embed"]
_MIN_LIMIT = 0.05
_VARIANCE_FLOOR = 0.1


@dataclass(frozen=True, eq=False)
class Learned(Result):
    """The result of `learn`."""

    model: SourceModel  # the chosen model, trained on all campaigns
    chosen: str  # the name of the candidate it is
    # Spearman correlation of prediction and target on each part left out, for every candidate tried and for
    # source_length
    scores: dict[str, dict[str, float]]
    notes: tuple[str, ...]  # warnings for the reader

    @property
    def signature(self) -> str:
        """The line that reproduces it."""
        return self.model.signature

    def mean(self, candidate: str | None = None) -> float:
        """Return a candidate's mean correlation over the left-out parts; the chosen one's by default."""
        name = candidate or self.chosen
        if name not in self.scores:
            raise unknown_name("candidate", name, self.scores)
        return float(np.mean(list(self.scores[name].values())))

    def to_frame(self) -> pl.DataFrame:
        """One row for each part left out, with a column for each candidate."""
        parts = list(self.scores[BASELINE])
        columns = {name: [by_part[part] for part in parts] for name, by_part in self.scores.items()}
        return pl.DataFrame({"left_out": parts, **columns})

    def views(self) -> tuple[View, ...]:
        """Return the view `left_out`: the best candidate of each kind, and source_length, on each part left out."""
        sources, campaigns = sum(count for _, _, count in self.model.trained_on), len(self.model.trained_on)
        plural = "campaign" if campaigns == 1 else "campaigns"
        intro = f"{self.model.target} from {sources} sources of {campaigns} {plural} (chosen: {self.chosen})"
        names = (*(self._best_candidate(kind) for kind in ("ridge", "gbm")), BASELINE)
        means = {"left_out": "mean", **{name: format_fixed(self.mean(name), 3) for name in names}}
        columns = (Column("left out", "left_out", "name"), *(Column(name, places=2) for name in names))
        rows = [*self.to_frame().iter_rows(named=True), means]
        caption = "Spearman correlation of prediction and target on the part that was left out of training."
        return (View("left_out", rows, columns, intro=[intro], caption=caption),)

    def _best_candidate(self, kind: str) -> str:
        """Return the chosen candidate, or the best one of the other kind."""
        if self.model.kind == kind:
            return self.chosen
        return max((name for name in self.scores if name.startswith(kind)), key=self.mean)

    def document(self) -> dict[str, Any]:
        """The JSON document of `learn --json`."""
        return {
            "target": self.model.target,
            "chosen": self.chosen,
            "means": {name: self.mean(name) for name in self.scores},
            "left_out": self.to_frame(),
            "trained_on": [{"name": a, "fingerprint": b, "sources": c} for a, b, c in self.model.trained_on],
            "notes": self.notes,
            "signature": self.signature,
        }


def learn(
    data: DataLike | Sequence[DataLike],
    target: Target = "metric_avg",
    *,
    metric: str | None = None,
    human: str | None = None,
    features: Features = "light",
    encoder: str = DEFAULT_MODEL,
    seed: int = 0,
) -> Learned:
    """Learn from past campaigns how useful judging an item is, from its source alone.

    Targets are computed in each campaign and standardised there by ranks; ridge and gradient boosting are compared by
    leaving one campaign out at a time (fifths of the documents, where there is only one campaign), with source_length
    beside them; a careful ridge, or what is clearly better, is trained on everything.

    Args:
        data: a past campaign, or several, with sources.
        target: metric_avg, metric_var, metric_cons, diversity, irt_diffdisc, or residual (what metrics get wrong).
        metric: compute the target from this metric; from the human score by default.
        human: the human score, where the data do not name it.
        features: "light" (nothing to download), or "embed": sentence embeddings too (the extra `embed`).
        encoder: for "embed", a sentence-transformers model (name or path).
        seed: same seed, same model.

    >>> import aliquot
    >>> past = [aliquot.synthetic(items=120, systems=4, seed=seed) for seed in (1, 2)]
    >>> learn(past).model
    SourceModel(ridge for metric_avg, 240 sources of 2 campaigns)
    """
    sets = as_evalsets(data)
    if not sets:
        raise OptionError("no data to learn from; give at least one past campaign")
    one_of("target", target, get_args(Target))
    one_of("features", features, get_args(Features))
    embedding = encoder if features == "embed" else ""
    corpus = build_corpus(sets, target, metric=metric, human=human, embedding=embedding)
    best, scores = cross_validate(corpus, seed)
    line = make_signature(
        f"learn:{target}",
        None,
        metric=metric,
        human=human,
        features=None if features == "light" else features,
        encoder=embedding or None,
        chosen=best.name,
        seed=seed,
        data=",".join(fingerprint for _, fingerprint, _ in corpus.trained_on),
    )
    fitted = fit_candidate(corpus, np.arange(len(corpus)), best, seed)
    standard = scale_features(corpus.dense, fitted.centre, fitted.scale)
    whitening = _whitening_matrix(standard[:, : len(SURFACE_FEATURES)])
    # The corpus holds unseen shares against its other parts: what a source shares with itself is no likeness.
    limits = np.quantile(unlikeness_parts(corpus.dense, standard, whitening), 0.95, axis=0)
    model = SourceModel(
        target=target,
        kind=best.kind,
        vocabulary=corpus.vocabulary,
        memory=remember_texts(corpus.texts),
        whitening=whitening,
        limits=np.maximum(limits, _MIN_LIMIT),
        embedding=embedding,
        trained_on=corpus.trained_on,
        scores=scores,
        signature=line,
        version=__version__,
        **vars(fitted),
    )
    return Learned(model, best.name, scores, _write_notes(scores, best, corpus, target))


def _whitening_matrix(standard: FloatArray) -> FloatArray:
    """Return the matrix that makes statistics uncorrelated; a floor keeps small variances small."""
    covariance = np.atleast_2d(np.cov(standard, rowvar=False))
    values, vectors = np.linalg.eigh(covariance)
    whitening: FloatArray = (vectors / np.sqrt(np.maximum(values, 0.0) + _VARIANCE_FLOOR)) @ vectors.T
    return whitening


def _write_notes(
    scores: dict[str, dict[str, float]], best: ModelCandidate, corpus: Corpus, target: str
) -> tuple[str, ...]:
    notes = []
    ours, plain = (float(np.mean(list(scores[name].values()))) for name in (best.name, BASELINE))
    if ours <= plain:
        notes.append(
            f"the model predicts no better than source length ({ours:.2f} against {plain:.2f}): use source_length"
        )
    if len(corpus.names) == 1:
        notes.append("one campaign: validated on its own documents, which is weak evidence for other campaigns")
    if target == "metric_avg":
        notes.append(
            "items chosen as hard put the systems of these campaigns at a disadvantage where they are judged again"
        )
    return tuple(notes)
