"""Tables that `compare` reads: which kind they are, which column is which, and texts turned into names and numbers.

| kind | columns (others may be there) |
|---|---|
| pairwise | item, annotator, system_a, system_b, choice: a, b or tie |
| verify | the same; choice: only a, only b, both or none |
| best-worst | item, annotator, shown (["A", "B", "C"], or by hand A;B;C), best, worst |
| ranking | item, annotator, system, rank (1 best); or item, annotator, ranking ([["A"], ["B", "C"]], or A > B = C) |
| postedit | item, annotator, final, output_a, output_b, and where known system_a, system_b, choice |
| groups | participant, group, before, after, and where there are several, measure |
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import numpy as np
import polars as pl

from aliquot.core.judgments import MARKED
from aliquot.errors import DataError, NameUnknownError, OptionError, closest, quoted, unknown_name
from aliquot.io.formats import arena
from aliquot.io.formats.choice_labels import SIDE_OF_LABEL
from aliquot.io.formats.table_columns import SYNONYMS, parse_numbers
from aliquot.stats.arrays import FloatArray

ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "item": SYNONYMS["item"],
        "annotator": (*SYNONYMS["annotator"], "post_editor", "editor"),
        "system_a": ("system_a", "system1", "system_1", "sys_a", "sys1", "model_a", "model1", "model_1", "a", "left"),
        "system_b": ("system_b", "system2", "system_2", "sys_b", "sys2", "model_b", "model2", "model_2", "b", "right"),
        "choice": (
            "choice",
            "chosen",
            "preference",
            "preferred",
            "winner",
            "verdict",
            "label",
            "answer",
            "judgment",
            "judgement",
        ),
        "shown": ("shown", "systems", "options", "candidates", "models"),
        "best": ("best",),
        "worst": ("worst",),
        "system": SYNONYMS["system"],
        "rank": ("rank", "place"),
        "ranking": ("ranking", "ranks", "order_of_systems"),
        "final": ("final", "final_text", "postedit", "post_edit", "post_edited", "postedited", "pe", "edited"),
        "output_a": ("output_a", "output1", "output_1", "mt_a", "mt1", "suggestion_a", "suggestion1", "text_a", "s1"),
        "output_b": ("output_b", "output2", "output_2", "mt_b", "mt2", "suggestion_b", "suggestion2", "text_b", "s2"),
        "participant": ("participant", "participant_id", "person", "user", "user_id", "subject", "annotator"),
        "group": ("group", "arm", "condition"),
        "measure": ("measure", "outcome", "criterion", "metric", "question", "scale"),
        "before": ("before", "pre", "baseline"),
        "after": ("after", "post"),
    }
)
"""Our column role -> the names people give it."""

_ROLES_BY_KIND: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "postedit": (("item", "final"), ("annotator", "system_a", "system_b", "output_a", "output_b", "choice")),
        "best-worst": (("item", "best", "worst"), ("annotator", "shown")),
        "ranking": (("item",), ("annotator", "system", "rank", "ranking")),
        "groups": (("group", "before", "after"), ("participant", "measure")),
        "pairwise": (("item", "choice"), ("annotator", "system_a", "system_b")),
        "verify": (("item", "choice"), ("annotator", "system_a", "system_b")),
    }
)
"""Kind -> the roles a table of it must have, and those it may have; the order in which kinds are recognised."""

_MARKABLE_KINDS = ("pairwise", "verify", "best-worst", "ranking")
"""Kinds whose rows are choices of annotators, as a campaign has them."""


@dataclass(frozen=True, eq=False)
class ChoiceTable:
    """A table whose columns are named by their role."""

    frame: pl.DataFrame
    kind: str
    where: str
    notes: tuple[str, ...] = ()

    def has_column(self, role: str) -> bool:
        """Return whether a column has this role and is not empty."""
        return role in self.frame.columns and self.frame[role].null_count() < self.frame.height

    def read_texts(self, role: str) -> pl.Series:
        """Return a column as stripped texts; empty ones are null."""
        text = self.unstripped_texts(role).str.strip_chars()
        return pl.select(pl.when(text != "").then(text)).to_series()

    def optional_texts(self, role: str) -> pl.Series:
        """Return a column as texts, all null if there is none."""
        return (
            self.read_texts(role)
            if role in self.frame.columns
            else pl.Series(role, [None] * len(self), dtype=pl.String)
        )

    def __len__(self) -> int:
        return self.frame.height

    def unstripped_texts(self, role: str) -> pl.Series:
        """Return a column as texts with their blanks; lists of systems become JSON."""
        column = self.frame[role]
        if role in ("shown", "ranking") and column.dtype == pl.List:
            lists = [None if cell is None else msgspec.json.encode(cell).decode() for cell in column.to_list()]
            return pl.Series(role, lists, dtype=pl.String)
        if column.dtype.is_nested() or column.dtype == pl.Object:
            raise DataError(f"{self.where}: the column '{role}' holds {column.dtype}; it should hold texts")
        return column.cast(pl.String)

    def required_texts(self, role: str) -> pl.Series:
        """Return a column as texts; raise DataError if one is empty."""
        text = self.read_texts(role)
        if text.null_count():
            raise self.row_error(
                int(text.is_null().arg_max() or 0), f"the column '{role}' is empty; every row needs one"
            )
        return text

    def parse_column(self, role: str) -> FloatArray:
        """Return a column as numbers, NaN where missing."""
        return parse_numbers(self.frame[role], self.where)

    def item_and_annotator(self) -> pl.DataFrame:
        """Return the item and annotator of every row."""
        return pl.DataFrame({"item": self.required_texts("item"), "annotator": self.optional_texts("annotator")})

    def row_error(self, row: int, what: str) -> DataError:
        """Build an error that names a row (`row` counts from 0, the message from 1)."""
        return DataError(f"{self.where} row {row + 1}: {what}")

    @property
    def fingerprint(self) -> str:
        """Six hexadecimal digits of the content, for signatures."""
        return digest_table(self.frame)


def digest_table(frame: pl.DataFrame) -> str:
    """Six hexadecimal digits of a table's content.

    >>> digest_table(pl.DataFrame({"a": [1]})) == digest_table(pl.DataFrame({"a": [1]}))
    True
    """
    nested = [column for column in frame if column.dtype.is_nested() or column.dtype == pl.Object]
    plain = frame.with_columns(pl.Series(c.name, [str(v) for v in c.to_list()], dtype=pl.String) for c in nested)
    return hashlib.blake2b(plain.write_csv().encode("utf-8", "replace"), digest_size=16).hexdigest()[:6]


def detect_table_kind(present: Sequence[str], columns: Mapping[str, str] | None = None) -> str | None:
    """Detect the kind of a table by its columns; None if it holds no choices.

    >>> detect_table_kind(["item", "rater", "model_a", "model_b", "winner"])
    'pairwise'
    """
    roles = _map_roles(present, columns)
    if not columns and arena.looks_like(present):
        return "pairwise"
    if {"final", "item"} <= roles.keys():
        return "postedit"
    if {"best", "worst", "item"} <= roles.keys():
        return "best-worst"
    if "item" in roles and ("ranking" in roles or {"system", "rank"} <= roles.keys()):
        return "ranking"
    if {"group", "before", "after"} <= roles.keys():
        return "groups"
    has_no_value = "value" not in {name.casefold() for name in present}  # judgments may well have a column 'label'
    return "pairwise" if {"item", "choice"} <= roles.keys() and ("system_a" in roles or has_no_value) else None


def choice_table(table: pl.DataFrame, kind: str, columns: Mapping[str, str] | None, where: str) -> ChoiceTable:
    """Rename the columns of a table by their role.

    `columns` maps our roles to the table's columns where names alone do not say; other columns stay. Choices that are
    marked are left out, as marked judgments are: those of excluded annotators or of judge models.

    >>> table = pl.DataFrame({"segment": [1], "winner": ["A"]})
    >>> choice_table(table, "pairwise", None, "t.csv").frame.columns
    ['item', 'choice']
    """
    if not table.height:
        raise DataError(f"{where}: the table has a header but no rows; there is nothing to compare")
    if not columns and kind in ("pairwise", "verify") and arena.looks_like(table.columns):
        table = arena.to_choices(table, where)
    table, notes = _drop_marked(table, where) if kind in _MARKABLE_KINDS else (table, ())
    needed, possible = _ROLES_BY_KIND[kind]
    columns_by_role = _map_roles(table.columns, columns)
    roles = {role: columns_by_role[role] for role in (*needed, *possible) if role in columns_by_role}
    for role in needed:
        if role not in roles:
            raise DataError(
                f"{where}: a table of kind '{kind}' needs a column '{role}' (or {quoted(ROLES[role][1:4])}); "
                f"there are {quoted(table.columns)}; name it in `columns`"
            )
    role_of_column = {name: role for role, name in roles.items()}
    clash = {role: f"{role}_" for role in roles if role in table.columns and role not in role_of_column}
    frame = table.rename(clash | role_of_column).select(*roles, pl.exclude(*roles))
    return ChoiceTable(frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), kind, where, notes)


def _drop_marked(table: pl.DataFrame, where: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    if MARKED not in table.columns:
        return table, ()
    reasons = table[MARKED].cast(pl.String).str.strip_chars().fill_null("")
    counts = reasons.str.to_lowercase().is_in(["", "false"])
    if not counts.any():
        raise DataError(f"{where}: all choices are marked ({reasons[0]}); there is nothing to compare")
    n_marked = int((~counts).sum())
    return table.filter(counts), (f"choices that are marked, left out: {n_marked}",) if n_marked else ()


def _map_roles(present: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Map roles to columns: by the user's mapping, else by name or synonym."""
    columns_by_role: dict[str, str] = {}
    for role, name in (columns or {}).items():
        if role not in ROLES:
            raise unknown_name("column role", role, ROLES, "`columns` maps roles to columns")
        if name not in present:
            raise unknown_name("column", name, present, "check `columns`")
        if name in columns_by_role.values():
            raise OptionError(f"`columns` gives the column '{name}' two roles; each column plays one")
        columns_by_role[role] = name
    free = {name.strip().casefold().replace(" ", "_"): name for name in present if name not in columns_by_role.values()}
    for role, names in ROLES.items():
        match = next((free[name] for name in names if name in free), None)
        if role not in columns_by_role and match is not None:
            columns_by_role[role] = match
    return columns_by_role


