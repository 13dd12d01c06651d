"""Scale re-coding maps: `1|2=low,3|4|5=high` says which answers become one.

Answers of a continuous scale are named by ranges, `0..50=poor,50..100=good`; ends belong to a range, and the first
range that fits counts. The order of the new answers is the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from aliquot.data.spec import read_value, split_outside
from aliquot.errors import DataError, OptionError, quoted

RecodeLike = str | Mapping[str, Sequence[object]]
"""A map as it is written, or new answer -> old answers."""


@dataclass(frozen=True)
class Recoding:
    """A map from answers to fewer answers.

    Attributes:
        name: what the re-coded scale is called.
        groups: new answer and the old ones (or ranges LOW..HIGH) that become it, in order.
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return ",".join(f"{'|'.join(old)}={new}" for new, old in self.groups)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The new answers in order, or None where they are numbers."""
        new = tuple(label for label, _ in self.groups)
        return None if all(_number(label) is not None for label in new) else new

    def apply(self, answers: pl.Series) -> pl.Series:
        """Return the new answers as numbers: themselves, or their place among the labels.

        Raises:
            DataError: an answer is in no group.

        >>> parse_recoding("1|2=low,3..5=high").apply(pl.Series([1.0, 4.0])).to_list()
        [0.0, 1.0]
        """
        distinct = answers.drop_nulls().unique().sort()
        place = {answer: self._place(answer) for answer in distinct}
        lost = [answer for answer, at in place.items() if at is None]
        if lost:
            named = f" '{self.name}'" if self.name else ""
            raise DataError(
                f"re-coding{named}: the answers {quoted(_shown(answer) for answer in lost)} are in no group of "
                f"'{self}'; add them to one"
            )
        new = [float(at) if self.labels else float(self.groups[at][0]) for at in place.values() if at is not None]
        return answers.replace_strict(list(place), new, default=None, return_dtype=pl.Float64)

    def _place(self, answer: float | str) -> int | None:
        return next((at for at, (_, old) in enumerate(self.groups) if any(_fits(answer, text) for text in old)), None)


def parse_recoding(given: RecodeLike, name: str = "re-coded") -> Recoding:
    """Read a map, written `old|old=new,old=new` or `NAME:old|old=new,...`.

    >>> parse_recoding("gravity:0|1|2=significant,3|4|5|6=insignificant,7=none").name
    'gravity'
    """
    if isinstance(given, Mapping):
        groups = tuple((str(new), tuple(_shown(answer) for answer in old)) for new, old in given.items())
    else:
        head, colon, rest = given.partition(":")
        if colon and "=" not in head:
            name, given = head.strip(), rest
        groups = tuple(_group(part, given) for part in split_outside(given, ","))
    _check(groups, name)
    return Recoding(name, groups)


def _group(part: str, whole: str) -> tuple[str, tuple[str, ...]]:
    old, equals, new = part.rpartition("=")
    olds = tuple(read_value(text) for text in split_outside(old, "|"))
    if not equals or not new.strip() or not all(olds):
        raise OptionError(f"re-coding '{whole}': '{part}' is not OLD|OLD=NEW; write e.g. 1|2=low,3|4|5=high")
    return read_value(new), olds


def _check(groups: tuple[tuple[str, tuple[str, ...]], ...], name: str) -> None:
    if len({new for new, _ in groups}) < len(groups):
        raise OptionError(f"re-coding '{name}': an answer is made twice; put all that becomes it into one group")
    olds = [text for _, old in groups for text in old]
    twice = [text for text in olds if olds.count(text) > 1]
    if twice:
        raise OptionError(f"re-coding '{name}': the answer '{twice[0]}' is in two groups; it can become only one")


def _fits(answer: float | str, text: str) -> bool:
    if isinstance(answer, str):
        return answer == text
    low, dots, high = text.partition("..")
    if dots:
        ends = _number(low), _number(high)
        return ends[0] is not None and ends[1] is not None and ends[0] <= answer <= ends[1]
    return _number(text) == answer


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _shown(answer: object) -> str:
    return f"{answer:g}" if isinstance(answer, int | float) else str(answer)
