"""JudgmentRows made ready to be combined: those that count, with other weights, on another scale, comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from aliquot.annotation.judgment_rows import Data, judgment_rows, judgments_of
from aliquot.annotation.normalise import Normalised, normalise
from aliquot.core.columns import cast_column
from aliquot.core.judgments import Judgments
from aliquot.core.registry import read_value, split_outside, written
from aliquot.errors import DataError, OptionError, quoted, unknown_name
from aliquot.io.formats.mqm import MQMWeights

# -- Scale re-coding maps: `1|2=low,3|4|5=high` says which judgments become one ----------------------------------------


RecodeLike = str | Mapping[str, Sequence[object]]
"""A map as it is written, or new judgment -> old judgments."""


@dataclass(frozen=True)
class Recoding:
    """A map from judgments to fewer judgments.

    Attributes:
        name: what the re-coded scale is called.
        groups: new judgment and the old ones (or ranges LOW..HIGH) that become it, in order.
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return ",".join(f"{'|'.join(old)}={new}" for new, old in self.groups)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The new judgments in order, or None where they are numbers."""
        new = tuple(label for label, _ in self.groups)
        return None if all(_number(label) is not None for label in new) else new

    def apply(self, answers: pl.Series) -> pl.Series:
        """Return the new judgments as numbers: themselves, or their place among the labels.

        Raises:
            DataError: a judgment is in no group.

        >>> parse_recoding("1|2=low,3..5=high").apply(pl.Series([1.0, 4.0])).to_list()
        [0.0, 1.0]
        """
        distinct = answers.drop_nulls().unique().sort()
        place = {answer: self._place(answer) for answer in distinct}
        lost = [answer for answer, at in place.items() if at is None]
        if lost:
            named = f" '{self.name}'" if self.name else ""
            raise DataError(
                f"re-coding{named}: the values {quoted(_shown(judgment) for judgment in lost)} are in no group of "
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
        raise OptionError(f"re-coding '{name}': the new value is named twice; put all that becomes it into one group")
    olds = [text for _, old in groups for text in old]
    twice = [text for text in olds if olds.count(text) > 1]
    if twice:
        raise OptionError(f"re-coding '{name}': the value '{twice[0]}' is in two groups; it can become only one")


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


# -- Judgments made ready to be combined: those that count, with other weights, on another scale, comparable -----------


_LABEL = "_label"
RecodeAny = RecodeLike | Recoding
Recodes = RecodeAny | Mapping[str, RecodeAny] | Sequence[RecodeAny]
"""One map, a map for each criterion, or several that name theirs."""


def countable(
    data: Data, *, answer: str = "value", mqm_weights: MQMWeights | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the judgments that count (unmarked, with a judgment, not on control items), and what was left out.

    The column `answer` of the result holds the judgments, numbers or labels.
    """
    judgments, answer = _judgments(data, answer)
    if mqm_weights is not None:
        judgments = reweighted(judgments, mqm_weights)
    table = judgment_rows(judgments).table
    notes = []
    given = pl.col("value").is_not_null() if answer == "value" else pl.col(answer).is_not_null()
    for what, out in (
        ("marked judgments", pl.col("marked").is_not_null()),
        ("pending judgments", (pl.col("state") == "pending") & ~given),
        ("skipped judgments", (pl.col("state") == "skipped") & ~given),
        ("judgments on control items", pl.col("control").is_not_null()),
    ):
        kept = table.filter(~out)
        if kept.height < table.height:
            notes.append(f"{table.height - kept.height} {what} left out")
        table = kept
    return table.with_columns(pl.col(answer).alias("answer")), notes


def _judgments(data: Data, answer: str) -> tuple[Judgments, str]:
    """Judgments and the column of their judgments: labels in `value` of a bare table move to a column of their own."""
    if isinstance(data, pl.DataFrame) and answer == "value" and data.schema.get("value") == pl.String:
        data = data.with_columns(pl.col("value").alias(_LABEL), pl.lit(None, dtype=pl.Float64).alias("value"))
        answer = _LABEL
    elif isinstance(data, pl.DataFrame) and answer in data.columns and "value" not in data.columns:
        data = data.with_columns(pl.lit(None, dtype=pl.Float64).alias("value"))
    judgments = judgments_of(data)
    if answer not in judgments.table.columns:
        raise unknown_name(
            "judgment column", answer, judgments.table.columns, "name that of the judgments with --answer"
        )
    return judgments, answer


