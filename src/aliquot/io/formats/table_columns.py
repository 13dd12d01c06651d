"""Which column of a table is which, and its cells as ids, names and numbers.

Roles are found by our names, the synonyms people use, and the user's own mapping. Whatever is not an id, a name or a
number where one is needed is named with its row, column and value.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from aliquot.errors import (
    AliquotError,
    AliquotWarning,
    FormatError,
    MissingColumnError,
    NotNumericError,
    OptionError,
    quoted,
    unknown_name,
)
from aliquot.stats.arrays import FloatArray
from aliquot.validation import invalid

_NAMES = {
    "item": "item item_id segment_id seg_id segment seg id i sentence_id sent_id example_id instance_id line_id "
    "globalsegid prompt_id question_id task_id sample_id test_id",
    "system": "system system_id system_name sys model model_id model_name generator llm llm_name engine variant",
    "metric": "metric metric_name score_name scorer measure",
    "value": "value score rating judgment judgement grade points",
    "annotator": "annotator annotator_id rater rater_id judge judge_id worker_id user user_id participant "
    "participant_id coder login evaluator evaluator_id reviewer reviewer_id labeler labeller annotator_name "
    "annotator_email rater_name worker",
    "criterion": "criterion criteria dimension aspect question attribute",
    "seconds": "seconds secs duration annotation_time time_seconds seconds_spent",
    "time": "time timestamp start_time date",
    "order": "order sequence",
    "control": "control is_control attention_check",
    "repeat": "repeat is_repeat",
    "source": "source src source_text input prompt instruction query user_prompt input_text source_sentence",
    "reference": "reference ref reference_text gold reference_answer reference_output expected expected_answer "
    "expected_output gold_answer correct_answer ground_truth ideal",
    "output": "output tgt target translation hypothesis hyp mt summary response completion "
    "generation prediction model_output model_response model_answer output_text generated_text",
    "document": "document doc document_id doc_id docid",
    "position": "position doc_position",
    "domain": "domain genre topic",
    "cost": "cost",
}
SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType({role: tuple(n.split()) for role, n in _NAMES.items()})
"""Role -> the column names that have it, ours first."""
ITEM_FIELDS = ("source", "reference", "document", "position", "domain", "cost")
Absent = dict[str, AliquotError]
"""What an option names and a file lacks, with the error to raise if no other file has it."""
AMBIGUOUS_ROLES = ("metric", "value", "source", "reference", "output")
"""Roles whose names people also give to metrics and systems in wide tables, where their columns hold numbers."""
_FILE_NAME = r"^[^\n]{1,250}\.(csv|tsv|json|jsonl|ndjson|parquet|xlsx|db|sqlite|zip|eval)(\.gz)?$"


def map_columns(
    present: Sequence[str], mapping: Mapping[str, str] | None, where: str, absent: Absent | None = None
) -> dict[str, str]:
    """Return role -> column name: the user's mapping first, then exact names, then synonyms.

    A column that is asked for and not there is an error, or is added to `absent` where another file may have it; one
    that is there is removed from it.

    >>> map_columns(["segment_id", "model", "score"], None, "t.csv")
    {'item': 'segment_id', 'system': 'model', 'value': 'score'}
    """
    roles: dict[str, str] = {}
    for ours, theirs in (mapping or {}).items():
        if ours not in SYNONYMS:
            raise unknown_name("column role", ours, SYNONYMS, "write role=column in `columns`")
        if theirs not in present:
            error = FormatError(f"{where}: {unknown_name('column', theirs, present)}")
            if absent is None:
                raise error
            absent[f"{ours}={theirs}"] = error
            continue
        if theirs in roles.values():
            raise OptionError(f"`columns` gives the column '{theirs}' two roles; each column has one", "columns")
        roles[ours] = theirs
        if absent is not None:
            absent.pop(f"{ours}={theirs}", None)
    free = {fold_name(name): name for name in present if name not in roles.values()}
    free |= {name.strip().casefold(): name for name in present if name not in roles.values()}  # such as globalSegId
    for ours, names in SYNONYMS.items():
        match = next((free[name] for name in names if name in free), None)
        if ours not in roles and match is not None:
            roles[ours] = match
    return {ours: roles[ours] for ours in SYNONYMS if ours in roles}


def fold_name(name: str) -> str:
    """Return a column name in lower case with underscores.

    >>> fold_name(" Prompt ID"), fold_name("promptId"), fold_name("model-name"), fold_name("Prompt_ID")
    ('prompt_id', 'prompt_id', 'model_name', 'prompt_id')
    """
    return _SPACES.sub("_", _CAMEL.sub("_", name.strip())).casefold()


def require_roles(
    roles: Sequence[str], mapped: Mapping[str, str], present: Sequence[str], kind: str, where: str
) -> None:
    """Raise MissingColumnError for the first role without a column."""
    for role in roles:
        if role not in mapped:
            raise MissingColumnError(
                f"{where}: {kind} need a column '{role}' (or {quoted(SYNONYMS[role][1:4])}); "
                f"there are {quoted(present)}; name it with `columns={role}=NAME`",
                role,
            )


def parse_columns(text: str) -> dict[str, str]:
    """Parse `role=column,role=column`.

    >>> parse_columns("item=segment,value=points")
    {'item': 'segment', 'value': 'points'}
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for role, equals, column in pairs:
        if not (role and equals and column):
            raise invalid("columns", text, "give role=column pairs, e.g. item=segment_id,value=points")
    return {role.strip(): column.strip() for role, _, column in pairs}


