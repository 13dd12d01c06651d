"""EvalSet: items, systems, outputs, scores and judgments of one evaluation, immutable and validated.

Invariants: item ids are unique; every score is an N x M float64 array, read-only, finite or NaN (missing), higher is
better; outputs, where present, have one text column a system; every judgment is on a known item and system.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from aliquot.core.columns import (
    freeze_scores,
    tables_equal,
    validate_items,
    validate_judgments,
    validate_names,
    validate_outputs,
)
from aliquot.core.conventions import is_human_name
from aliquot.core.judgments import MARKED, Judgments
from aliquot.core.shown import Shown
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, encode_labels

if TYPE_CHECKING:
    from aliquot.core.describe import Description
    from aliquot.core.view import View
    from aliquot.io.formats.table_files import Table
    from aliquot.io.formats.tables import Wide

Derived = TypeVar("Derived")
ItemId = int | str
ItemChoice = Sequence[ItemId] | BoolArray | pl.Expr


@dataclass(frozen=True, eq=False, repr=False)
class EvalSet(Shown):
    """One evaluation: items, systems, outputs, scores and judgments.

    Attributes:
        items: a Polars table with the column `id` and, where known, source, reference, document, position, domain, cost
            and any other column that came with the data.
        systems: the names of the systems, the order of all columns below.
        scores: name -> N x M array; NaN is missing; higher is better.
        outputs: a Polars table with one text column a system, or None.
        judgments: the single answers of annotators, or None.
        human: the name of the score that people gave, where one is known.
        flipped: the scores that were lower-is-better where they came from.
        name: where the data came from, for tables and messages.
        averaged: the scores that `aggregate` made of these judgments -> the criterion averaged, None for all. Scores
            that came with a file are not listed, even if they are means of its judgments.
        usage: name -> N x M array of what an output took and not how good it is: cost, seconds, tokens.
        joined: the scores that came from a file or table of their own; `metrics` compares them with the others first.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=20, systems=3, seed=1)
    >>> data.scores["human"].shape
    (20, 3)
    >>> data.keep(systems=["sys1", "sys2"]).systems
    ('sys1', 'sys2')
    """

    items: pl.DataFrame
    systems: tuple[str, ...]
    scores: Mapping[str, FloatArray] = field(default_factory=dict)
    outputs: pl.DataFrame | None = None
    judgments: Judgments | None = None
    human: str | None = None
    flipped: frozenset[str] = frozenset()
    name: str = "data"
    averaged: Mapping[str, str | None] = field(default_factory=dict)
    usage: Mapping[str, FloatArray] = field(default_factory=dict)
    joined: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the one place where a frozen instance is filled
        set_field(self, "systems", tuple(str(system) for system in self.systems))
        set_field(self, "items", validate_items(self.items))
        validate_names(self.systems, "system")
        validate_names([str(name) for name in self.scores], "score")
        shape = (self.items.height, len(self.systems))
        scores = {str(name): freeze_scores(name, values, shape) for name, values in self.scores.items()}
        set_field(self, "scores", MappingProxyType(scores))
        usage = {str(name): freeze_scores(name, values, shape) for name, values in self.usage.items()}
        set_field(self, "usage", MappingProxyType(usage))
        set_field(self, "outputs", validate_outputs(self.outputs, self.systems, shape[0]))
        set_field(self, "judgments", validate_judgments(self.judgments, self.items["id"], self.cell_index))
        set_field(self, "flipped", frozenset(self.flipped) & scores.keys())
        averaged = {name: criterion for name, criterion in self.averaged.items() if name in scores}
        set_field(self, "averaged", MappingProxyType(averaged))
        set_field(self, "joined", tuple(name for name in self.joined if name in scores))
        if self.human is not None and self.human not in scores:
            raise unknown_name("score", self.human, scores, "name the human score with `human`")

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        columns: Mapping[str, str] | None = None,
        wide: Wide | None = None,
        human: str | None = None,
        lower_is_better: Sequence[str] = (),
        score_name: str | None = None,
        name: str = "data",
    ) -> EvalSet:
        """Return a Polars or pandas table of scores or judgments as a set; the options are those of `aliquot.load`.

        >>> EvalSet.from_frame(pl.DataFrame({"segment_id": [1, 1], "model": ["A", "B"], "score": [0.5, 0.25]})).systems
        ('A', 'B')
        """
        from aliquot.io.load import load  # noqa: PLC0415  (reading is built on this class)

        read = load(
            frame, human=human, columns=columns, wide=wide, lower_is_better=lower_is_better, score_name=score_name
        )
        return replace(read, name=name)

    # -- sizes and names -------------------------------------------------------------------------------------------

    @property
    def n_items(self) -> int:
        """The number of items, N."""
        return self.items.height

    @property
    def n_systems(self) -> int:
        """The number of systems, M."""
        return len(self.systems)

    @property
    def ids(self) -> list[ItemId]:
        """The item ids in order."""
        return self.items["id"].to_list()

    @property
    def metrics(self) -> list[str]:
        """The automatic scores: all but `human` and those with the name of a human score."""
        return [name for name in self.scores if name != self.human and not is_human_name(name)]

    @property
    def has_sources(self) -> bool:
        """Whether the items' sources, or what was measured of them, are known."""
        return "source" in self.items.columns

    def score(self, name: str) -> FloatArray:
        """Return a score, items x systems; raise NameUnknownError if there is none of that name.

        >>> import aliquot
        >>> aliquot.synthetic(items=5, systems=2).score("comet")
        Traceback (most recent call last):
            ...
        aliquot.errors.NameUnknownError: unknown score 'comet'. Available: 'human', 'metricA', 'metricB', 'metricC'
        """
        if name not in self.scores:
            raise unknown_name("score", name, self.scores)
        return self.scores[name]

    def human_score(self, name: str | None = None) -> FloatArray:
        """Return a human score, items x systems; by default the one named by `human`."""
        name = name or self.human
        if name is None:
            raise unknown_name("score", "human", self.scores, self._ask_for_human())
        return self.score(name)

    def _ask_for_human(self) -> str:
        """Return what to do where no score is known to be people's."""
        if not self.scores:
            return "let people judge (`aliquot collect`), or join their scores with `scores`"
        return f"name the human score with `human`, e.g. `human={shlex.quote(next(iter(self.scores)))}`"

    def column(self, name: str) -> pl.Series:
        """Return a column of the items table; raise NameUnknownError if there is none of that name."""
        if name not in self.items.columns:
            raise unknown_name("item column", name, self.items.columns)
        return self.items[name]

    @cached_property
    def documents(self) -> IntArray | None:
        """Integer codes of the items' documents in order of first appearance; items without one stand alone."""
        if "document" not in self.items.columns or self.items["document"].null_count() == self.n_items:
            return None
        named = self.items["document"].to_numpy()
        labels = [value if value is not None else ("alone", index) for index, value in enumerate(named)]
        return encode_labels(labels)

    def derived(self, key: str, make: Callable[[EvalSet], Derived]) -> Derived:
        """Return a value computed from this set, from a cache after the first call. Arrays become read-only."""
        if key not in self._derived:
            value = make(self)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            self._derived[key] = value
        cached: Derived = self._derived[key]
        return cached

    @cached_property
    def _derived(self) -> dict[str, Any]:
        return {}

    # -- new sets out of this one ----------------------------------------------------------------------------------

    def keep(self, items: ItemChoice | None = None, systems: Sequence[str] | None = None) -> EvalSet:
        """Keep only these items (ids, a boolean mask, or a Polars expression on `items`) and systems.

        The order of the set is kept, whatever the order asked for.
        """
        subset = self
        if items is not None:
            subset = take_rows(subset, np.flatnonzero(self._item_mask(items)))
        if systems is not None:
            names = set(self._known_systems(systems))
            subset = take_systems(subset, [system for system in subset.systems if system in names])
        return subset

    def drop(self, items: ItemChoice | None = None, systems: Sequence[str] | None = None) -> EvalSet:
        """Drop these items and systems; the opposite of `keep`."""
        subset = self
        if items is not None:
            subset = take_rows(subset, np.flatnonzero(~self._item_mask(items)))
        if systems is not None:
            names = set(self._known_systems(systems))
            subset = take_systems(subset, [system for system in subset.systems if system not in names])
        return subset

    def complete(self, human: str | None = None) -> EvalSet:
        """Keep only the items that have this human score for all systems."""
        judged: BoolArray = np.isfinite(self.human_score(human))
        return take_rows(self, np.flatnonzero(judged.all(axis=1)))

    def rename(self, systems: Mapping[str, str] | None = None, scores: Mapping[str, str] | None = None) -> EvalSet:
        """Rename systems and scores: old name -> new name."""
        systems, scores = dict(systems or {}), dict(scores or {})
        self._known_systems(systems)
        for old in scores:
            self.score(old)
        new_systems = tuple(systems.get(system, system) for system in self.systems)
        validate_names(new_systems, "system")
        validate_names([scores.get(name, name) for name in self.scores], "score")
        judgments = self.judgments
        if judgments is not None and systems:
            judgments = Judgments(judgments.table.with_columns(pl.col("system").replace(systems)))
        return replace(
            self,
            systems=new_systems,
            scores={scores.get(name, name): values for name, values in self.scores.items()},
            outputs=None if self.outputs is None else self.outputs.rename(systems, strict=False),
            judgments=judgments,
            human=scores.get(self.human, self.human) if self.human else None,
            flipped=frozenset(scores.get(name, name) for name in self.flipped),
            averaged={scores.get(name, name): criterion for name, criterion in self.averaged.items()},
            joined=tuple(scores.get(name, name) for name in self.joined),
        )

    def with_score(self, name: str, values: FloatArray | Table, *, lower_is_better: bool = False) -> EvalSet:
        """Add or replace a score; a lower-is-better one is negated and remembered.

        Args:
            name: the score.
            values: items x systems, or a Polars or pandas table with a row per item and system, or per item with a
                column per system. A table is joined by id and system; a note counts what does not fit.
            lower_is_better: whether to negate the values.

        >>> import aliquot
        >>> data = aliquot.synthetic(items=3, systems=2, seed=1)
        >>> table = pl.DataFrame({"item": [2, 0], "sys1": [0.5, 0.25], "sys2": [0.75, 1.0]})
        >>> data.with_score("mine", table).scores["mine"].tolist()
        [[0.25, 1.0], [nan, nan], [0.5, 0.75]]
        """
        joined = self.joined
        if not isinstance(values, np.ndarray) and hasattr(values, "columns"):
            from aliquot.io.load import read_score_table  # noqa: PLC0415  (reading is built on this class)

            values, joined = read_score_table(self, name, values), tuple(dict.fromkeys([*joined, name]))
        values = -np.asarray(values, dtype=np.float64) if lower_is_better else values
        flipped = self.flipped | {name} if lower_is_better else self.flipped - {name}
        validate_names([str(name)], "score")
        frozen = freeze_scores(name, values, (self.n_items, self.n_systems))
        averaged = {old: criterion for old, criterion in self.averaged.items() if old != name}
        return _replace_unchecked(
            self,
            scores=MappingProxyType({**self.scores, str(name): frozen}),
            flipped=frozenset(flipped),
            averaged=MappingProxyType(averaged),
            joined=joined,
        )

    def with_human(self, name: str | None) -> EvalSet:
        """Name the human score."""
        return replace(self, human=name)

    def aggregate(self, how: str = "mean", *, criterion: str | None = None, name: str | None = None) -> EvalSet:
        """Turn judgments into a score: the mean of each cell's answers (over criteria, unless one is named).

        The score is called `name`, by default `human`, or `human_<criterion>`; without a human score it becomes it.
        """
        if self.judgments is None:
            raise DataError(f"{self.name}: there are no judgments to aggregate; load a judgments table")
        if how != "mean":
            raise unknown_name("aggregation", how, ["mean"])
        name = name or ("human" if criterion is None else f"human_{criterion}")
        cells = self.judgments.cell_means(criterion)
        rows, columns = self.cell_index(cells["item"], cells["system"])
        values = np.full((self.n_items, self.n_systems), np.nan)
        values[rows, columns] = cells["value"].to_numpy()
        added = self.with_score(name, values)
        added = _replace_unchecked(added, averaged=MappingProxyType({**added.averaged, name: criterion}))
        return added if added.human else added.with_human(name)

    # -- looking at it ---------------------------------------------------------------------------------------------

    def describe(self, human: str | None = None) -> Description:
        """Return counts, coverage, ranges and correlations, and which steps are possible."""
        from aliquot.core.describe import describe  # noqa: PLC0415  (describe is built on this class)

        return describe(self, human)

    def views(self) -> Sequence[View]:
        """Return the view `scores`, or `items` where there are no scores."""
        from aliquot.core.describe_views import evalset_views  # noqa: PLC0415  (needed only where sets are shown)

        return evalset_views(self)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per item and system: item, system, output (where there are texts) and every score.

        A score that bears the name of one of those columns is called `score:NAME` here.
        """
        n, m = self.n_items, self.n_systems
        columns = [
            self.items["id"].gather(np.repeat(np.arange(n), m)).alias("item"),
            pl.Series("system", list(self.systems) * n, dtype=pl.String),
        ]
        if self.outputs is not None:
            stacked = pl.concat([self.outputs[system].alias("output") for system in self.systems])
            columns.append(stacked.gather(np.arange(n * m).reshape(m, n).T.ravel()))
        column_names = {column.name for column in columns}
        for name, values in self.scores.items():
            columns.append(
                pl.Series(f"score:{name}" if name in column_names else name, values.ravel(), nan_to_null=True)
            )
        return pl.DataFrame(columns)

    def cell_index(self, items: pl.Series, systems: pl.Series) -> tuple[IntArray, IntArray]:
        """Return row and column of each (item, system) pair; raise NameUnknownError for others."""
        rows = _find_positions("item", items, self.items["id"])
        return rows, _find_positions("system", systems, pl.Series(self.systems, dtype=pl.String))

    @cached_property
    def fingerprint(self) -> str:
        """Six hexadecimal digits of the content, for signatures."""
        digest = hashlib.blake2b(digest_size=16)
        for texts in (self.ids, self.systems, *self._text_columns()):
            digest.update("\x1f".join("" if text is None else str(text) for text in texts).encode("utf-8", "replace"))
        for name in sorted(self.scores):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self.scores[name]).tobytes())
        if self.judgments is not None:
            table = self.judgments.table
            digest.update("\x1f".join(map(str, table["item"].to_list() + table["system"].to_list())).encode())
            digest.update(table["value"].fill_null(np.nan).to_numpy().tobytes())
            if MARKED in table.columns:
                digest.update("\x1f".join(table[MARKED].fill_null("").to_list()).encode("utf-8", "replace"))
        return digest.hexdigest()[:6]

    def _text_columns(self) -> list[list[str | None]]:
        columns = [self.items[name] for name in ("source", "reference", "document") if name in self.items.columns]
        outputs = [] if self.outputs is None else self.outputs.get_columns()
        return [column.to_list() for column in [*columns, *outputs]]

    def __eq__(self, other: object) -> bool:
        """Equal in content: items, systems, outputs, scores, usage, judgments; not in `name`, `human` or `flipped`."""
        if not isinstance(other, EvalSet):
            return NotImplemented
        return (
            self.systems == other.systems
            and self.scores.keys() == other.scores.keys()
            and tables_equal(self.items, other.items)
            and all(np.array_equal(self.scores[k], other.scores[k], equal_nan=True) for k in self.scores)
            and self.usage.keys() == other.usage.keys()
            and all(np.array_equal(self.usage[k], other.usage[k], equal_nan=True) for k in self.usage)
            and tables_equal(self.outputs, other.outputs)
            and self.judgments == other.judgments
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the parts: mapping proxies cannot be pickled."""
        return EvalSet, (
            self.items,
            self.systems,
            dict(self.scores),
            self.outputs,
            self.judgments,
            self.human,
            self.flipped,
            self.name,
            dict(self.averaged),
            dict(self.usage),
            self.joined,
        )

    def __len__(self) -> int:
        return self.n_items

    def __repr__(self) -> str:
        parts = [f"{self.n_items} items x {self.n_systems} systems"]
        parts.append(f"{len(self.scores)} scores" + (f" (human: '{self.human}')" if self.human else ""))
        documents = self.documents
        if documents is not None:
            parts.append(f"{documents.max() + 1 if len(documents) else 0} documents")
        if self.outputs is not None:
            parts.append("outputs")
        if self.judgments is not None:
            parts.append(f"{len(self.judgments)} judgments")
        return f"EvalSet('{self.name}': {', '.join(parts)})"

    # -- inside ----------------------------------------------------------------------------------------------------

    def _item_mask(self, items: ItemChoice) -> BoolArray:
        if isinstance(items, pl.Expr):
            chosen = self.items.select(items.fill_null(value=False)).to_series()
            if chosen.dtype != pl.Boolean or len(chosen) != self.n_items:
                raise OptionError("items= as an expression must give one true or false per item")
            return chosen.to_numpy()
        if isinstance(items, np.ndarray) and items.dtype == np.bool_:
            if items.shape != (self.n_items,):
                raise OptionError(f"items= as a mask has shape {items.shape}; there are {self.n_items} items")
            return items
        ids = pl.Series("id", list(items), dtype=self.items["id"].dtype, strict=False)
        unknown = ids.filter(~ids.is_in(self.items["id"].implode()))
        if len(unknown) or ids.null_count():
            example = next((item for item in items if item not in set(self.ids)), None)
            raise unknown_name("item", example, self.ids[:50])
        return self.items["id"].is_in(ids.implode()).to_numpy()

    def _known_systems(self, systems: Iterable[str]) -> list[str]:
        for system in systems:
            if system not in self.systems:
                raise unknown_name("system", system, self.systems)
        return list(systems)


