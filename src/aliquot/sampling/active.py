"""Active sampling: the next items depend on the judgments so far (Saldias et al. 2022; CASF, Ruan et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Design, Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.sampling.designs import bin_codes
from aliquot.sampling.item_scores import fill_missing, item_quality, rank_bins, row_mean, select_metrics, standardise
from aliquot.sampling.methods import DesignDraw, Subset, design, subset
from aliquot.sampling.text_vectors import NGRAMS, embed
from aliquot.stats.allocation import neyman_allocation
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.regression import pooled_ridge
from aliquot.stats.sampling_designs import systematic_sample


class Incremental:
    """Incremental stratified sampling: takes judgments one by one and returns the next item.

    After every item the sample is re-allocated to the bins in proportion to size times standard deviation; the bin
    that lags most gives the next item, at random. The standard deviations come from the judgments in the bin
    (`variance="human"`), or from judgments predicted by the k nearest judged outputs in the metrics
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
        evalset: DataLike,
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
        evalset = as_evalset(evalset)
        self._ids = evalset.ids
        self._row_of = {item: row for row, item in enumerate(self._ids)}
        self._systems = evalset.systems
        self._codes = bin_codes(evalset, bins, metrics, bin_size=80)
        self._sizes = np.bincount(self._codes)
        self._rng = np.random.default_rng(seed)
        self._judgments = np.full((evalset.n_items, evalset.n_systems), np.nan)
        self._is_drawn = np.zeros(evalset.n_items, dtype=bool)
        self._k = k
        self._features = _metric_features(evalset, metrics) if variance == "metric" else None

    @property
    def rated(self) -> int:
        """How many items have been judged so far."""
        return int(np.isfinite(self._judgments).any(axis=1).sum())

    def tell(self, item: ItemId, ratings: Mapping[str, float]) -> None:
        """Record an item's judgments: system -> value."""
        if item not in self._row_of:
            raise unknown_name("item", item, self._ids[:50])
        for system, value in ratings.items():  # all or nothing: a refused judgment changes nothing
            if system not in self._systems:
                raise unknown_name("system", system, self._systems)
            if not np.isfinite(value):
                raise DataError(f"item {item!r}, system '{system}': the judgment {value} is not a number")
        for system, value in ratings.items():
            self._judgments[self._row_of[item], self._systems.index(system)] = value
        self._is_drawn[self._row_of[item]] = True

    def next(self) -> ItemId:
        """Return the item to be judged next; raises when none is left."""
        if self._is_drawn.all():
            raise DataError("all items have been given out; there is no next one")
        drawn_counts = np.bincount(self._codes[self._is_drawn], minlength=len(self._sizes))
        target = neyman_allocation(self._sizes, self._estimate_bin_spreads(), int(drawn_counts.sum()) + 1)
        lag = np.where(drawn_counts < self._sizes, target - drawn_counts, -np.inf)
        bin_ = self._rng.choice(np.flatnonzero(lag >= lag.max() - 1e-12))
        row = int(self._rng.choice(np.flatnonzero((self._codes == bin_) & ~self._is_drawn)))
        self._is_drawn[row] = True
        return self._ids[row]

    def _estimate_bin_spreads(self) -> FloatArray:
        """Return the standard deviation of judgments (given or predicted) in each bin, over all systems.

        A bin with fewer than two judgments takes the pooled value; before any two judgments all bins are alike.
        """
        judgments = self._judgments if self._features is None else self._predict_judgments(self._features)
        variance, has_variance = _bin_variances(judgments, self._codes, len(self._sizes))
        if not has_variance.any() or not variance[has_variance].mean() > 0:
            return np.ones(len(self._sizes))
        return np.sqrt(np.where(has_variance, variance, variance[has_variance].mean()))

    def _predict_judgments(self, features: FloatArray) -> FloatArray:
        """Return judgments with missing ones predicted from the k nearest judged outputs."""
        is_judged = np.isfinite(self._judgments)
        if is_judged.sum() < 2:
            return self._judgments
        from sklearn.neighbors import KNeighborsRegressor  # noqa: PLC0415  (slow to import)

        model = KNeighborsRegressor(n_neighbors=min(self._k, int(is_judged.sum())))
        model.fit(features[is_judged], self._judgments[is_judged])
        filled = self._judgments.copy()
        if not is_judged.all():
            filled[~is_judged] = model.predict(features[~is_judged])
        return filled


def _metric_features(evalset: EvalSet, metrics: tuple[str, ...] | None) -> FloatArray:
    """Return standardised metrics (N x M x K); missing ones are 0, the average."""
    chosen = select_metrics(evalset, metrics)
    if not chosen:
        raise DataError(f"{evalset.name}: no usable metric; use variance=human or name one with metrics=")
    return np.stack([np.nan_to_num(standardise(evalset.scores[name])) for name in chosen], axis=2)


