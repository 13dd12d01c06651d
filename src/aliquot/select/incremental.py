"""Incremental stratified sampling: the next item is chosen in the light of all ratings so far (Saldias et al. 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from aliquot.data.evalset import EvalSet, ItemId
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.select.designs import bin_codes
from aliquot.select.registry import Subset, subset
from aliquot.select.scores import chosen_metrics, standardised
from aliquot.stats.allocation import optimal
from aliquot.stats.arrays import FloatArray, IntArray, Seed


class Incremental:
    """Is told each rating and gives the next item.

    After every rating the sample is re-allocated to the bins in proportion to size times standard deviation; the bin
    that lags most behind gives the next item, at random. The standard deviations come from the ratings in the bin
    (`variance="human"`), or from ratings predicted by the k nearest rated outputs in the metrics
    (`variance="metric"`).

    >>> import aliquot
    >>> data = aliquot.synthetic(items=30, systems=2, seed=1)
    >>> sampler = Incremental(data, seed=3)
    >>> item = sampler.next()
    >>> sampler.tell(item, {"sys1": -1.0, "sys2": -5.0})
    >>> sampler.rated
    1
    """

    def __init__(
        self,
        evalset: EvalSet,
        *,
        bins: str = "document",
        variance: Literal["human", "metric"] = "human",
        metrics: tuple[str, ...] | None = None,
        k: int = 25,
        seed: Seed = 0,
    ) -> None:
        if variance not in ("human", "metric"):
            raise unknown_name("variance", variance, ["human", "metric"])
        if k < 1:
            raise OptionError(f"incremental: k={k}; choose at least 1 neighbour")
        self._ids = evalset.ids
        self._row_of = {item: row for row, item in enumerate(self._ids)}
        self._systems = evalset.systems
        self._codes = bin_codes(evalset, bins, metrics, bin_size=80)
        self._sizes = np.bincount(self._codes)
        self._rng = np.random.default_rng(seed)
        self._ratings = np.full((evalset.n_items, evalset.n_systems), np.nan)
        self._taken = np.zeros(evalset.n_items, dtype=bool)
        self._k = k
        self._features = _features(evalset, metrics) if variance == "metric" else None

    @property
    def rated(self) -> int:
        """How many items have been rated so far."""
        return int(np.isfinite(self._ratings).any(axis=1).sum())

    def tell(self, item: ItemId, ratings: Mapping[str, float]) -> None:
        """Record an item's ratings: system -> value."""
        if item not in self._row_of:
            raise unknown_name("item", item, self._ids[:50])
        for system, value in ratings.items():  # all or nothing: a refused rating leaves no trace
            if system not in self._systems:
                raise unknown_name("system", system, self._systems)
            if not np.isfinite(value):
                raise DataError(f"item {item!r}, system '{system}': the rating {value} is not a number")
        for system, value in ratings.items():
            self._ratings[self._row_of[item], self._systems.index(system)] = value
        self._taken[self._row_of[item]] = True

    def next(self) -> ItemId:
        """Return the item to be rated next; raises when none is left."""
        if self._taken.all():
            raise DataError("all items have been given out; there is no next one")
        given = np.bincount(self._codes[self._taken], minlength=len(self._sizes))
        target = optimal(self._sizes, self._spreads(), int(given.sum()) + 1)
        lag = np.where(given < self._sizes, target - given, -np.inf)
        bin_ = self._rng.choice(np.flatnonzero(lag >= lag.max() - 1e-12))
        row = int(self._rng.choice(np.flatnonzero((self._codes == bin_) & ~self._taken)))
        self._taken[row] = True
        return self._ids[row]

    def _spreads(self) -> FloatArray:
        """Standard deviation of (known or predicted) ratings in each bin, averaged over systems as variances.

        A bin with fewer than two ratings takes the pooled value; before any two ratings all bins are alike.
        """
        ratings = self._ratings if self._features is None else self._predicted(self._features)
        variance, known = _bin_variances(ratings, self._codes, len(self._sizes))
        if not known.any() or not variance[known].mean() > 0:
            return np.ones(len(self._sizes))
        return np.sqrt(np.where(known, variance, variance[known].mean()))

    def _predicted(self, features: FloatArray) -> FloatArray:
        """Fill in the unknown ratings from the k nearest rated outputs."""
        known = np.isfinite(self._ratings)
        if known.sum() < 2:
            return self._ratings
        model = KNeighborsRegressor(n_neighbors=min(self._k, int(known.sum())))
        model.fit(features[known], self._ratings[known])
        filled = self._ratings.copy()
        if not known.all():
            filled[~known] = model.predict(features[~known])
        return filled


def _features(evalset: EvalSet, metrics: tuple[str, ...] | None) -> FloatArray:
    """Standardised metrics of each output, N x M x K; missing ones are average."""
    chosen = chosen_metrics(evalset, metrics)
    if not chosen:
        raise DataError(f"{evalset.name}: no usable metric; use variance=human or name one with metrics=")
    return np.stack([np.nan_to_num(standardised(evalset.scores[name])) for name in chosen], axis=2)


def _bin_variances(ratings: FloatArray, codes: IntArray, bins: int) -> tuple[FloatArray, np.ndarray]:
    """Within-bin variance, averaged over the systems that have at least two ratings there."""
    total, systems = np.zeros(bins), np.zeros(bins)
    for column in ratings.T:
        present = np.isfinite(column)
        count = np.bincount(codes[present], minlength=bins)
        mean = np.bincount(codes[present], column[present], minlength=bins) / np.maximum(count, 1)
        squares = np.bincount(codes[present], (column[present] - mean[codes[present]]) ** 2, minlength=bins)
        enough = count > 1
        total[enough] += squares[enough] / (count[enough] - 1)
        systems += enough
    return total / np.maximum(systems, 1), systems > 0


@subset("incremental", paper="Saldias et al. 2022, section 2.1",
        advice="The next items to rate, given the ratings so far; for study, it loses to pps.")  # fmt: skip
def incremental(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    bins: str = "document",
    variance: Literal["human", "metric"] = "human",
    metrics: tuple[str, ...] | None = None,
    k: int = 25,
) -> Subset:
    """The next n items by incremental allocation, after those that have human scores already.

    Args:
        bins: document, domain, metric, or any item column.
        variance: bin variances from ratings, or from ratings predicted by nearest neighbours in the metrics.
        metrics: the metrics to predict from, joined by |; all usable ones by default.
        k: how many neighbours predict a rating.
    """
    if bins == "document" and evalset.documents is None:
        bins = "metric" if chosen_metrics(evalset, metrics) else "id"
    sampler = Incremental(evalset, bins=bins, variance=variance, metrics=metrics, k=k, seed=rng)
    ids = evalset.ids
    known = evalset.human_score() if evalset.human else np.full((evalset.n_items, evalset.n_systems), np.nan)
    for row in np.flatnonzero(np.isfinite(known).any(axis=1)):
        rated = {s: float(v) for s, v in zip(evalset.systems, known[row], strict=True) if np.isfinite(v)}
        sampler.tell(ids[row], rated)
    left = evalset.n_items - sampler.rated
    if n > left:
        raise DataError(f"{evalset.name}: only {left} items are not rated yet, {n} are wanted")
    row_of = {item: row for row, item in enumerate(ids)}
    return Subset(np.array([row_of[sampler.next()] for _ in range(n)], dtype=np.int64))