# -- cells ---------------------------------------------------------------------------------------------------------


_MISSING_WORDS = ("", "na", "n/a", "#n/a", "nan", "none", "null")
"""What people write, in any case, where a number is missing; in a column of texts these are texts."""

_MISSING_MARKS = ("-", "--", "–", "—", "n.a.", "k.a.", "k. a.", "#div/0!", "#value!", "#ref!", "#name?", "#num!")
"""The same, in a column that holds numbers, too."""

_FLAGS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect", "wrong"), 0.0),
}
"""Words, in any case, that are numbers where all of a column that must hold numbers has them."""

_CAMEL, _SPACES = re.compile(r"(?<=[a-z])(?=[A-Z])"), re.compile(r"[\s_.-]+")
_DATE = r"^\d{4}-\d\d-\d\d(T|$)"
_PERCENT, _FRACTION = r"^([+-]?\d+(?:[.,]\d+)?)\s*%$", r"^(\d+(?:[.,]\d+)?)\s*/\s*(\d+)$"

_MAX_ODD_CELLS = 10
"""A column of numbers may have one mistaken cell in this many."""

_DECIMAL_COMMA, _THOUSANDS = r"^[+-]?\d*,\d+$", r"^[+-]?[1-9]\d{0,2},\d{3}$"


def parse_ids(column: pl.Series, where: str) -> pl.Series:
    """Return ids: integers if all are written as such ('007' is a name; 1349.0 is 1349), else strings."""
    _require_values(column, where)
    if column.dtype.is_integer():
        return column
    if column.dtype.is_float():
        is_integral = column.is_finite().all() and (column == column.round()).all()
        return column.cast(pl.Int64) if is_integral else _cast_text(column, where)
    if column.dtype != pl.String:
        return _cast_text(column, where)
    digits = column.str.strip_suffix(".0")  # what spreadsheets make of whole numbers
    numbers = digits.cast(pl.Int64, strict=False)
    plain = numbers.null_count() == 0 and (numbers.cast(pl.String) == digits).all()
    return numbers if plain else column


def parse_names(column: pl.Series, where: str) -> pl.Series:
    """Return names without surrounding spaces; raise FormatError for empty cells."""
    _require_values(column, where)
    names = _cast_text(column, where)
    bare = names.str.strip_chars()
    changed = bare != names
    if changed.any():
        example = names.filter(changed)[0]
        warnings.warn(
            f"{where}: the column '{column.name}' has names with spaces around them, e.g. '{example}': removed",
            AliquotWarning,
            2,
        )
    return bare


def _require_values(column: pl.Series, where: str) -> None:
    if column.null_count():
        raise FormatError(
            f"{where} row {_find_first_row(column.is_null())}: the column '{column.name}' is empty; every row needs one"
        )


def _cast_text(column: pl.Series, where: str) -> pl.Series:
    if column.dtype.is_nested():
        raise FormatError(f"{where}: the column '{column.name}' holds {column.dtype}; it should hold names")
    return column.cast(pl.String)