def _find_positions(kind: str, keys: pl.Series, names: pl.Series) -> IntArray:
    """Return the position of each key among the names."""
    index = pl.DataFrame({"key": names, "position": np.arange(len(names))})
    positions = keys.alias("key").to_frame().join(index, on="key", how="left", maintain_order="left")["position"]
    if positions.null_count():
        raise unknown_name(kind, keys.filter(positions.is_null())[0], names.head(50).to_list())
    return positions.to_numpy().astype(np.int64)


def take_rows(evalset: EvalSet, rows: IntArray) -> EvalSet:
    """Return the items at these row numbers, in this order."""
    items = evalset.items[rows]
    parts: dict[str, Any] = {
        "items": items,
        "scores": {name: values[rows] for name, values in evalset.scores.items()},
        "usage": {name: values[rows] for name, values in evalset.usage.items()},
        "outputs": None if evalset.outputs is None else evalset.outputs[rows],
        "judgments": None if evalset.judgments is None else evalset.judgments.keep(items=items["id"].to_list()),
    }
    ascending = bool(np.all(np.diff(rows) > 0))  # so no id occurs twice, and judgments stay in the order of items
    return _replace_unchecked(evalset, **_freeze_parts(parts)) if ascending else replace(evalset, **parts)


def take_systems(evalset: EvalSet, systems: list[str]) -> EvalSet:
    """Return the set with these of its systems, in this order."""
    validate_names(systems, "system")
    column_of = {system: column for column, system in enumerate(evalset.systems)}
    columns = [column_of[system] for system in systems]
    outputs = None if evalset.outputs is None or not systems else evalset.outputs.select(systems)
    judgments = None if evalset.judgments is None else evalset.judgments.keep(systems=systems)
    parts: dict[str, Any] = {
        name: {key: np.ascontiguousarray(values[:, columns]) for key, values in arrays.items()}
        for name, arrays in (("scores", evalset.scores), ("usage", evalset.usage))
    }
    parts["judgments"] = judgments
    return _replace_unchecked(evalset, systems=tuple(systems), outputs=outputs, **_freeze_parts(parts))


def _freeze_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """Return parts of a set as a set holds them: read-only arrays, no empty judgments."""
    arrays = {name: MappingProxyType(parts[name]) for name in ("scores", "usage")}
    for values in (*arrays["scores"].values(), *arrays["usage"].values()):
        values.setflags(write=False)
    return {**parts, **arrays, "judgments": parts["judgments"] or None}


def _replace_unchecked(evalset: EvalSet, **parts: Any) -> EvalSet:
    """Replace parts that keep the invariants without validation: replays make thousands of sets."""
    copy = object.__new__(type(evalset))
    for each in fields(evalset):
        object.__setattr__(copy, each.name, parts.get(each.name, getattr(evalset, each.name)))
    return copy
