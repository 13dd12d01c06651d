"""The judged sample: which items were judged, what people said, and with which chances the items were drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.core.origin import OUTPUT_DIGEST
from aliquot.core.registry import RegistryEntry
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.estimation.inputs import extend_to_pool
from aliquot.estimation.proxies import select_proxies, standardise_metric
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, encode_labels, nan_std
from aliquot.stats.correlation import pearson
from aliquot.stats.design_variance import (
    cluster_errors,
    intracluster_correlation,
    spread_errors,
    stratified_errors,
    unequal_probability_errors,
)
from aliquot.stats.mixed_model import as_cell_weights, cell_covariance, nearest_covariance, pooling_factors


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of independent units (k x M), whose products sum to the covariance before `finite` is taken off.

    `finite` is what a finite population takes off where systems were judged on different items: with n_st common
    items Cov(T_s, T_t) = (n_st / (n_s n_t) - 1/N) S_st, the second part of which no product of units can give. For a
    complete sample it is None, and the units carry the finite-population factor themselves.
    """

    units: FloatArray
    finite: FloatArray | None = None

    @cached_property
    def covariance(self) -> FloatArray:
        """Joint covariance of the estimates."""
        product: FloatArray = self.units.T @ self.units
        return product if self.finite is None else nearest_covariance(product - self.finite)


@dataclass(frozen=True, eq=False)
class Sample:
    """Judged items in the order of drawing.

    Attributes:
        evalset: the whole test set, the finite population the estimates are about.
        rows: rows of the judged items.
        scores: n x M human scores; NaN = not judged.
        pi: inclusion probabilities; None if they are unknown.
        weight: what each item counts: 1/pi, or 1.
        kind: how the variance follows from the design; see core.selection.Variance.
        stratum: the design's bin of each judged item, or None.
        remainder: for samples spread over documents, what is left of the variance between documents.
        cell_weight: n x M, what each cell counts, where systems have probabilities of their own; otherwise None.
        prior: N x M, what earlier campaigns expect of every output (estimation/past.py); None without them.
    """

    evalset: EvalSet
    rows: IntArray
    scores: FloatArray
    pi: FloatArray | None
    weight: FloatArray
    kind: str = "unordered"
    stratum: IntArray | None = None
    remainder: float = 1.0
    cell_weight: FloatArray | None = None
    prior: FloatArray | None = None

    @property
    def cells(self) -> FloatArray:
        """What each item (n) or each cell (n x M) counts in a system's mean."""
        return self.weight if self.cell_weight is None else self.cell_weight

    @property
    def population(self) -> int:
        """The number of items of the whole test set, N."""
        return self.evalset.n_items

    @property
    def n(self) -> int:
        """The number of judged items."""
        return len(self.rows)

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probabilities for the variance: those known, or n/N as if drawn at random."""
        return self.pi if self.pi is not None else np.full(self.n, min(1.0, self.n / self.population))

    @cached_property
    def clusters(self) -> IntArray:
        """Document codes of the judged items; each item its own where there are none."""
        codes = self.evalset.documents
        return codes[self.rows] if codes is not None else self.rows

    @cached_property
    def counts(self) -> IntArray:
        """Judged items of each system, n_s."""
        return np.asarray(np.isfinite(self.scores).sum(axis=0), dtype=np.int64)

    @cached_property
    def ragged(self) -> bool:
        """Whether systems were judged on different items."""
        return bool(((self.counts > 0) & (self.counts < self.n)).any())

    def compute_errors(self, fitted: Fitted) -> Errors:
        """Return errors of the estimates under the design and the pattern of judged cells."""
        if not self.ragged:
            return Errors(self._unit_errors(fitted.z, self.probabilities))
        z = fitted.z * np.sqrt(self.counts / np.maximum(self.counts - 1, 1))
        fill = self.counts / self.n
        if self.kind in ("clustered", "stratified"):
            # Each system's own share of the population replaces the common one in the finite-population factor.
            part = float(self.probabilities.mean()) * float(fill.mean())
            finite_factor = np.clip(1.0 - self.probabilities.mean() * fill, 0.0, None) / max(1.0 - part, 1e-12)
            return Errors(self._unit_errors(fitted.z, self.probabilities * float(fill.mean())) * np.sqrt(finite_factor))
        units = self._balance_residuals(z) if self.kind == "balanced" else z
        # Cells that are missing at random undo as much of the gain from spreading over documents.
        share_left = 1.0 - float(fill[self.counts > 0].mean()) * (1.0 - min(1.0, self.remainder))
        gain = (
            1.0 - intracluster_correlation(units, self.clusters) * (1.0 - share_left) if self.kind == "spread" else 1.0
        )
        covariance = cell_covariance(self.residual_of(fitted), self.cells)
        factor = np.sqrt(gain) * pooling_factors(np.diag(covariance), self.counts)
        factor[self.counts == self.population] = 0.0  # judged on all items: the mean is known
        return Errors(units * factor, factor[:, None] * factor * covariance / self.population)

    def residual_of(self, fitted: Fitted) -> FloatArray:
        """Return the residuals of an estimate, from its contributions w (e - mean) / sum w if it has none."""
        if fitted.residual is not None:
            return fitted.residual
        present = np.isfinite(self.scores)
        cells = as_cell_weights(self.cells)
        total = np.where(present, cells, 0.0).sum(axis=0)
        return np.where(present, fitted.z * total / cells, np.nan)

    def _unit_errors(self, z: FloatArray, pi: FloatArray) -> FloatArray:
        """Errors of independent units (units x M) from the linearised contributions of a complete sample."""
        if self.kind == "spread":
            return spread_errors(z, pi, self.clusters, self.remainder)
        if self.kind == "clustered":
            return cluster_errors(z, pi, self.clusters)
        if self.kind == "stratified" and self.stratum is not None:
            return stratified_errors(z, pi, self.stratum)
        if self.kind == "balanced":
            return unequal_probability_errors(self._balance_residuals(z), pi)
        return unequal_probability_errors(z, pi)

    def _balance_residuals(self, z: FloatArray) -> FloatArray:
        """Subtract from contributions their regression on the items' quality, which balancing removes."""
        quality = self.quality
        if quality is None or self.n < 4:
            return z
        x = np.column_stack([np.ones(self.n), quality[self.rows]]) * np.sqrt(self.weight)[:, None]
        y = z / np.sqrt(self.weight)[:, None]
        slopes = np.linalg.lstsq(x, y, rcond=None)[0]
        residual: FloatArray = (y - x @ slopes) * np.sqrt(self.weight)[:, None]
        scaled: FloatArray = residual * np.sqrt((self.n - 1) / (self.n - 2))
        return scaled

    @cached_property
    def quality(self) -> FloatArray | None:
        """Mean quality of each item's outputs by all usable metrics; None without metrics."""
        names = select_proxies(self.evalset, None)
        if not names:
            return None
        means = [standardise_metric(self.evalset, name).mean(axis=1) for name in names]
        together: FloatArray = np.mean([(mean - mean.mean()) / (nan_std(mean) or 1.0) for mean in means], axis=0)
        return together

    @property
    def units(self) -> int:
        """The number of independent pieces of evidence: documents where whole documents were drawn."""
        return len(np.unique(self.clusters)) if self.kind == "clustered" else self.n


