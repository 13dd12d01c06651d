"""Against subset2evaluate 1.0.27 on real data: the same utilities item by item, and a knapsack that is never worse.

Install it without its dependencies (`pip install --no-deps subset2evaluate==1.0.27`): it imports only numpy when it is
loaded. The references among the systems (refA, synthetic_ref) are left out, as in the published results.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from tests.real.conftest import load_real

from aliquot import EvalSet
from aliquot.compat import select_subset
from aliquot.io.formats import items as item_lines
from aliquot.sampling.select import select

DATA = Path(__file__).parents[3] / "shared" / "data" / "wmt23-en-de.jsonl.gz"
METRICS = ("MetricX-23", "COMET", "BLEURT-20", "GEMBA-MQM", "chrF", "eBLEU")

if not DATA.exists():
    pytest.skip(f"{DATA} is not there", allow_module_level=True)
peer = pytest.importorskip("subset2evaluate", reason="pip install --no-deps subset2evaluate==1.0.27")

METHODS = peer.methods.METHODS


@cache
def machines() -> EvalSet:
    return load_real("wmt23-en-de").drop(systems=["refA", "synthetic_ref"])


@cache
def sample(step: int = 1) -> tuple[EvalSet, list[dict[str, Any]]]:
    """Every `step`-th item, as ours and as theirs."""
    data = machines().keep(items=machines().ids[::step])
    return data, list(item_lines.iterate_records(data))


def utilities(data: EvalSet, method: str, **given: Any) -> np.ndarray:
    selection = select(data, method, **given)
    assert selection.utility is not None
    of = dict(zip(selection.ids, selection.utility.tolist(), strict=True))
    return np.array([of[item] for item in data.ids])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons"])
def test_metric_utilities_are_equal(method, metric):
    data, items = sample()
    theirs = np.array(METHODS[method](items, metric=metric))
    assert len(theirs) == 557
    assert utilities(data, method, metric=metric) == pytest.approx(theirs, abs=1e-9, rel=0)


def test_unigram_diversity_is_equal():
    data, items = sample()
    theirs = np.array(METHODS["diversity"](items, metric="unigram"))
    assert utilities(data, "diversity:similarity=unigram") == pytest.approx(theirs, abs=1e-9, rel=0)


@pytest.mark.parametrize(
    ("similarity", "step", "metric"),
    [("bleu", 12, sacrebleu.BLEU(effective_order=True)), ("chrf", 30, sacrebleu.CHRF())],
)
def test_diversity_is_equal_but_for_the_pairs_of_a_text_with_itself(similarity, step, metric):
    """Theirs averages all m * m ordered pairs: m^2 theirs = m (m - 1) ours - sum of each text against itself.

    A text against itself scores 100 unless it is empty, so that theirs = (m - 1) / m ours - 100 / m, the same order.
    A sample of the items, because all of them take minutes in subset2evaluate.
    """
    data, items = sample(step)
    theirs = np.array(METHODS["diversity"](items, metric=similarity))
    ours = utilities(data, "diversity", similarity=similarity)
    m = data.n_systems
    itself = np.array([sum(metric.sentence_score(t, [t]).score for t in item["tgt"].values()) for item in items])
    assert m**2 * theirs == pytest.approx(m * (m - 1) * ours - itself, abs=1e-9 * m**2, rel=0)
    full = itself > 100 * m - 1e-6
    assert full.mean() > 0.9
    assert theirs[full] == pytest.approx((m - 1) / m * ours[full] - 100 / m, abs=1e-9, rel=0)


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons"])
def test_the_call_shape_gives_the_same_list(method):
    _, items = sample()
    ours = select_subset.basic(items, method=method, metric="MetricX-23")
    theirs = peer.select_subset.basic([dict(item) for item in items], method=method, metric="MetricX-23")
    assert [item["i"] for item in ours] == [item["i"] for item in theirs]


def test_combinator_is_equal():
    _, items = sample()
    parts = [{"method": "metric_avg", "metric": "COMET"}, {"method": "metric_var", "metric": "chrF"}]
    methods = list(zip((0.7, 0.3), parts, strict=True))
    theirs = {item["i"]: value for item, value in zip(items, METHODS["combinator"](items, methods), strict=True)}
    ours = {
        item["i"]: item["subset2evaluate_utility"] for item in select_subset.basic(items, "combinator", methods=methods)
    }
    assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("method", ["metric_avg", "metric_cons"])
def test_the_knapsack_is_never_worse(method, share):
    """The same utilities, costs and budget: ours is worth at least as much, and within the budget."""
    _, items = sample()
    priced = [{**item, "cost": 0.15 * len(item["src"].split()) + 33.7} for item in items]
    ordered = select_subset.basic(priced, method=method, metric="MetricX-23")
    budget = share * sum(item["cost"] for item in priced)
    utility = np.array([item["subset2evaluate_utility"] for item in ordered])
    worth = dict(zip((item["i"] for item in ordered), (utility - utility.min()) / np.ptp(utility) + 0.2, strict=True))
    ours, theirs = (choose.costaware(ordered, budget=budget) for choose in (select_subset, peer.select_subset))
    assert sum(item["cost"] for item in ours) <= budget * (1 + 1e-9)
    assert sum(worth[item["i"]] for item in ours) >= sum(worth[item["i"]] for item in theirs) - 1e-9
