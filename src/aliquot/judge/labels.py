"""What people write when they choose: a, b, tie, only A, both, none, a system's name; anything else is an error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import polars as pl

from aliquot.errors import DataError, NameUnknownError, OptionError, closest, quoted
from aliquot.judge.choice_tables import ChoiceTable

_SIDES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "a": ("a", "1", "a only", "only a", "only_a", "a>b", "system_a", "system a", "model_a", "model a", "left",
              "first", "a wins", "a better", "output_a"),
        "b": ("b", "2", "b only", "only b", "only_b", "b>a", "a<b", "system_b", "system b", "model_b", "model b",
              "right", "second", "b wins", "b better", "output_b"),
        "tie": ("tie", "ties", "tied", "draw", "equal", "same", "=", "a=b", "no preference"),
        "both": ("both", "both right", "both good", "tie (bothgood)", "ab"),
        "none": ("none", "0", "neither", "both wrong", "both bad", "bothbad", "tie (bothbad)"),
    }
)  # fmt: skip
_MEANING = {label: side for side, labels in _SIDES.items() for label in labels}

PAIRWISE = ("a", "b", "tie")
VERIFY = ("only a", "only b", "both", "none")


def sides(table: ChoiceTable, a: pl.Series, b: pl.Series, ignore: Collection[str] = ()) -> pl.Series:
    """What each row chose: a, b, tie, both or none; null where nothing was chosen or the label is to be ignored.

    A choice may be the name of one of the row's systems. Capitals do not matter, except in names.

    Args:
        table: With a column `choice`.
        a: The system shown first in each row.
        b: The other one.
        ignore: Labels to leave out, such as c and f of the word-sense task.

    Raises:
        DataError: A label that is nothing of this, or one that is a side and the other side's name at once.

    Example:
        >>> frame = pl.DataFrame({"choice": ["A", "sysY", "Tie", None]})
        >>> x, y = pl.Series(["sysX"] * 4), pl.Series(["sysY"] * 4)
        >>> sides(ChoiceTable(frame, "pairwise", "t.csv"), x, y).to_list()
        ['a', 'b', 'tie', None]
    """
    choice = table.texts("choice")
    folded = choice.str.to_lowercase()
    ignored = folded.is_in([label.strip().casefold() for label in ignore])
    by_label = folded.replace_strict(_MEANING, default=None, return_dtype=pl.String)
    by_name = (
        pl.DataFrame({"choice": choice, "a": a, "b": b})
        .select(
            pl.when(pl.col("choice") == pl.col("a"))
            .then(pl.lit("a"))
            .when(pl.col("choice") == pl.col("b"))
            .then(pl.lit("b"))
        )
        .to_series()
    )
    torn = (by_label != by_name).fill_null(value=False) & ~ignored.fill_null(value=False)
    if torn.any():
        row = int(torn.arg_max() or 0)
        raise table.fault(
            row,
            f"the choice '{choice[row]}' is the side '{by_label[row]}' and the system that stands on side "
            f"'{by_name[row]}'; write a or b, or give the systems other names",
        )
    side = by_name.zip_with(by_name.is_not_null(), by_label)
    unknown = side.is_null() & choice.is_not_null() & ~ignored.fill_null(value=False)
    if unknown.any():
        raise _unknown(table, int(unknown.arg_max() or 0), choice, a, b)
    return side.to_frame().select(pl.when(~ignored.fill_null(value=False)).then(pl.col(side.name))).to_series()


def _unknown(table: ChoiceTable, row: int, choice: pl.Series, a: pl.Series, b: pl.Series) -> DataError:
    known = VERIFY if table.kind == "verify" else PAIRWISE
    guess = closest(str(choice[row]), [*known, a[row], b[row]])
    hint = f" did you mean '{guess}'?" if guess else ""
    return table.fault(
        row,
        f"unknown choice '{choice[row]}';{hint} Write {quoted(known)}, or a system's name; an empty cell is a "
        "pending answer; --ignore leaves labels out",
    )


def check_pair(table: ChoiceTable, a: pl.Series, b: pl.Series) -> None:
    """Refuse a system that is compared with itself."""
    same = a == b
    if same.any():
        row = int(same.arg_max() or 0)
        raise table.fault(row, f"the system '{a[row]}' is compared with itself; correct or remove the row")


def known_systems(wanted: Collection[str], present: Collection[str], where: str) -> list[str]:
    """Return the systems asked for, or say which one is not there.

    >>> known_systems(["A"], ["A", "B"], "t.csv")
    ['A']
    """
    repeated = [name for name in wanted if list(wanted).count(name) > 1]
    if repeated:
        raise OptionError(f"the system '{repeated[0]}' is named twice; check --systems")
    for name in wanted:
        if name not in present:
            present = sorted(present) if isinstance(present, set) else present
            guess = closest(name, present)
            hint = f" did you mean '{guess}'?" if guess else ""
            raise NameUnknownError(f"{where}: no system '{name}';{hint} There are: {quoted(present)}; check --systems")
    return list(wanted)