def number_columns(frame: pl.DataFrame, apart: Sequence[str], where: str) -> dict[str, FloatArray]:
    """Return the numeric columns except those named: name -> values, NaN where missing.

    >>> frame = pl.DataFrame({"item": ["x"], "fluency": ["4"], "comment": ["good"]})
    >>> number_columns(frame, ["item"], "t.csv")
    {'fluency': array([4.])}
    """
    numbers = {}
    for column in frame.drop(apart).get_columns():
        if column.dtype.is_numeric() or column.dtype == pl.String:
            try:
                values = parse_numbers(column, where)
            except DataError:
                continue
            if np.isfinite(values).any():
                numbers[column.name] = values
    return numbers


# -- labels of choices ---------------------------------------------------------------------------------------------


def read_sides(table: ChoiceTable, a: pl.Series, b: pl.Series, ignore: Collection[str] = ()) -> pl.Series:
    """Return the choice of each row: a, b, tie, both or none; null if there is none or it is ignored.

    A choice may be the name of one of the row's systems. Capitals do not matter, except in names. Rows whose label is
    in `ignore` (such as c and f of the word-sense task) are null, too.

    >>> frame = pl.DataFrame({"choice": ["A", "sysY", "Tie", None]})
    >>> x, y = pl.Series(["sysX"] * 4), pl.Series(["sysY"] * 4)
    >>> read_sides(ChoiceTable(frame, "pairwise", "t.csv"), x, y).to_list()
    ['a', 'b', 'tie', None]
    """
    choice = table.read_texts("choice")
    folded = choice.str.to_lowercase()
    ignored = folded.is_in([label.strip().casefold() for label in ignore]).fill_null(value=False)
    by_label = folded.replace_strict(SIDE_OF_LABEL, default=None, return_dtype=pl.String)
    is_a, is_b = choice == a, choice == b
    by_name = pl.select(pl.when(is_a).then(pl.lit("a")).when(is_b).then(pl.lit("b"))).to_series()
    is_conflict = (by_label != by_name).fill_null(value=False) & ~ignored
    if is_conflict.any():
        row = int(is_conflict.arg_max() or 0)
        raise table.row_error(
            row,
            f"the choice '{choice[row]}' is the side '{by_label[row]}' and the system that stands on side "
            f"'{by_name[row]}'; write a or b, or give the systems other names",
        )
    side = by_name.zip_with(by_name.is_not_null(), by_label)
    unknown = side.is_null() & choice.is_not_null() & ~ignored
    if unknown.any():
        row = int(unknown.arg_max() or 0)
        labels = ("only a", "only b", "both", "none") if table.kind == "verify" else ("a", "b", "tie")
        guess = closest(str(choice[row]), [*labels, a[row], b[row]])
        hint = f" did you mean '{guess}'?" if guess else ""
        raise table.row_error(
            row,
            f"unknown choice '{choice[row]}';{hint} Write {quoted(labels)}, or a system's name; an empty cell is a "
            "pending judgment; `ignore` leaves labels out",
        )
    return pl.select(pl.when(~ignored).then(side)).to_series()


def require_systems(systems: Collection[str], present: Collection[str], where: str) -> list[str]:
    """Return the systems as a list, or raise for one that is absent or named twice.

    >>> require_systems(["A"], ["A", "B"], "t.csv")
    ['A']
    """
    repeated = [name for name in systems if list(systems).count(name) > 1]
    if repeated:
        raise OptionError(f"the system '{repeated[0]}' is named twice; check `systems`")
    for name in systems:
        if name not in present:
            present = sorted(present) if isinstance(present, set) else present
            raise NameUnknownError(f"{where}: {unknown_name('system', name, present, 'check `systems`')}")
    return list(systems)
