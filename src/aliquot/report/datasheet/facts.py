"""Facts that answer questions of a datasheet: from the data, and from the results of other verbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import polars as pl
from scipy.special import ndtri

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.selection import Selection
from aliquot.errors import FormatError, OptionError
from aliquot.io.files import decode_json, read_bytes
from aliquot.stats.arrays import FloatArray
from aliquot.stats.pairwise import pairwise_sums

# -- From the data: outputs, judgments per output, scale, power ------------------------------------------------------

MAX_LISTED = 11  # points of a scale that are written out
_PERCENT_SCALES = ((0, 100), (1, 100))
_ALPHA, _POWER = 0.05, 0.80


def is_control(table: pl.DataFrame) -> pl.Expr:
    """Return an expression that is true for judgments of control items: `control` is true or names their kind."""
    if "control" not in table.columns:
        return pl.lit(value=False)
    if table["control"].dtype == pl.Boolean:
        return pl.col("control").fill_null(value=False)
    text = pl.col("control").cast(pl.String).str.strip_chars().str.to_lowercase()
    return text.is_not_null() & ~text.is_in(["", "false", "0", "no"])


def list_answers(judgments: Judgments) -> pl.DataFrame:
    """Return the answers that count and have a value, one row each, without control items."""
    table = judgments.answers()
    return table.filter(pl.col("value").is_not_null() & ~is_control(table))


def count_outputs(data: EvalSet, human: str | None) -> dict[str, int]:
    """Count the judged outputs of each system; systems without any are left out."""
    if data.judgments is not None:
        table = list_answers(data.judgments)
        counts = table.group_by("system").agg(pl.col("item").n_unique().alias("n"))
        counts_by_system = dict(zip(counts["system"].to_list(), counts["n"].to_list(), strict=True))
    elif human is not None:
        counts_by_system = dict(zip(data.systems, np.isfinite(data.scores[human]).sum(axis=0).tolist(), strict=True))
    else:
        counts_by_system = {}
    return {system: counts_by_system[system] for system in data.systems if counts_by_system.get(system)}


def count_planned_outputs(selection: Selection, systems: tuple[str, ...]) -> dict[str, int]:
    """Count the outputs of each system that a selection asks to judge."""
    if selection.systems is None:
        return dict.fromkeys(systems, len(selection))
    counts = Counter(system for names in selection.systems for system in names)
    return {system: counts[system] for system in systems if counts[system]}


def write_counts(per_system: dict[str, int], limit: int = 4) -> str:
    """Write the number of outputs per system; where systems differ, the most frequent with the others in brackets.

    >>> write_counts({"A": 10, "B": 10}), write_counts({"A": 10, "B": 10, "ref": 4})
    ('10', '10 (ref: 4)')
    """
    usual = Counter(per_system.values()).most_common(1)[0][0]
    unusual = [f"{system}: {n}" for system, n in per_system.items() if n != usual]
    if not unusual:
        return str(usual)
    more = f"; {len(unusual) - limit} more, from {min(per_system.values())} to {max(per_system.values())}"
    return f"{usual} ({'; '.join(unusual[:limit]).replace('(', '[').replace(')', ']')}{more * (len(unusual) > limit)})"


def describe_judgments_per_output(judgments: Judgments, criterion: str | None = None) -> str:
    """Write how many judgments an output got.

    >>> table = pl.DataFrame({"item": [0, 0, 1], "system": ["A"] * 3, "annotator": ["x", "y", "x"], "value": [1, 2, 3]})
    >>> describe_judgments_per_output(Judgments(table))
    '1 to 2 judgments per output, 1.5 on average'
    """
    table = list_answers(judgments)
    if criterion is not None:
        table = table.filter(pl.col("criterion") == criterion)
    counts = table.group_by("item", "system").len()["len"].to_numpy()
    if not len(counts):
        return "no judgments"
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return f"{low} judgment{'s' * (low != 1)} per output"
    return f"{low} to {high} judgments per output, {counts.mean():.1f} on average"


@dataclass(frozen=True)
class ObservedScale:
    """The size (4.3.3) and values (4.3.4) of a scale, inferred from the values."""

    size: str
    values: str


def infer_scale(values: FloatArray, value_range: tuple[float, float] | None = None) -> ObservedScale | None:
    """Infer the scale from the values (all points of a short one, both ends of 0-100), or None where open.

    >>> infer_scale(np.array([0.0, 66, 100])), infer_scale(np.array([3.0, 66, 98]))
    (ObservedScale(size='101', values='0-100'), None)
    """
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    is_integer = bool((values == np.round(values)).all())
    low, high = value_range if value_range is not None else (float(values.min()), float(values.max()))
    if not is_integer:
        return ObservedScale("continuous", f"{low:g} to {high:g}") if value_range is not None else None
    points = np.unique(values)
    size = high - low + 1
    if value_range is None and (low, high) not in _PERCENT_SCALES and not (1 < len(points) == size <= MAX_LISTED):
        return None
    written = ", ".join(f"{low + index:g}" for index in range(int(size))) if size <= MAX_LISTED else f"{low:g}-{high:g}"
    return ObservedScale(f"{int(size)}", written.replace("--", " to -"))


def describe_detectable_difference(scores: FloatArray) -> str | None:
    """Write which difference the judged items detect, or None where that is unknown (docs/methods.md, section 7).

    The median over pairs of (z_{1-alpha/2} + z_power) s_d / sqrt(n), n items in common, s_d the sd of differences.
    """
    if scores.shape[1] < 2:
        return None
    sums = pairwise_sums(scores)
    use = sums.count >= 2
    if not use.any():
        return None
    n = sums.count[use].astype(np.float64)
    variance = np.maximum(sums.squares[use] - sums.total[use] ** 2 / n, 0.0) / (n - 1)
    z = float(ndtri(1 - _ALPHA / 2) + ndtri(_POWER))
    least = z * np.sqrt(variance / n)
    if not least.max() > 0:
        return None
    pairs = len(least)
    spread = f"; from {least.min():.3g} to {least.max():.3g} over the {pairs} pairs" if pairs > 1 else ""
    items = f"{int(n.min())}" if n.min() == n.max() else f"{int(n.min())} to {int(n.max())}"
    middle = "median " if pairs > 1 else ""
    return (
        f"A difference of {np.median(least):.3g} points between two systems is detected with power {_POWER:.2f} at "
        f"alpha {_ALPHA:.2f} (two-sided, paired over {items} items, {middle}sd of the differences "
        f"{np.median(np.sqrt(variance)):.3g}{spread})."
    )


# -- From the results of other verbs: any JSON document with a signature --------------------------------------------

_COMBINING = {
    "method": "method",
    "formula": "joined by",
    "normalise": "normalised by",
    "recode": "recoded as",
    "experts": "experts",
}
_COEFFICIENTS = {
    "raw": "raw agreement",
    "kappa": "Cohen's kappa",
    "kappa_linear": "kappa with linear weights",
    "kappa_quadratic": "kappa with quadratic weights",
    "fleiss": "Fleiss' kappa",
    "pearson": "Pearson's r",
    "spearman": "Spearman's rho",
    **{f"icc{kind}": f"ICC({kind},1)" for kind in "123"},
    **{f"icc{kind}k": f"ICC({kind},k)" for kind in "123"},
}
"""Usual names of coefficients; others keep aliquot's."""