def judged_sample(evalset: EvalSet, human: str | None = None, selection: Selection | None = None) -> Sample:
    """Return the judged part of a set, with the inclusion probabilities of the selection.

    Without a selection the judged items are taken for a simple random sample.
    """
    scores = evalset.human_score(human)
    judged = np.isfinite(scores).any(axis=1)
    if selection is None:
        rows = np.flatnonzero(judged)
        _require_judged(len(rows), evalset)
        pi = np.full(len(rows), len(rows) / evalset.n_items)
        return Sample(evalset, rows, scores[rows], pi, np.ones(len(rows)))
    return _sample_of_selection(evalset, scores, selection)


def _require_judged(count: int, evalset: EvalSet) -> None:
    if count == 0:
        raise DataError(f"{evalset.name}: no item has a human score; judge some, or name the score in `human`")


def _sample_of_selection(evalset: EvalSet, scores: FloatArray, selection: Selection) -> Sample:
    judgments = evalset.judgments  # those of a campaign know which texts were judged, and were compared with them
    judged = None if judgments is not None and OUTPUT_DIGEST in judgments.table.columns else np.isfinite(scores)
    selection.check(
        evalset, judged=judged
    )  # before unknown items are added, whose made-up ids could be the missing ones
    evalset, scores = extend_to_pool(evalset, scores, selection)
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    rows = np.array([row_of[item] for item in selection.ids], dtype=np.int64)
    chosen = scores[rows]
    if selection.systems is not None:
        requested = np.array([[system in names for system in evalset.systems] for names in selection.systems])
        chosen = np.where(requested, chosen, np.nan)
    is_judged: BoolArray = np.isfinite(chosen).sum(axis=1) > 0
    _require_judged(int(is_judged.sum()), evalset)
    if not is_judged.all():
        n_unjudged = int((~is_judged).sum())
        warnings.warn(
            f"{n_unjudged} of {len(rows)} selected items are not judged; the others are taken for a random part "
            "of them",
            AliquotWarning,
            2,
        )
    cells = selection.cell_probability(evalset.systems)
    if cells is not None:
        return adaptive_sample(evalset, rows[is_judged], chosen[is_judged], cells[is_judged])
    pi = _judged_probabilities(selection, is_judged, evalset.n_items)
    weight = 1.0 / pi if pi is not None else _selection_weights(selection)[is_judged]
    stratum = _judged_strata(selection, is_judged)
    design = selection.design
    return Sample(
        evalset,
        rows[is_judged],
        chosen[is_judged],
        pi,
        weight,
        kind=design.variance,
        stratum=stratum,
        remainder=design.remainder,
    )


