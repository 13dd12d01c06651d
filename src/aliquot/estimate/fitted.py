"""What an estimator is and what it gives: values, and contributions from which the design makes the covariance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aliquot.data.parameters import Registered
from aliquot.estimate.sample import Sample
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import pearson


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an estimator found.

    Attributes:
        values: each system's estimated mean over the whole test set.
        z: n x M contributions of the judged items to the error, for the covariance.
        proxy: n x M cross-fitted predictions, or None.
        foreseen: what the proxies alone expect of each system, up to a common shift, or None.
        notes: what a reader should know.
        details: numbers behind it (slopes, power, metrics used).
    """

    values: FloatArray
    z: FloatArray
    proxy: FloatArray | None = None
    foreseen: FloatArray | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimator(Registered):
    """A registered estimator."""

    function: Callable[..., Fitted]

    def run(self, sample: Sample, given: Mapping[str, Any]) -> Fitted:
        """Call it with the user's parameters."""
        return self.function(sample, **self.bound(given))


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