_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class _Document(msgspec.Struct):
    """What a sheet uses of a result; of results of other verbs nothing."""


class _Estimate(_Document):
    method: str | None = None
    interval: str | None = None
    level: _Share = 0.95
    population: int | None = None
    judged: int | None = None
    pairs: list[object] | None = None


class _Coefficient(msgspec.Struct):
    kind: str | None = None
    group: str | int | float | None = None
    measure: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None


class _Repeats(msgspec.Struct):
    repeats: int | None = None
    same: float | None = None
    pearson: float | None = None


class _Agreement(_Document):
    level: str | None = None
    confidence: _Share = 0.95
    coefficients: list[_Coefficient] = []
    repeats: list[_Repeats] = []


class _Step(msgspec.Struct):
    step: str | None = None
    applied: bool | None = None
    marked: int | None = None
    annotators: int | None = None


class _Person(msgspec.Struct):
    marked: int | None = None
    answers: int | None = None


class _Cleaning(_Document):
    steps: list[_Step] = []
    annotators: list[_Person] = []


_DOCUMENTS: Mapping[str, type[_Document]] = {"estimate": _Estimate, "agreement": _Agreement, "clean": _Cleaning}


@dataclass(frozen=True, eq=False)
class VerbResult:
    """A result of another verb: the verb, the signature with its fields, and what a sheet uses of the document."""

    verb: str
    signature: str
    fields: Mapping[str, str]
    document: _Document


