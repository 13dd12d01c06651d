"""Groups of items: the values of any item column as integer codes."""

from __future__ import annotations

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.stats.arrays import IntArray


def group_codes(evalset: EvalSet, column: str) -> IntArray:
    """Codes of a column's values in order of first appearance; a missing value is a group of its own.

    >>> import aliquot
    >>> int(group_codes(aliquot.synthetic(items=10, systems=1), "domain").min())
    0
    """
    return series_codes(evalset.column(column).cast(pl.String).fill_null("(none)"))


def series_codes(values: pl.Series) -> IntArray:
    """Codes of the values in order of first appearance, without a Python object for each.

    >>> series_codes(pl.Series(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    table = values.alias("value").to_frame()
    known = table.unique(maintain_order=True).with_row_index("code")
    codes = table.join(known, on="value", how="left", nulls_equal=True, maintain_order="left")["code"]
    return codes.cast(pl.Int64).to_numpy()
