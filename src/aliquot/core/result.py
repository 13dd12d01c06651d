"""What all results share: plain values for JSON, tables of their rows, and a signature that reproduces them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from aliquot._version import __version__
from aliquot.core.shown import Shown

if TYPE_CHECKING:  # a description of an EvalSet is itself a Result
    from aliquot.core.evalset import EvalSet
    from aliquot.core.statements import Decision, SystemMean
    from aliquot.core.view import View

_DTYPES: Mapping[str, pl.DataType] = MappingProxyType(
    {"str": pl.String(), "int": pl.Int64(), "float": pl.Float64(), "bool": pl.Boolean()}
)


class Result(Shown):
    """Base of the frozen dataclasses that verbs return.

    `to_dict` gives all fields as plain values. A subclass whose JSON document differs from its fields overrides
    `document` only: it leaves fields out, renames them or adds computed ones, and `to_dict` makes the values plain.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Verdict(Result):
    ...     mean: float
    ...     notes: tuple[str, ...]
    ...     draws: object = None
    ...
    ...     def document(self):
    ...         return {"kind": "verdict", **self.fields_without("draws")}
    >>> Verdict(float("nan"), ("few items",)).to_dict()
    {'kind': 'verdict', 'mean': None, 'notes': ['few items']}
    """

    KIND: ClassVar[str] = ""  # of results that one verb returns for several kinds of data

    def document(self) -> Mapping[str, Any]:
        """Return what the JSON document holds, values as they are: by default `KIND`, where set, and every field."""
        return ({"kind": self.KIND} if self.KIND else {}) | self.fields_without()

    def fields_without(self, *names: str) -> dict[str, Any]:
        """Return the fields by name, without those named."""
        return {name: value for name, value in _list_fields(self).items() if name not in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as plain values, the verdict first; undefined and infinite numbers are None."""
        document: dict[str, Any] = to_plain(self.document())
        verdict = self.verdict
        return document if verdict is None else {"verdict": verdict} | document

    def decisions(self) -> Sequence[Decision]:
        """Return what the result decides, for test reports; results that decide something override it."""
        return ()

    def means(self) -> Sequence[SystemMean]:
        """Return the means of systems with their uncertainty; results that estimate any override it."""
        return ()

    def save(
        self,
        path: str | Path | None = None,
        table: str | None = None,
        *,
        document: Mapping[str, Any] | None = None,
        to: str | None = None,
    ) -> None:
        """Write the result by the path's ending or as `to` says; standard output ("-") gets JSON.

        Args:
            path: `.json` holds `to_dict`; `.csv`, `.tsv` and `.parquet` hold `to_frame`; `.md` and `.tex` the tables
                of `views`; `.xml` is JUnit XML of decisions. `to="github"` and `to="mlflow"` do without a path.
            table: which table, where `to_frame` has several; for `.md` and `.tex` the name of a view.
            document: what `.json` holds instead of `to_dict`.
            to: a format by name: json, csv, tsv, parquet, markdown, latex, junit, github (a step summary), mlflow,
                every-eval-ever.
        """
        from aliquot.io.writers import write_result  # noqa: PLC0415  (io is built on results)

        content = self.to_dict() if document is None else document
        write_result(
            path, content, lambda: self._choose_frame(table), lambda: self._shown_views(table), result=self, to=to
        )

    def _choose_frame(self, name: str | None) -> pl.DataFrame:
        return self.to_frame() if name is None else self.to_frame(name)  # type: ignore[call-arg]  # of several tables

    def _shown_views(self, name: str | None) -> list[View]:
        return [view for view in self.views() if (view.name == name if name else not view.detail)]


def _list_fields(row: Any) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


def to_plain(value: Any) -> Any:
    """Return a value as JSON can hold it, however deep: NaN and infinity are None, rows and tables become dicts.

    >>> to_plain({"p": np.float64("nan"), "n": np.arange(2), 3: (1.5, pl.Series(["a"]))})
    {'p': None, 'n': [0, 1], '3': [1.5, ['a']]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Result):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        value = _list_fields(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, pl.DataFrame):
        value = value.to_dicts()
    if isinstance(value, (list, tuple, pl.Series)):
        return [to_plain(inner) for inner in value]
    if isinstance(value, (set, frozenset)):
        return [to_plain(inner) for inner in sorted(value)]
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value)} has no JSON form")


def frame_of(rows: Sequence[Any], row_type: type) -> pl.DataFrame:
    """Return dataclass rows as a table: one column per field, typed even without rows.

    Columns annotated `str`, `int`, `float`, `bool` (or one of them or None) get that type; others that of their values.

    >>> from dataclasses import make_dataclass
    >>> Row = make_dataclass("Row", [("system", "str"), ("mean", "float | None")])
    >>> frame_of([], Row).schema
    Schema([('system', String), ('mean', Float64)])
    """
    columns = []
    for field in fields(row_type):
        annotation = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        dtype = _DTYPES.get(annotation.removesuffix(" | None"))
        columns.append(pl.Series(field.name, [getattr(row, field.name) for row in rows], dtype=dtype))
    return pl.DataFrame(columns)


def make_signature(verb: str, evalset: EvalSet | None = None, **parts: object) -> str:
    """Return e.g. `aliquot:0.3.0|select:metric_var|metric:COMET|seed:7|data:3f9c21`; parts that are None are left out.

    >>> make_signature("plan", delta=1.0, seed=None)
    'aliquot:0.3.0|plan|delta:1.0'
    """
    parts_given = [f"{name}:{value}" for name, value in parts.items() if value is not None]
    data = [] if evalset is None else [f"data:{evalset.fingerprint}"]
    return "|".join([f"aliquot:{__version__}", verb, *parts_given, *data])