def parse_numbers(column: pl.Series, where: str) -> FloatArray:
    """Return finite numbers, NaN if missing; warn if words such as 'NA' are read as missing."""
    if column.dtype.is_nested() or column.dtype.is_temporal():
        raise FormatError(
            f"{where} row 1: '{column[0]}' in column '{column.name}' is not a number ({column.dtype}); scores must be"
        )
    numbers, bad = _cast_numbers(column)
    if column.dtype == pl.Boolean or (bad.any() and not numbers.count()):
        flags = parse_flags(column)
        if flags is not None:
            _warn_flags(column, flags, where)
            return flags
    if bad.any():
        row = _find_first_row(bad)
        if column.str.contains(_DATE).fill_null(value=False).any():
            remedy = "spreadsheets make dates of what looks like one: format the column as text, and type it again"
        elif column.str.contains(_THOUSANDS).fill_null(value=False).any():
            remedy = "write it with a decimal point and without thousands separators"
        else:
            remedy = "correct it, or leave it empty if it is missing"
        more = f" (nor are {bad.sum() - 1} more of {len(bad)} cells)" if bad.sum() > 1 else ""
        raise NotNumericError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a number{more}; {remedy}",
            column.name,
        )
    if column.dtype == pl.String:
        _warn_missing_words(column, numbers.is_null() & (column.str.strip_chars() != ""), where)
        _warn_form(column, numbers, where)
    values: FloatArray = numbers.to_numpy()
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise FormatError(f"{where} row {row}: column '{column.name}' is infinite; leave it empty if it is missing")
    return values


def parse_whole_numbers(column: pl.Series, where: str) -> pl.Series:
    """Return integers, null if missing."""
    numbers = pl.Series(column.name, parse_numbers(column, where), nan_to_null=True)
    broken = (numbers != numbers.round()).fill_null(value=False)
    if broken.any():
        row = _find_first_row(broken)
        raise FormatError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a whole number; correct it"
        )
    return numbers.cast(pl.Int64)


