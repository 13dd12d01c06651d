"""Answers made ready to be combined: those that count, with other weights, on another scale, comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from aliquot.data.columns import cast_column
from aliquot.data.formats.mqm import MQMWeights
from aliquot.data.judgments import Judgments
from aliquot.data.spec import written
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.judge.answers import Data, answers_of, judgments_of
from aliquot.judge.normalise import Normalised, normalise
from aliquot.judge.recode import RecodeLike, Recoding, parse_recoding

_LABEL = "_label"
RecodeAny = RecodeLike | Recoding
Recodes = RecodeAny | Mapping[str, RecodeAny] | Sequence[RecodeAny]
"""One map, a map for each criterion, or several that name theirs."""


def countable(
    data: Data, *, answer: str = "value", mqm_weights: MQMWeights | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the answers that count (unmarked, with an answer, not on control items), and what was left out.

    The column `answer` of the result holds the answers, numbers or labels.
    """
    judgments, answer = _judgments(data, answer)
    if mqm_weights is not None:
        judgments = reweighted(judgments, mqm_weights)
    table = answers_of(judgments).table
    notes = []
    given = pl.col("value").is_not_null() if answer == "value" else pl.col(answer).is_not_null()
    for what, out in (
        ("marked judgments", pl.col("marked").is_not_null()),
        ("pending answers", (pl.col("state") == "pending") & ~given),
        ("skipped answers", (pl.col("state") == "skipped") & ~given),
        ("answers on control items", pl.col("control").is_not_null()),
    ):
        kept = table.filter(~out)
        if kept.height < table.height:
            notes.append(f"{table.height - kept.height} {what} left out")
        table = kept
    return table.with_columns(pl.col(answer).alias("answer")), notes


def _judgments(data: Data, answer: str) -> tuple[Judgments, str]:
    """Judgments and the column of their answers: labels in `value` of a bare table move to a column of their own."""
    if isinstance(data, pl.DataFrame) and answer == "value" and data.schema.get("value") == pl.String:
        data = data.with_columns(pl.col("value").alias(_LABEL), pl.lit(None, dtype=pl.Float64).alias("value"))
        answer = _LABEL
    elif isinstance(data, pl.DataFrame) and answer in data.columns and "value" not in data.columns:
        data = data.with_columns(pl.lit(None, dtype=pl.Float64).alias("value"))
    judgments = judgments_of(data)
    if answer not in judgments.table.columns:
        raise unknown_name("judgment column", answer, judgments.table.columns, "name that of the answers with --answer")
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
    """Return the answers with `value` on the new scale; labels must have a re-coding."""
    return table.with_columns(_worth(table, "answer", recodings)).filter(pl.col("value").is_not_null())


def valued(data: Data, answer: str, recode: Recodes | None) -> Judgments:
    """Return all judgments with the worth of their answers as values, and of `expected` answers, too.

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
    """What the answers in a column are worth, criterion by criterion."""
    answers = table[column]
    if not recodings and answers.dtype == pl.String and answers.count():
        what = f"the answers are labels ('{answers.drop_nulls()[0]}'); say what each is worth with --recode"
        raise DataError(f"{what}, e.g. yes=1,partially=0.5,no=0")
    parts = [pl.DataFrame(schema={"_row": pl.UInt32, "value": pl.Float64})]
    for (criterion,), part in table.with_row_index("_row").group_by("criterion", maintain_order=True):
        recoding = recodings.get(None if criterion is None else str(criterion)) or recodings.get(None)
        mine = part[column]
        worth = recoding.apply(mine) if recoding else cast_column(mine, pl.Float64(), f"the answers on '{criterion}'")
        parts.append(part.select("_row", worth.alias("value")))
    return pl.concat(parts).sort("_row")["value"]


def comparable(table: pl.DataFrame, how: str | None) -> tuple[pl.DataFrame, Normalised | None]:
    """Return the answers normalised; those without a comparable value leave."""
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
