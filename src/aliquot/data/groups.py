"""Groups of items: the values of any item column as integer codes."""

from __future__ import annotations

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.stats.arrays import IntArray
from aliquot.stats.grouping import codes_of


def group_codes(evalset: EvalSet, column: str) -> IntArray:
    """Codes of a column's values in order of first appearance; a missing value is a group of its own.

    >>> import aliquot
    >>> int(group_codes(aliquot.synthetic(items=10, systems=1), "domain").min())
    0
    """
    return codes_of(evalset.column(column).cast(pl.String).fill_null("(none)").to_list())
