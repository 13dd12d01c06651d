"""Metric-guided choice among random draws: often closer to the full ranking, but without known probabilities."""

from __future__ import annotations

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.spec import parse_spec, unwrapped
from aliquot.errors import OptionError
from aliquot.select.registry import Drawn, design, lookup
from aliquot.select.scores import metric_scores
from aliquot.stats.pairwise import analytic_p, spa


@design("guided", needs=("metric", "systems"), paper="Knowles and Lo 2023, section 5",
        advice="The best of several draws by a metric; labelled as without probabilities.")  # fmt: skip
def guided(
    evalset: EvalSet,
    *,
    n: int,
    rng: np.random.Generator,
    by: str = "segments",
    draws: int = 100,
    metric: str | None = None,
) -> Drawn:
    """The one of several draws of a design whose metric ranking agrees best with the full set's.

    Args:
        by: the design to draw from, in parentheses if it has parameters.
        draws: how many draws to compare.
        metric: the score whose ranking is compared, by soft pairwise accuracy.
    """
    if draws < 1:
        raise OptionError(f"guided: draws={draws}; choose at least 1")
    spec = parse_spec(unwrapped(by))
    base, implied = lookup(spec.name)
    if base.kind != "design" or base.name == "guided":
        raise OptionError(f"guided: by='{by}' is not a design; choose e.g. segments or snippets_budgeted")
    values = metric_scores(evalset, metric)
    values = values[:, np.isfinite(values).any(axis=0)]
    full = analytic_p(values)
    best, best_accuracy = None, -1.0
    for _ in range(draws):
        drawn: Drawn = base.run(evalset, implied | dict(spec.parameters), n=n, rng=rng)
        accuracy = spa(analytic_p(values[drawn.rows]), full)
        if accuracy > best_accuracy:
            best, best_accuracy = drawn, accuracy
    assert best is not None  # noqa: S101  (draws >= 1)
    return Drawn(best.rows, None, best.stratum, {"draws": draws, "metric_spa": float(best_accuracy)})
