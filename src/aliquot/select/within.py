"""Two stages: sources are chosen, outputs are made for those, and among them the items to judge are chosen.

An item's chance of being judged is the product of its chances in both stages: pi_i = pi1_i x pi2_i, where pi2 may
depend on what the first stage chose and on the outputs made for it. With 1/pi_i as weights estimates are unbiased for
the full pool.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import replace

import numpy as np

from aliquot.data.evalset import EvalSet
from aliquot.data.selection import Selection
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.stats.arrays import FloatArray

KEY = "within"
_WHOLE_DOCUMENTS = "clustered"


def chosen_before(data: EvalSet, first: Selection) -> EvalSet:
    """Keep what the first selection chose; all of it must be there."""
    known = set(data.ids)
    missing = [item for item in first.ids if item not in known]
    if missing:
        raise DataError(
            f"{data.name}: {len(missing)} items of the first selection are not in the data, e.g. {missing[0]!r}; "
            "give the data with the outputs of all items it chose"
        )
    if first.systems is not None:
        raise OptionError(
            "the first selection draws for each system apart (non-matching); a second cannot be within it"
        )
    return data.keep(items=list(first.ids))


def multiplied(second: Selection, first: Selection, signature: str) -> Selection:
    """The second selection as one of the full pool: chances multiplied, the population that of the first.

    >>> first = Selection(ids=(1, 2, 3), population=10, method="segments", probability=np.full(3, 0.3))
    >>> second = Selection(ids=(3, 1), population=3, method="segments", probability=np.full(2, 2 / 3))
    >>> both = multiplied(second, first, "")
    >>> both.population, both.probability.round(3).tolist()
    (10, [0.2, 0.2])
    """
    probability: FloatArray | None = None
    weight = second.weight
    if second.probability is not None and first.probability is not None:
        before = dict(zip(first.ids, first.probability.tolist(), strict=True))
        probability = second.probability * np.array([before[item] for item in second.ids])
        weight = None  # follows from the probabilities
    elif second.probability is not None:
        warnings.warn(
            f"the first selection ({first.method}) has no probabilities: estimates are about the items it chose, not "
            "about the full pool; choose it by a design to keep them unbiased", AliquotWarning, 3,
        )  # fmt: skip
        return replace(second, details=dict(second.details) | _details(second, first), signature=signature)
    return replace(
        second, population=first.population, probability=probability, weight=weight, signature=signature,
        details=dict(second.details) | _details(second, first),
    )  # fmt: skip


def _details(second: Selection, first: Selection) -> dict[str, object]:
    """How the first stage chose. What the second gained by its order says nothing about the first: a plain variance.

    Whole documents in either stage make the items of a document hang together in the judged sample.
    """
    details: dict[str, object] = {KEY: first.method, "first_stage": len(first)}
    if second.probability is None or first.probability is None:
        return details
    whole = _WHOLE_DOCUMENTS in (first.details.get("variance"), second.details.get("variance"))
    details["variance"] = _WHOLE_DOCUMENTS if whole else "unordered"
    reached = float(first.details.get("coverage", 1.0)) * float(second.details.get("coverage", 1.0))
    return details | ({"coverage": reached} if reached < 1 else {})


def named(first: Selection | None) -> str | None:
    """Name a first selection in a signature: its method and a digest of what it chose."""
    if first is None:
        return None
    digest = hashlib.sha256(str(first.to_dict()["items"]).encode()).hexdigest()[:6]
    return f"{first.method}#{digest}"
