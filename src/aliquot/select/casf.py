"""Constrained active sampling (CASF; Ruan et al. 2024) with known probabilities.

The published method works in batches: a learner predicts quality from automatic metrics, a systematic sampler takes
items along the predicted quality, a controller replaces items that are too much like those taken before, and the human
scores of the batch train the learner for the next. Its chances of choosing an item are unknown.

Ours differs in three ways, and every item has the probability n/N exactly:
- redundancy is controlled by the order, not by replacement: inside a bin of like quality, items of like text stand side
  by side, and a systematic draw whose step is longer than two items never takes neighbours;
- a batch of n_t items is drawn with equal chances from those that are left, whatever the learner says about their
  order; so an item is taken in some batch with probability sum n_t / N, however the orders were learned;
- before any human score is told, the learner is the mean of the standardised metrics (the published one starts with
  scores of systems that were judged on everything).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aliquot.data.evalset import EvalSet, ItemId
from aliquot.data.selection import Selection
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.select.embedding import NGRAMS, embed
from aliquot.select.registry import Drawn, design, row_mean
from aliquot.select.scores import chosen_metrics, filled, item_quality, standardised
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.draws import systematic
from aliquot.stats.regression import pooled_ridge

_PICKS_A_BIN = 4
_RIDGE = 5.0
_ENOUGH = 10


@design("casf", needs=("metric",), paper="Ruan et al. 2024, with known probabilities",
        advice="Systematic along predicted quality, like texts kept apart; means stay unbiased.")  # fmt: skip
def casf(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    batches: int = 1,
    metrics: tuple[str, ...] | None = None,
    redundancy: str = NGRAMS,
) -> Drawn:
    """Systematic samples along predicted quality, in which items of like text exclude each other.

    Human scores are not looked at; `aliquot.select.casf.Casf` learns from them batch after batch.

    Args:
        batches: draws that add up to the budget.
        metrics: the metrics that predict quality, joined by |; all usable ones by default.
        redundancy: what tells like texts: ngrams, a sentence-transformers model, or none.
    """
    sampler = Casf(evalset, n, batches=min(batches, n), metrics=metrics, redundancy=redundancy, seed=rng)
    rows = [sampler.draw() for _ in range(sampler.batches)]
    return Drawn(np.concatenate(rows), np.full(evalset.n_items, n / evalset.n_items), details={"variance": "balanced"})


class Casf:
    """Gives a batch of items, is told their human scores, and gives the next.

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
        self._names = chosen_metrics(evalset, metrics)
        self._prior = filled(item_quality(evalset, metrics), "metric", evalset)
        self._along = _like_texts(evalset, redundancy)
        self._rng = np.random.default_rng(seed)
        self._sizes = [len(part) for part in np.array_split(np.arange(budget), batches)]
        self._taken: list[int] = []
        self._done = 0
        self._scores = np.full((evalset.n_items, evalset.n_systems), np.nan)
        self.batches = batches

    def next(self) -> list[ItemId]:
        """The next batch of items, in random order; empty when the budget is used up."""
        ids = self._evalset.ids
        return [ids[row] for row in self.draw().tolist()]

    def draw(self) -> IntArray:
        """The next batch as rows."""
        if self._done == self.batches:
            return np.zeros(0, dtype=np.int64)
        left = np.setdiff1d(np.arange(self._evalset.n_items), self._taken)
        n = self._sizes[self._done]
        order = quality_order(self.predicted()[left], self._along[left], n, self._rng)
        rows = left[systematic(np.full(len(left), n / len(left)), self._rng, order)]
        self._taken += rows.tolist()
        self._done += 1
        return self._rng.permutation(rows)

    def tell(self, scores: Mapping[ItemId, Sequence[float] | FloatArray]) -> None:
        """Tell the human scores of items, one number a system (NaN = not judged)."""
        row_of = {item: row for row, item in enumerate(self._evalset.ids)}
        for item, values in scores.items():
            if item not in row_of:
                raise unknown_name("item", item, self._evalset.ids[:50])
            try:
                told = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise DataError(f"item {item!r}: {values!r} is not a number for each system") from None
            if told.shape != (self._evalset.n_systems,):
                raise DataError(f"item {item!r}: {told.shape} scores for {self._evalset.n_systems} systems; one each")
            self._scores[row_of[item]] = told

    def predicted(self) -> FloatArray:
        """Predicted quality of every item: a ridge regression of the scores told so far on the metrics' item means."""
        means = row_mean(self._scores)
        judged = np.flatnonzero(np.isfinite(means))
        if len(judged) < _ENOUGH:
            return self._prior
        found = [filled(row_mean(self._evalset.scores[name]), name, self._evalset) for name in self._names]
        features = np.column_stack([self._prior, *(standardised(values) for values in found)])
        fit = pooled_ridge(features[judged][:, None, :], means[judged][:, None], np.ones(len(judged)), _RIDGE)
        predicted: FloatArray = features @ fit.slopes
        return predicted

    def selection(self) -> Selection:
        """What was drawn so far, with its probabilities: those of the batches drawn."""
        ids = self._evalset.ids
        share = len(self._taken) / self._evalset.n_items
        return Selection(
            ids=tuple(ids[row] for row in self._taken), population=self._evalset.n_items, method="casf",
            probability=np.full(len(self._taken), share), details={"variance": "balanced"},
        )  # fmt: skip


def quality_order(quality: FloatArray, along: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Items by bins of quality, from each of which about four are drawn, and by text inside a bin.

    The order inside a bin is a ring that starts anywhere. Were it fixed, a draw of every third item would know three
    samples only, and no interval could tell how far one of three may be off.

    >>> order = quality_order(np.array([0.9, 0.1, 0.8, 0.2]), np.arange(4.0), 8, np.random.default_rng(1))
    >>> sorted(order[:2].tolist()), sorted(order[2:].tolist())
    ([1, 3], [0, 2])
    """
    bins = max(1, n // _PICKS_A_BIN)
    rank = np.empty(len(quality), dtype=np.int64)
    rank[np.argsort(quality, kind="stable")] = np.arange(len(quality))
    code = rank * bins // len(quality)
    order = np.lexsort((along, code))
    size = np.bincount(code, minlength=bins)
    first = np.repeat(np.cumsum(size) - size, size)
    start = np.repeat((rng.random(bins) * size).astype(np.int64), size)
    place = np.arange(len(order)) - first
    return order[np.lexsort(((place + start) % np.repeat(size, size), code[order]))]


def _like_texts(evalset: EvalSet, redundancy: str) -> FloatArray:
    """A number for each item, near for like sources: the first principal coordinate of their vectors."""
    if redundancy == "none" or "source" not in evalset.items.columns:
        return np.zeros(evalset.n_items)

    def first_coordinate(data: EvalSet) -> FloatArray:
        return principal_coordinate(embed([text or "" for text in data.items["source"].to_list()], redundancy))

    return evalset.derived(f"casf texts {redundancy}", first_coordinate)


def principal_coordinate(vectors: FloatArray) -> FloatArray:
    """Where each row lies along the direction in which rows differ most.

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
    found: FloatArray = directions[:, -1] * np.sqrt(max(0.0, float(values[-1])))
    return found
