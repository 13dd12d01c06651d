"""What every result offers a reader: a verdict in words, a table for notebooks, a figure, Polars and pandas tables.

Words, colours and drawings live in the room `report`, which stands above all rooms that make results and imports them.
Results must not import it: that would turn the one way of imports into a circle, and every verb would load all others.
So this file, and no other, names modules of `report` as strings and imports them when a reader asks to see something.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aliquot.errors import MissingExtraError

if TYPE_CHECKING:
    import polars as pl

    from aliquot.core.view import View

VERDICTS = "aliquot.report.verdicts"
NOTEBOOK = "aliquot.report.notebook"


class _Verdict:
    """A property that a subclass may replace by a field of its own name, which an ordinary property refuses."""

    def __get__(self, result: Any, kind: type) -> str | None:
        if result is None:
            raise AttributeError("verdict")  # so that it is no default of such a field
        verdict: str | None = import_module(VERDICTS).write_verdict(result)
        return verdict


class Shown:
    """Base of what verbs return: anything with `to_frame` that can be read, drawn and taken on to pandas."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def verdict(self) -> str | None:
            """What the result says, in one or two sentences; None where there is nothing to decide."""

        def to_frame(self) -> pl.DataFrame:
            """Return the result as one table."""

    else:
        verdict = _Verdict()

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Draw the result and return the matplotlib figure; `kind` chooses among several pictures."""
        return import_module(NOTEBOOK).draw_result(self, kind, **options)

    def views(self) -> Sequence[View]:
        """Return what the result shows: named tables, the first one the most important."""
        from aliquot.core.view import View  # noqa: PLC0415  (needed only where results are shown)

        return (View.of_frame(type(self).__name__.lower(), self.to_frame()),)

    def to_pandas(self, *table: str) -> Any:
        """Return `to_frame` as a pandas table; needs pandas, which aliquot does not install."""
        return in_pandas(self.to_frame(*table))

    def _repr_html_(self) -> str:
        """Return what notebooks show: the verdict, a compact table with intervals drawn, notes, the signature."""
        html: str = import_module(NOTEBOOK).render_html(self)
        return html


def in_pandas(frame: pl.DataFrame) -> Any:
    """Make a pandas table of a Polars one, without pyarrow: lists stay lists, missing values become NaN or None."""
    try:
        import pandas as pd  # noqa: PLC0415  (the user's own)
    except ImportError:
        raise MissingExtraError("to_pandas needs pandas; install it with: pip install pandas") from None
    return pd.DataFrame({name: _list_values(frame[name]) for name in frame.columns}, columns=frame.columns)


def _list_values(column: pl.Series) -> Any:
    if column.dtype.is_numeric() or (column.dtype.is_temporal() and not column.null_count()):
        return column.to_numpy()
    return column.to_list()