def reweighted(judgments: Judgments, weights: MQMWeights) -> Judgments:
    """Return MQM errors with minus these weights as values.

    >>> errors = pl.DataFrame({"item": [0, 0], "system": ["A", "A"], "value": [0.0, 0.0], "error": [0, 1],
    ...     "category": ["Accuracy", "Fluency/Punctuation"], "severity": ["Major", "minor"]})
    >>> reweighted(Judgments(errors), MQMWeights(major=10)).table["value"].to_list()
    [-10.0, -0.1]
    """
    table = judgments.table
    lacking = [name for name in ("category", "severity") if name not in table.columns]
    if lacking:
        raise DataError(
            f"MQM weights need error lists: judgments with category and severity; '{lacking[0]}' is missing"
        )
    kinds = table.select(pl.col("category", "severity").cast(pl.String).fill_null("")).unique(maintain_order=True)
    costs = [weights.of(category, severity) for category, severity in kinds.iter_rows()]
    if None in costs:
        category, severity = kinds.row(costs.index(None))
        raise DataError(f"unknown severity '{severity}' (category '{category}'); known are no-error, neutral, minor, "
                        "major, critical")  # fmt: skip
    costed = kinds.with_columns(pl.Series("value", [-float(cost or 0.0) + 0.0 for cost in costs]))
    texts = table.drop("value").with_columns(pl.col("category", "severity").cast(pl.String).fill_null(""))
    return Judgments(texts.join(costed, on=["category", "severity"], how="left", maintain_order="left"))


def recodings_of(recode: Recodes | None, criteria: Sequence[str]) -> dict[str | None, Recoding]:
    """Return criterion -> map; a map whose name is no criterion is for all of them (None).

    >>> sorted(recodings_of("fluency:yes=1,partially=0.5,no=0", ["fluency", "style"]))
    ['fluency']
    """
    if recode is None:
        return {}
    if isinstance(recode, Mapping) and recode and all(name in criteria for name in recode):
        return {name: _recoding(value, name) for name, value in recode.items()}  # type: ignore[arg-type]
    many = list(recode) if isinstance(recode, list | tuple) else [recode]
    found: dict[str | None, Recoding] = {}
    for one in many:
        recoding = _recoding(one, "")  # type: ignore[arg-type]
        key = recoding.name if recoding.name in criteria else None
        if key in found:
            raise OptionError(f"two re-codings are for {'all criteria' if key is None else key}; give one")
        if key is None and recoding.name and len(criteria) > 1 and len(many) > 1:
            raise unknown_name("criterion", recoding.name, criteria, "check --recode")
        found[key] = recoding
    return found


def _recoding(given: RecodeAny, name: str) -> Recoding:
    recoding = given if isinstance(given, Recoding) else parse_recoding(given, name)
    if recoding.labels is not None:
        raise OptionError(f"re-coding '{recoding}': scores are numbers; write numbers after '=', e.g. yes=1,no=0")
    return recoding


def recoded(table: pl.DataFrame, recodings: Mapping[str | None, Recoding]) -> pl.DataFrame:
    """Return the judgments with `value` on the new scale; labels must have a re-coding."""
    return table.with_columns(_worth(table, "answer", recodings)).filter(pl.col("value").is_not_null())


def valued(data: Data, answer: str, recode: Recodes | None) -> Judgments:
    """Return all judgments with the worth of their judgments as values, and of `expected` judgments, too.

    >>> table = pl.DataFrame({"item": [0, 1], "system": ["A", "A"], "value": ["yes", None]})
    >>> valued(table, "value", "yes=1,no=0").table["value"].to_list()
    [1.0, None]
    """
    judgments, column = _judgments(data, answer)
    recodings = recodings_of(recode, judgments.criteria)
    table = judgments.table.with_columns(_worth(judgments.table, column, recodings))
    if "expected" in table.columns:
        table = table.with_columns(_worth(table, "expected", recodings).alias("expected"))
    return Judgments(table)


def _worth(table: pl.DataFrame, column: str, recodings: Mapping[str | None, Recoding]) -> pl.Series:
    """What the judgments in a column are worth, criterion by criterion."""
    answers = table[column]
    if not recodings and answers.dtype == pl.String and answers.count():
        what = f"the judgments are labels ('{answers.drop_nulls()[0]}'); say what each is worth with --recode"
        raise DataError(f"{what}, e.g. yes=1,partially=0.5,no=0")
    parts = [pl.DataFrame(schema={"_row": pl.UInt32, "value": pl.Float64})]
    for (criterion,), part in table.with_row_index("_row").group_by("criterion", maintain_order=True):
        recoding = recodings.get(None if criterion is None else str(criterion)) or recodings.get(None)
        mine = part[column]
        worth = recoding.apply(mine) if recoding else cast_column(mine, pl.Float64(), f"the judgments on '{criterion}'")
        parts.append(part.select("_row", worth.alias("value")))
    return pl.concat(parts).sort("_row")["value"]


def comparable(table: pl.DataFrame, how: str | None) -> tuple[pl.DataFrame, Normalised | None]:
    """Return the judgments normalised; those without a comparable value leave."""
    if how is None:
        return table, None
    found = normalise(table, how)
    values = pl.Series("value", found.z, nan_to_null=True)
    return table.with_columns(values).filter(pl.col("value").is_not_null()), found


def written_recoding(recode: Recodes | None) -> str | None:
    """Write re-codings for a signature.

    >>> written_recoding("1|2=0,3=1")
    '(1|2=0,3=1)'
    """
    if recode is None:
        return None
    if isinstance(recode, str | Recoding):
        return written(str(recode))
    if isinstance(recode, Mapping):
        return written(";".join(name + ":" + str(value) for name, value in recode.items()))
    return written(";".join(str(one) for one in recode))