def _warn_missing_words(column: pl.Series, words: pl.Series, where: str) -> None:
    count = int(words.sum())
    if count:
        row = _find_first_row(words)
        warnings.warn(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is read as missing ({count} of "
            f"{len(column)} cells)",
            AliquotWarning,
            3,
        )


def parse_flags(column: pl.Series) -> FloatArray | None:
    """Return 1 and 0 if all cells are true or false, yes or no, pass or fail, or missing; else None.

    >>> parse_flags(pl.Series(["pass", None, "Fail"])), parse_flags(pl.Series(["pass", "4"]))
    (array([ 1., nan,  0.]), None)
    """
    if column.dtype not in (pl.Boolean, pl.String) or column.null_count() == len(column):
        return None
    words = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    flags = words.replace_strict(_FLAGS, default=None, return_dtype=pl.Float64)
    if (flags.is_null() & words.is_not_null() & ~words.is_in(_MISSING_WORDS)).any() or not flags.count():
        return None
    values: FloatArray = flags.to_numpy()
    return values


def _warn_flags(column: pl.Series, flags: FloatArray, where: str) -> None:
    words = [str(column.filter(pl.Series(flags == flag)).head(1).cast(pl.String).to_list()) for flag in (1, 0)]
    meanings = [f"{word[1:-1]} is {flag}" for word, flag in zip(words, (1, 0), strict=True) if word != "[]"]
    warnings.warn(f"{where}: the column '{column.name}' is read as numbers: {', '.join(meanings)}", AliquotWarning, 3)


def _warn_form(column: pl.Series, numbers: pl.Series, where: str) -> None:
    """Warn where numbers are written as percentages or as points out of a number."""
    first = column.filter(numbers.is_not_null()).head(1)
    if first.str.contains(r"[%/]").any():
        value = numbers.drop_nulls()[0]
        warnings.warn(f"{where}: '{first[0]}' in column '{column.name}' is read as {value:g}", AliquotWarning, 3)


def is_numeric(column: pl.Series, where: str) -> bool:
    """Return whether all cells are numbers or missing; raise NotNumericError for a few others among many numbers.

    >>> is_numeric(pl.Series(["1", "n/a", "2.5"]), "t.csv"), is_numeric(pl.Series(["1", "good"]), "t.csv")
    (True, False)
    """
    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    numbers, bad = _cast_numbers(column)
    odd, good = int(bad.sum()), numbers.count()
    if 0 < odd <= max(1, good // _MAX_ODD_CELLS) and good > 1:
        parse_numbers(column, where)  # raises, naming row and value
    return odd == 0


def holds_numbers(column: pl.Series) -> bool:
    """Return whether a column has numbers and, beside missing ones, nothing else.

    >>> holds_numbers(pl.Series(["1", "n/a"])), holds_numbers(pl.Series(["1", "good"])), holds_numbers(pl.Series([""]))
    (True, False, False)
    """
    if column.dtype != pl.String:
        return column.dtype.is_numeric() and column.null_count() < len(column)
    numbers, bad = _cast_numbers(column)
    return not bad.any() and numbers.count() > 0


def holds_file_names(column: pl.Series) -> bool:
    """Return whether texts are names of files, as judgments of several files have them in the column `source`.

    >>> holds_file_names(pl.Series(["a.csv", "new/week2.db", None])), holds_file_names(pl.Series(["A text.", "a.csv"]))
    (True, False)
    """
    if column.dtype != pl.String or column.null_count() == len(column):
        return False
    return bool(column.drop_nulls().unique().str.contains(_FILE_NAME).all())


def describe_text_columns(columns: pl.DataFrame) -> str:
    """List columns that are not read as numbers, with the first text of those that hold some numbers.

    >>> print(describe_text_columns(pl.DataFrame({"note": ["good", "bad"], "BLEU": ["30", "?"]})))
    'note', 'BLEU' (row 2: '?'; 1 of 2 cells are no numbers)
    """
    parts = []
    for column in columns:
        numbers, bad = _cast_numbers(column) if column.dtype == pl.String else (column, pl.Series([False]))
        mixed = bad.any() and numbers.count()
        row = _find_first_row(bad)
        odd = f" (row {row}: '{column[row - 1]}'; {bad.sum()} of {len(column)} cells are no numbers)"
        parts.append(f"'{column.name}'{odd if mixed else ''}")
    return ", ".join(parts)


def infer_type(column: pl.Series) -> pl.Series:
    """Cast a text column to integers, floats or booleans if all its cells are."""
    if column.dtype != pl.String or column.name in ("annotator", "criterion"):
        return column
    numbers, bad = _cast_numbers(column, plain=True)
    if not bad.any():
        integers = column.cast(pl.Int64, strict=False)
        return integers if integers.null_count() == numbers.null_count() else numbers
    folded = column.str.to_lowercase()
    if folded.drop_nulls().is_in(["true", "false"]).all():
        return folded == "true"
    return column


def _cast_numbers(column: pl.Series, *, plain: bool = False) -> tuple[pl.Series, pl.Series]:
    """Return the numbers, null if missing, and a mask of cells that hold something else.

    Unless `plain`, marks such as "-" are missing beside numbers, and columns of percentages or points are numbers.
    """
    if column.dtype != pl.String:
        return column.cast(pl.Float64, strict=False), pl.repeat(value=False, n=len(column), eager=True)
    text = column.str.strip_chars()
    missing = column.is_null() | text.str.to_lowercase().is_in(_MISSING_WORDS)
    numbers = text.cast(pl.Float64, strict=False).set(missing, None)
    bad = numbers.is_null() & ~missing
    if bad.any() and _has_decimal_commas(text.filter(~missing)):
        numbers = text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).set(missing, None)
        bad = numbers.is_null() & ~missing
    if bad.any() and not plain:
        marks = text.str.to_lowercase().is_in(_MISSING_MARKS)
        if not numbers.count():
            numbers = _cast_forms(text).set(missing, None)
        bad = numbers.is_null() & ~missing & ~(marks & (numbers.count() > 0))
    return numbers, bad


def _cast_forms(text: pl.Series) -> pl.Series:
    """Return the numbers that percentages (85% is 0.85) or points out of one number (4/5 is 4) mean, else null.

    >>> _cast_forms(pl.Series(["85%", "12,5 %"])).to_list(), _cast_forms(pl.Series(["4/5", "3/5", "3/4"])).to_list()
    ([0.85, 0.125], [None, None, None])
    """
    point = text.str.replace(",", ".", literal=True)
    percent = point.str.extract(_PERCENT).cast(pl.Float64)
    if percent.count():
        return percent / 100
    denominator = point.str.extract(_FRACTION, 2).cast(pl.Float64)
    several = denominator.drop_nulls().n_unique() != 1
    return point.str.extract(_FRACTION).cast(pl.Float64).set(denominator.is_null() | several, None)


def _has_decimal_commas(text: pl.Series) -> bool:
    """Return whether commas are decimal: no cell has a point, and one comma cannot separate thousands."""
    with_comma = text.filter(text.str.contains(",", literal=True))
    return (
        not text.str.contains(".", literal=True).any()
        and with_comma.str.contains(_DECIMAL_COMMA).all()
        and not with_comma.str.contains(_THOUSANDS).all()
    )


def _find_first_row(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0) + 1