def read_result(result: object) -> VerbResult:
    """Read a result from a file with the JSON document of a verb, the document itself, or an object with `to_dict`.

    >>> read_result({"signature": "aliquot:0.1.0|estimate:greg|human:mqm|data:3f9c21"}).fields["human"]
    'mqm'
    """
    where = "result"
    if isinstance(result, str | Path):
        where = str(result)
        remedy = "give the JSON document of a verb; a selection belongs to `selection`"
        result = decode_json(read_bytes(result), where, remedy)
    elif not isinstance(result, Mapping):
        to_dict = getattr(result, "to_dict", None)
        if to_dict is None:
            raise OptionError(f"a {type(result).__name__} is not a result; give a file, a document or a result object")
        result = to_dict()
    if not isinstance(result, Mapping) or not isinstance(result.get("signature"), str) or not result["signature"]:
        raise FormatError(f"{where}: no signature in it; give the JSON document of an aliquot verb")
    verb, fields = _parse_signature(result["signature"])
    try:
        document = msgspec.convert(result, _DOCUMENTS.get(verb, _Document))
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"{where}: is no result of `aliquot {verb}` ({error}); give the JSON document as it was written"
        ) from None
    return VerbResult(verb, result["signature"], fields, document)


def _parse_signature(signature: str) -> tuple[str, dict[str, str]]:
    """Split `aliquot:0.1.0|verb:spec|key:value|...` into the verb and its fields; the spec is called `method`."""
    parts = [part.partition(":") for part in signature.split("|")]
    if not parts or parts[0][0] != "aliquot":
        raise FormatError(f"the signature '{signature}' is not aliquot's; give the JSON document of an aliquot verb")
    verb, _, spec = parts[1] if len(parts) > 1 else ("", "", "")
    return verb, ({"method": spec} if spec else {}) | {key: value for key, _, value in parts[2:]}


def is_about(result: VerbResult, criterion: str, criteria: Sequence[str]) -> bool:
    """Return whether a result is about a criterion: it names it, or it names none of the sheet's criteria."""
    mentioned = [_bare_name(result.fields[key]) for key in ("criterion", "human") if key in result.fields]
    criterion_names = {_bare_name(name) for name in criteria}
    return not criterion_names.intersection(mentioned) or _bare_name(criterion) in mentioned


def _bare_name(name: str) -> str:
    return name.casefold().removeprefix("human_").removeprefix("human-")


def describe_aggregation(result: VerbResult) -> str | None:
    """Say how scores came from answers (4.3.9)."""
    match result.document:
        case _Estimate(judged=int(judged)) as document:
            return (
                f"each system's mean over all {document.population} items, estimated from {judged} judged items by "
                f"{document.method} ({result.signature})"
            )
    if result.verb == "combine":
        parts = [f"{word} {result.fields[key]}" for key, word in _COMBINING.items() if key in result.fields]
        return f"answers combined by aliquot combine: {', '.join(parts) or 'mean'} ({result.signature})"
    return None


_ADJUSTMENTS = {"bh": "Benjamini-Hochberg over pairs", "holm": "Holm over pairs", "maxt": "max-t over pairs"}


def describe_significance(result: VerbResult) -> str | None:
    """Say how effect sizes and significance were determined (4.3.10)."""
    fields, document = result.fields, result.document
    if isinstance(document, _Estimate) and document.pairs is not None:
        test = fields.get("test", "estimator")
        of_test = "t test from the estimator's covariance" if test == "estimator" else f"{test} test"
        published = fields.get("rule") == "published"
        pairs = "one-sided" if published else "two-sided"
        adjustment = "each pair alone" if published else _ADJUSTMENTS.get(fields.get("adjust", "bh"), "unadjusted")
        return (
            f"differences of means with {document.level:.0%} intervals ({document.interval}); {pairs} {of_test}, "
            f"{adjustment}; clusters at alpha {fields.get('alpha', '0.05')} ({result.signature})"
        )
    if result.verb == "compare":
        return f"preferences compared pair by pair, {fields.get('method', 'pairwise')} ({result.signature})"
    return None