def adaptive_sample(evalset: EvalSet, rows: IntArray, scores: FloatArray, probability: FloatArray) -> Sample:
    """Return a sample of an adaptive selection: each system was judged on a prefix of the same item order."""
    pi = probability.max(axis=1)
    alike = bool(np.ptp(probability, axis=1).max(initial=0.0) < 1e-12)
    cells = None if alike else 1.0 / probability
    return Sample(evalset, rows, scores, pi, 1.0 / pi, cell_weight=cells)


def _judged_probabilities(selection: Selection, is_judged: BoolArray, population: int) -> FloatArray | None:
    if selection.probability is None:
        return None
    pi: FloatArray = selection.probability[is_judged] * float(
        is_judged.mean()
    )  # unjudged items: the judged are a random part of the sample
    if not ((pi > 0) & (pi <= 1 + 1e-12)).all():
        raise OptionError("a selection's inclusion probabilities must lie in (0, 1]")
    least = 1.0 / max(population, 1)
    low = pi < least * (1 - 1e-9)
    if low.any():
        warnings.warn(
            f"{int(low.sum())} judged items had an inclusion probability below 1 in {population}, the smallest "
            f"{pi.min():.2g}; 1 in {population} is used for them, so that no item stands for more than the whole set, "
            "and means are a little biased",
            AliquotWarning,
            3,
        )
    return np.clip(pi, least, 1.0)


def _selection_weights(selection: Selection) -> FloatArray:
    return selection.weight if selection.weight is not None else np.ones(len(selection))


def _judged_strata(selection: Selection, is_judged: BoolArray) -> IntArray | None:
    if selection.stratum is None:
        return None
    return encode_labels([label for label, judged in zip(selection.stratum, is_judged, strict=True) if judged])


# -- What an estimator is and what it gives: values, and contributions from which the design makes the covariance ----


@dataclass(frozen=True, eq=False)
class Fitted:
    """An estimator's values, and the contributions that determine their errors.

    Attributes:
        values: each system's estimated mean over the whole test set.
        z: n x M contributions of the judged items to the error, for the covariance.
        residual: n x M residuals behind them, where they are not those of a weighted mean; NaN = not judged.
        proxy: n x M cross-fitted predictions, or None.
        foreseen: the proxies' prediction of each system's mean, up to a common shift, or None.
        notes: what a reader should know.
        details: numbers behind it (slopes, power, metrics used).
    """

    values: FloatArray
    z: FloatArray
    residual: FloatArray | None = None
    proxy: FloatArray | None = None
    foreseen: FloatArray | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimator(RegistryEntry):
    """A registered estimator."""

    function: Callable[..., Fitted]

    def run(self, sample: Sample, parameters: Mapping[str, Any]) -> Fitted:
        """Call it with the user's parameters."""
        return self.function(sample, **self.bind(parameters))


ESTIMATORS: dict[str, Estimator] = {}
"""Name -> estimator; filled by the files that define them."""


def estimator(name: str) -> Callable[[Callable[..., Fitted]], Callable[..., Fitted]]:
    """Register an estimator under a name."""

    def decorator(function: Callable[..., Fitted]) -> Callable[..., Fitted]:
        ESTIMATORS[name] = Estimator(name, function)
        return function

    return decorator


def proxy_correlation(fitted: Fitted, sample: Sample) -> FloatArray:
    """Correlation of the cross-fitted proxy with the human score on the judged items, per system."""
    m = sample.evalset.n_systems
    if fitted.proxy is None:
        return np.full(m, np.nan)
    return np.array([pearson(fitted.proxy[:, system], sample.scores[:, system]) for system in range(m)])
