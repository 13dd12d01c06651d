"""Mixed model of judged cells with incremental updates.

y_is = mu_s + x_is'b + u_i + e_is with ridge on b, as in mixed_model, for decisions during a campaign. An item's
contribution to the normal equations depends on that item alone: V_i^-1 = (I - rho_i 11') / s2. A judgment replaces one
item's contribution and costs one (M + K) x (M + K) solve. The share of the item effect needs a pass over all cells,
made whenever their number has grown by a tenth. Invariant: after any sequence of `put`, the equations equal those built
from the table at once, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray, is_negligible
from aliquot.stats.mixed_model import item_share

RIDGE = 20.0
"""Prior weight of slopes of 0, in cells; features have unit variance."""
_INITIAL_SHARE = 0.3  # initial share of the item effect
_REFRESH_GROWTH = 1.1
_MIN_RIDGE = 1e-9
_UPDATE_COST = 400_000  # multiplications that cost as much as replacing an item's contribution


@dataclass(frozen=True, eq=False)
class CellFit:
    """Current estimates: each system's mean over all items, its number of cells, and the variance of one cell."""

    values: FloatArray
    counts: IntArray
    noise: float
    slopes: FloatArray

    def variance(self, counts: FloatArray, population: int) -> FloatArray:
        """Return variances of the means with `counts` cells, with finite population correction."""
        variance: FloatArray = self.noise * np.maximum(1.0 - counts / population, 0.0) / np.maximum(counts, 0.5)
        return variance