def describe_power(result: VerbResult) -> str | None:
    """Say what a plan found about power (3.1.3)."""
    if result.verb != "plan":
        return None
    names = ("power", "alpha", "delta", "difference", "sd")
    inputs = [f"{name} {result.fields[name]}" for name in names if name in result.fields]
    return f"{', '.join(inputs) or 'Planned'}: computed by aliquot plan ({result.signature})"


def describe_agreement(result: VerbResult, criterion: str, criteria: Sequence[str]) -> str | None:
    """Write the coefficients of an agreement result that belong to a criterion (4.3.11), or None where none do.

    Those over all answers are a criterion's own only where there is one criterion.
    """
    document = result.document
    if not isinstance(document, _Agreement):
        return None
    rows = [row for row in document.coefficients if row.value is not None]
    matches = [row for row in rows if row.kind == "criterion" and _bare_name(str(row.group)) == _bare_name(criterion)]
    overall = [row for row in rows if row.kind == "all"] if len(criteria) == 1 else []
    values = [_write_coefficient(row, document.level) for row in matches or overall]
    if not values:
        return None
    if any("[" in value for value in values):
        values[-1] += f" ({document.confidence:.0%} intervals)"
    return f"{'; '.join([*values, *_describe_repeats(document.repeats)])} ({result.signature})"


def _write_coefficient(row: _Coefficient, level: str | None) -> str:
    measure = str(row.measure)
    name = f"Krippendorff's alpha, {level}" if measure == "alpha" and level else _COEFFICIENTS.get(measure, measure)
    interval = "" if row.low is None or row.high is None else f" [{row.low:.3f}, {row.high:.3f}]"
    return f"{name}: {row.value:.3f}{interval}"


def _describe_repeats(rows: Sequence[_Repeats]) -> list[str]:
    """Say how far annotators agree with themselves, over all criteria, where outputs were shown again."""
    first = next((row for row in rows if row.repeats), None)
    if first is None or first.same is None:
        return []
    correlation = "" if first.pearson is None else f", Pearson's r {first.pearson:.3f}"
    return [f"with themselves, on {first.repeats} repeated outputs: {first.same:.0%} the same answer{correlation}"]


def describe_cleaning(result: VerbResult) -> str | None:
    """Say which steps cleaned the judgments and how many they marked (3.3.3)."""
    document = result.document
    if not isinstance(document, _Cleaning):
        return None
    steps = "; ".join(f"{step.step} marked {step.marked}" for step in document.steps if step.applied)
    return f"cleaned by aliquot clean: {steps or 'no step applied'} ({result.signature})"


def leaves_out(result: VerbResult) -> tuple[bool, bool]:
    """Return whether a cleaning left out some, not all, judgments of annotators, and all judgments of some others."""
    document = result.document
    if not isinstance(document, _Cleaning):
        return False, False
    partly = any(0 < (person.marked or 0) < (person.answers or 0) for person in document.annotators)
    unknown = not document.annotators and any(step.marked for step in document.steps)
    return partly or unknown, any(step.annotators for step in document.steps)


# -- All evidence together -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data of one experiment, the selection, and results of other verbs: what a sheet is filled in from."""

    data: EvalSet | None
    human: str | None
    selection: Selection | None
    results: tuple[VerbResult, ...]
    value_range: tuple[float, float] | None
    criteria: tuple[str, ...]
    protocol: str | None = None

    @property
    def judgments(self) -> Judgments | None:
        """The judgments of the experiment."""
        return None if self.data is None else self.data.judgments

    def judgments_of(self, name: str) -> Judgments | None:
        """Return the judgments of a criterion: those that name it, or all where none is named and there is only one."""
        judgments = self.judgments
        if judgments is None or (not judgments.criteria and len(self.criteria) > 1):
            return None
        if not judgments.criteria:
            return judgments
        table = judgments.table.filter(pl.col("criterion") == name)
        return Judgments(table) if table.height else None


def list_judgment_protocols(judgments: Judgments | None) -> list[str]:
    """Return the protocols that judgments name."""
    if judgments is None or "protocol" not in judgments.table.columns:
        return []
    return judgments.table["protocol"].drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()


def as_sentence(text: str) -> str:
    """Return a text as a sentence: a capital first, a full stop last.

    >>> as_sentence("three judgments per output")
    'Three judgments per output.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