def _bin_variances(judgments: FloatArray, codes: IntArray, bins: int) -> tuple[FloatArray, np.ndarray]:
    """Return within-bin variances, averaged over systems with at least two judgments there, and which bins have one."""
    total, systems = np.zeros(bins), np.zeros(bins)
    for column in judgments.T:
        present = np.isfinite(column)
        count = np.bincount(codes[present], minlength=bins)
        mean = np.bincount(codes[present], column[present], minlength=bins) / np.maximum(count, 1)
        squares = np.bincount(codes[present], (column[present] - mean[codes[present]]) ** 2, minlength=bins)
        enough = count > 1
        total[enough] += squares[enough] / (count[enough] - 1)
        systems += enough
    return total / np.maximum(systems, 1), systems > 0


@subset(
    "incremental",
    paper="Saldias et al. 2022, section 2.1",
    advice="The next items to judge, given the judgments so far; for study, it loses to pps.",
)
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
        variance: bin variances from judgments, or from judgments predicted by nearest neighbours in the metrics.
        metrics: the metrics to predict from, joined by |; all usable ones by default.
        k: how many neighbours predict a judgment.
    """
    if bins == "document" and evalset.documents is None:
        bins = "metric" if select_metrics(evalset, metrics) else "id"
    sampler = Incremental(evalset, bins=bins, variance=variance, metrics=metrics, k=k, seed=rng)
    ids = evalset.ids
    scores = evalset.human_score() if evalset.human else np.full((evalset.n_items, evalset.n_systems), np.nan)
    for row in np.flatnonzero(np.isfinite(scores).any(axis=1)):
        ratings = {s: float(v) for s, v in zip(evalset.systems, scores[row], strict=True) if np.isfinite(v)}
        sampler.tell(ids[row], ratings)
    n_unjudged = evalset.n_items - sampler.rated
    if n > n_unjudged:
        raise DataError(f"{evalset.name}: only {n_unjudged} items are not judged yet, {n} are wanted")
    row_of = {item: row for row, item in enumerate(ids)}
    return Subset(np.array([row_of[sampler.next()] for _ in range(n)], dtype=np.int64))


# -- Constrained active sampling (CASF; Ruan et al. 2024) with known probabilities -----------------------------------


_DRAWS_PER_BIN = 4
_RIDGE = 5.0
_MIN_JUDGED = 10


@design(
    "casf",
    needs=("metric",),
    paper="Ruan et al. 2024, with known probabilities",
    advice="Systematic along predicted quality, like texts kept apart; means stay unbiased.",
)
def casf(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    batches: int = 1,
    metrics: tuple[str, ...] | None = None,
    redundancy: str = NGRAMS,
) -> DesignDraw:
    """Systematic samples along predicted quality, in which items of like text exclude each other.

    Human scores are not looked at; `aliquot.sampling.active.Casf` learns from them batch after batch.

    Args:
        batches: draws that add up to the budget.
        metrics: the metrics that predict quality, joined by |; all usable ones by default.
        redundancy: what recognises similar texts: ngrams, a sentence-transformers model, or none.
    """
    sampler = Casf(evalset, n, batches=min(batches, n), metrics=metrics, redundancy=redundancy, seed=rng)
    rows = [sampler.draw_batch() for _ in range(sampler.batches)]
    return DesignDraw(np.concatenate(rows), np.full(evalset.n_items, n / evalset.n_items), design=Design("balanced"))


class Casf:
    """Constrained active sampling: returns a batch of items, takes their human scores, and returns the next.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, seed=1)
    >>> sampler = Casf(data, 20, batches=2, seed=3)
    >>> first = sampler.next()
    >>> sampler.tell({item: data.scores["human"][data.ids.index(item)] for item in first})
    >>> len(first), len(sampler.next()), sampler.selection().probability[0].round(3)
    (10, 10, np.float64(0.333))
    """

    def __init__(
        self,
        evalset: EvalSet,
        budget: int,
        *,
        batches: int = 5,
        metrics: Sequence[str] | None = None,
        redundancy: str = NGRAMS,
        seed: Seed = 0,
    ) -> None:
        if isinstance(budget, bool) or not isinstance(budget, int | np.integer):
            raise OptionError(f"casf: a budget of {budget!r}; give a number of items")
        if not 1 <= batches <= budget:
            raise OptionError(f"casf: batches={batches}; choose between 1 and the budget, {budget}")
        if budget > evalset.n_items:
            raise OptionError(f"casf: a budget of {budget} for {evalset.n_items} items; choose at most all of them")
        self._evalset = evalset
        self._names = select_metrics(evalset, metrics)
        self._prior = fill_missing(item_quality(evalset, metrics), "metric", evalset)
        self._along = _text_coordinates(evalset, redundancy)
        self._rng = np.random.default_rng(seed)
        self._sizes = [len(part) for part in np.array_split(np.arange(budget), batches)]
        self._is_drawn: list[int] = []
        self._batches_drawn = 0
        self._scores = np.full((evalset.n_items, evalset.n_systems), np.nan)
        self.batches = batches

    def next(self) -> list[ItemId]:
        """Return the next batch of items, in random order; empty once the budget is spent."""
        ids = self._evalset.ids
        return [ids[row] for row in self.draw_batch().tolist()]

    def draw_batch(self) -> IntArray:
        """Return the rows of the next batch."""
        if self._batches_drawn == self.batches:
            return np.zeros(0, dtype=np.int64)
        remaining = np.setdiff1d(np.arange(self._evalset.n_items), self._is_drawn)
        n = self._sizes[self._batches_drawn]
        order = quality_order(self.predict_quality()[remaining], self._along[remaining], n, self._rng)
        rows = remaining[systematic_sample(np.full(len(remaining), n / len(remaining)), self._rng, order)]
        self._is_drawn += rows.tolist()
        self._batches_drawn += 1
        return self._rng.permutation(rows)

    def tell(self, scores: Mapping[ItemId, Sequence[float] | FloatArray]) -> None:
        """Record the human scores of items, one number a system (NaN = not judged)."""
        row_of = {item: row for row, item in enumerate(self._evalset.ids)}
        for item, values in scores.items():
            if item not in row_of:
                raise unknown_name("item", item, self._evalset.ids[:50])
            try:
                row_scores = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise DataError(f"item {item!r}: {values!r} is not a number for each system") from None
            if row_scores.shape != (self._evalset.n_systems,):
                raise DataError(
                    f"item {item!r}: {row_scores.shape} scores for {self._evalset.n_systems} systems; one each"
                )
            self._scores[row_of[item]] = row_scores

    def predict_quality(self) -> FloatArray:
        """Return the predicted quality of every item, by ridge regression of the scores so far on mean metrics."""
        means = row_mean(self._scores)
        judged = np.flatnonzero(np.isfinite(means))
        if len(judged) < _MIN_JUDGED:
            return self._prior
        metric_means = [fill_missing(row_mean(self._evalset.scores[name]), name, self._evalset) for name in self._names]
        features = np.column_stack([self._prior, *(standardise(values) for values in metric_means)])
        fit = pooled_ridge(features[judged][:, None, :], means[judged][:, None], np.ones(len(judged)), _RIDGE)
        predicted: FloatArray = features @ fit.slopes
        return predicted

    def selection(self) -> Selection:
        """Return the items drawn so far, with their probabilities."""
        ids = self._evalset.ids
        share = len(self._is_drawn) / self._evalset.n_items
        return Selection(
            ids=tuple(ids[row] for row in self._is_drawn),
            population=self._evalset.n_items,
            method="casf",
            probability=np.full(len(self._is_drawn), share),
            design=Design("balanced"),
        )


def quality_order(quality: FloatArray, along: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return rows ordered by bins of quality (about four draws from each), and by text inside a bin.

    The order inside a bin is a ring that starts anywhere. Were it fixed, a draw of every third item could give three
    samples only, and no interval could be estimated from one of three.

    >>> order = quality_order(np.array([0.9, 0.1, 0.8, 0.2]), np.arange(4.0), 8, np.random.default_rng(1))
    >>> sorted(order[:2].tolist()), sorted(order[2:].tolist())
    ([1, 3], [0, 2])
    """
    bins = max(1, n // _DRAWS_PER_BIN)
    code = rank_bins(quality, bins)
    order = np.lexsort((along, code))
    size = np.bincount(code, minlength=bins)
    first = np.repeat(np.cumsum(size) - size, size)
    offset = np.repeat((rng.random(bins) * size).astype(np.int64), size)
    place = np.arange(len(order)) - first
    return order[np.lexsort(((place + offset) % np.repeat(size, size), code[order]))]


def _text_coordinates(evalset: EvalSet, redundancy: str) -> FloatArray:
    """Return the first principal coordinate of the sources' vectors (N)."""
    if redundancy == "none" or "source" not in evalset.items.columns:
        return np.zeros(evalset.n_items)

    def first_coordinate(data: EvalSet) -> FloatArray:
        return principal_coordinate(embed([text or "" for text in data.items["source"].to_list()], redundancy))

    return evalset.derived(f"casf texts {redundancy}", first_coordinate)


def principal_coordinate(vectors: FloatArray) -> FloatArray:
    """Return the first principal coordinate of the rows.

    Few texts have vectors of tens of thousands of numbers: the eigenvectors are those of the smaller side.

    >>> principal_coordinate(np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 4.0]])).round(2).tolist()
    [-1.0, 1.0]
    """
    centred = vectors - vectors.mean(axis=0)
    n, width = centred.shape
    if width <= n:
        along: FloatArray = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1]
        return along
    values, directions = np.linalg.eigh(centred @ centred.T)
    coordinate: FloatArray = directions[:, -1] * np.sqrt(max(0.0, float(values[-1])))
    return coordinate