class CellModel:
    """Mixed model that takes cells by `put` and gives the estimates by `fit`.

    Args:
        features: N x M x K metric scores of every output, none missing; K may be 0.
        weight: Weights of items, for unequal probabilities; 1 on average.
        ridge: Prior weight of slopes of 0, in cells.
        item_effects: Whether items have an effect; without it, and without features, the means are plain.

    >>> model = CellModel(np.zeros((10, 2, 0)))
    >>> for item in range(6):
    ...     model.set_score(item, 0, 1.0 + item)
    ...     model.set_score(item, 1, 3.0 + item)
    >>> model.fit().values.round(6).tolist()
    [3.5, 5.5]
    """

    def __init__(
        self, features: FloatArray, weight: FloatArray | None = None, *, ridge: float = RIDGE, item_effects: bool = True
    ) -> None:
        centred = features - features.mean(axis=0, keepdims=True)  # so that a system's mean over all items is mu_s
        spread = centred.std(axis=(0, 1)) if features.size else np.zeros(0)
        varies = ~is_negligible(spread, np.abs(features).max(axis=(0, 1), initial=0.0))
        self.features: FloatArray = centred[:, :, varies] / spread[varies]
        n, m, k = self.features.shape
        self.weight = np.ones(n) if weight is None else weight
        self.scores = np.full((n, m), np.nan)
        self.counts = np.zeros(m, dtype=np.int64)
        self._ridge, self._item_effects = ridge, item_effects
        self._ratio = _INITIAL_SHARE / (1.0 - _INITIAL_SHARE) if item_effects else 0.0
        self._matrix, self._right = np.zeros((m + k, m + k)), np.zeros(m + k)
        self._noise, self._cells, self._passed = np.nan, 0, 0
        self._changed: dict[int, FloatArray] = {}  # changed rows, with their scores at the last update

    def set_score(self, row: int, system: int, value: float) -> None:
        """Set the score of a cell, replacing an earlier one."""
        if row not in self._changed:
            self._changed[row] = self.scores[row].copy()
        self.counts[system] += not np.isfinite(self.scores[row, system])
        self.scores[row, system] = value
        self._cells = int(self.counts.sum())
        if self._cells >= max(_REFRESH_GROWTH * self._passed, self._passed + 1):
            # Here and not in `fit`, so that estimates depend on the cells only and not on when they are requested.
            self._update()
            self._refresh_variances()
            self._passed = self._cells

    def _update(self) -> None:
        """Update the normal equations: the contributions of changed items or, if there are many, all."""
        if len(self._changed) * _UPDATE_COST > self._cells * len(self._matrix) ** 2:
            self._rebuild_equations()
        else:
            for row, before in self._changed.items():
                self._add_item(row, before, -1.0)
                self._add_item(row, self.scores[row], 1.0)
        self._changed.clear()

    def fit(self) -> CellFit:
        """Return the estimates of the systems' means and the slopes."""
        self._update()
        means, slopes = self._solve()
        is_complete = self.counts == len(self.scores)
        if is_complete.any():
            means[is_complete] = self.scores[:, is_complete].mean(axis=0)
        values = np.where(self.counts > 0, means, np.nan)
        return CellFit(values, self.counts.copy(), self._noise, slopes)

    def _solve(self) -> tuple[FloatArray, FloatArray]:
        m = len(self.counts)
        matrix = self._matrix.copy()
        diagonal = np.arange(len(matrix))
        matrix[diagonal, diagonal] += np.where(diagonal < m, _MIN_RIDGE, self._ridge)
        solution = np.linalg.solve(matrix, self._right)
        return solution[:m], solution[m:]

    def _add_item(self, row: int, scores: FloatArray, sign: float) -> None:
        """Add (or subtract) an item's contribution to the normal equations."""
        judged = np.flatnonzero(np.isfinite(scores))
        if not len(judged):
            return
        m, y, x = len(self.counts), scores[judged], self.features[row, judged]
        rho = self._ratio / (1.0 + len(judged) * self._ratio)
        w, total, x_sum = sign * self.weight[row], float(y.sum()), x.sum(axis=0)
        self._matrix[np.ix_(judged, judged)] += w * (np.eye(len(judged)) - rho)
        cross = w * (x - rho * x_sum)
        self._matrix[judged, m:] += cross
        self._matrix[m:, judged] += cross.T
        self._matrix[m:, m:] += w * (x.T @ x - rho * np.outer(x_sum, x_sum))
        self._right[judged] += w * (y - rho * total)
        self._right[m:] += w * (x.T @ y - rho * total * x_sum)

    def _rebuild_equations(self) -> None:
        """Build the normal equations from the whole table."""
        m = len(self.counts)
        present = np.isfinite(self.scores)
        rows = np.flatnonzero(present.any(axis=1))
        d = present[rows].astype(np.float64)
        x, y = self.features[rows] * d[:, :, None], np.where(present[rows], self.scores[rows], 0.0)
        w = self.weight[rows]
        rho = w * self._ratio / (1.0 + d.sum(axis=1) * self._ratio)
        x_sum, total, wd = x.sum(axis=1), y.sum(axis=1), d * w[:, None]
        shape = (len(rows) * m, x.shape[2])
        flat, weighted = x.reshape(shape), (x * w[:, None, None]).reshape(shape)
        self._matrix[:m, :m] = np.diag(wd.sum(axis=0)) - (d * rho[:, None]).T @ d
        self._matrix[:m, m:] = (x * w[:, None, None]).sum(axis=0) - (d * rho[:, None]).T @ x_sum
        self._matrix[m:, :m] = self._matrix[:m, m:].T
        self._matrix[m:, m:] = weighted.T @ flat - (x_sum * rho[:, None]).T @ x_sum
        self._right[:m] = (y * w[:, None]).sum(axis=0) - (d * rho[:, None]).T @ total
        self._right[m:] = weighted.T @ y.ravel() - x_sum.T @ (rho * total)

    def _refresh_variances(self) -> None:
        """Estimate the share of the item effect and the variance of a cell from all cells."""
        means, slopes = self._solve()
        rows = np.flatnonzero(np.isfinite(self.scores).any(axis=1))
        if not len(rows):
            return
        residual = self.scores[rows] - means - self.features[rows] @ slopes
        share = min(item_share(residual, self.weight[rows]), 0.95) if self._item_effects else 0.0
        self._ratio = share / (1.0 - share)
        self._rebuild_equations()
        present = np.isfinite(residual)
        filled = np.where(present, residual, 0.0)
        effect = filled.sum(axis=1) * self._ratio / (1.0 + present.sum(axis=1) * self._ratio)
        errors = np.where(present, filled - effect[:, None], 0.0) * self.weight[rows][:, None]
        cells = float(present.sum())
        # An item effect uses 1 - 1 / (1 + m ratio) degrees of freedom of its m cells (trace of the residual operator).
        used = (1.0 - 1.0 / (1.0 + present.sum(axis=1) * self._ratio)).sum()
        free = cells - used - present.any(axis=0).sum() - min(len(slopes), 0.3 * cells)
        self._noise = float((errors**2).sum() / max(free, 1.0))
