"""Facts that answer questions of a datasheet: from the data, and from the results of other verbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

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

_MOST_LISTED = 11
_PERCENT_SCALES = ((0, 100), (1, 100))
_ALPHA, _POWER = 0.05, 0.80


def is_control(table: pl.DataFrame) -> pl.Expr:
    """True for judgments of control items: `control` holds true, or a kind such as training."""
    if "control" not in table.columns:
        return pl.lit(value=False)
    if table["control"].dtype == pl.Boolean:
        return pl.col("control").fill_null(value=False)
    said = pl.col("control").cast(pl.String).str.strip_chars().str.to_lowercase()
    return said.is_not_null() & ~said.is_in(["", "false", "0", "no"])


def answered(judgments: Judgments) -> pl.DataFrame:
    """Return the answers that count and have a value, one row each, without control items."""
    table = judgments.answers()
    return table.filter(pl.col("value").is_not_null() & ~is_control(table))


def outputs_per_system(data: EvalSet, human: str | None) -> dict[str, int]:
    """Count the outputs of each system that somebody judged; systems without any are left out."""
    if data.judgments is not None:
        table = answered(data.judgments)
        counts = table.group_by("system").agg(pl.col("item").n_unique().alias("n"))
        found = dict(zip(counts["system"].to_list(), counts["n"].to_list(), strict=True))
    elif human is not None:
        found = dict(zip(data.systems, np.isfinite(data.scores[human]).sum(axis=0).tolist(), strict=True))
    else:
        found = {}
    return {system: found[system] for system in data.systems if found.get(system)}


def planned_outputs(selection: Selection, systems: tuple[str, ...]) -> dict[str, int]:
    """Count the outputs of each system that a selection asks to judge."""
    if selection.systems is None:
        return dict.fromkeys(systems, len(selection))
    counts = Counter(system for names in selection.systems for system in names)
    return {system: counts[system] for system in systems if counts[system]}


def written_count(per_system: dict[str, int], limit: int = 4) -> str:
    """Write the number of outputs per system; where systems differ, the most frequent with the others in brackets.

    >>> written_count({"A": 10, "B": 10}), written_count({"A": 10, "B": 10, "ref": 4})
    ('10', '10 (ref: 4)')
    """
    usual = Counter(per_system.values()).most_common(1)[0][0]
    others = [f"{system}: {n}" for system, n in per_system.items() if n != usual]
    if not others:
        return str(usual)
    more = f"; {len(others) - limit} more, from {min(per_system.values())} to {max(per_system.values())}"
    return f"{usual} ({'; '.join(others[:limit]).replace('(', '[').replace(')', ']')}{more * (len(others) > limit)})"


def judgments_per_output(judgments: Judgments, criterion: str | None = None) -> str:
    """Write how many judgments an output got.

    >>> table = pl.DataFrame({"item": [0, 0, 1], "system": ["A"] * 3, "annotator": ["x", "y", "x"], "value": [1, 2, 3]})
    >>> judgments_per_output(Judgments(table))
    '1 to 2 judgments per output, 1.5 on average'
    """
    table = answered(judgments)
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
    """The size (4.3.3) and values (4.3.4) of a scale, as far as the values given tell."""

    size: str
    values: str


def observed_scale(values: FloatArray, value_range: tuple[float, float] | None = None) -> ObservedScale | None:
    """Tell the scale from the values people gave (all points of a short one, both ends of 0-100), or None where open.

    >>> observed_scale(np.array([0.0, 66, 100])), observed_scale(np.array([3.0, 66, 98]))
    (ObservedScale(size='101', values='0-100'), None)
    """
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    whole = bool((values == np.round(values)).all())
    low, high = value_range if value_range is not None else (float(values.min()), float(values.max()))
    if not whole:
        return ObservedScale("continuous", f"{low:g} to {high:g}") if value_range is not None else None
    points = np.unique(values)
    every = high - low + 1
    if value_range is None and (low, high) not in _PERCENT_SCALES and not (1 < len(points) == every <= _MOST_LISTED):
        return None
    written = ", ".join(f"{low + at:g}" for at in range(int(every))) if every <= _MOST_LISTED else f"{low:g}-{high:g}"
    return ObservedScale(f"{int(every)}", written.replace("--", " to -"))


def detectable_difference(scores: FloatArray) -> str | None:
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
"""Names that a reader knows; those of aliquot where there is no other."""


_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class _Estimate(msgspec.Struct):
    """What a sheet uses of an estimate; likewise the others below."""

    method: str | None = None
    interval: str | None = None
    level: _Share = 0.95
    population: int | None = None
    judged: int | None = None


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


class _Agreement(msgspec.Struct):
    level: str | None = None
    confidence: _Share = 0.95
    coefficients: list[_Coefficient] = []
    repeats: list[_Repeats] = []


class _Step(msgspec.Struct):
    step: str | None = None
    applied: bool | None = None
    marked: int | None = None


class _Person(msgspec.Struct):
    marked: int | None = None
    answers: int | None = None


class _Cleaning(msgspec.Struct):
    steps: list[_Step] = []
    annotators: list[_Person] = []


_DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {"estimate": _Estimate, "agreement": _Agreement, "clean": _Cleaning}


@dataclass(frozen=True, eq=False)
class Result:
    """One result: the verb that gave it, its signature taken apart, and the whole document."""

    verb: str
    signature: str
    fields: Mapping[str, str]
    document: Mapping[str, Any]


def read_result(result: object) -> Result:
    """Read a result from a file (`--json` or `-o FILE.json` of a verb), a document, or an object with `to_dict`.

    >>> read_result({"signature": "aliquot:0.1.0|estimate:greg|human:mqm|data:3f9c21"}).fields["human"]
    'mqm'
    """
    where = "result"
    if isinstance(result, str | Path):
        where = str(result)
        remedy = "give what a verb prints with --json; a selection belongs to --selection"
        result = decode_json(read_bytes(result), where, remedy)
    elif not isinstance(result, Mapping):
        to_dict = getattr(result, "to_dict", None)
        if to_dict is None:
            raise OptionError(f"a {type(result).__name__} is not a result; give a file, a document or a result object")
        result = to_dict()
    if not isinstance(result, Mapping) or not isinstance(result.get("signature"), str) or not result["signature"]:
        raise FormatError(f"{where}: no signature in it; give what an aliquot verb prints with --json")
    verb, fields = _taken_apart(result["signature"])
    try:
        msgspec.convert(result, _DOCUMENTS.get(verb, msgspec.Struct))
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"{where}: is no result of `aliquot {verb}` ({error}); give it as --json printed it"
        ) from None
    return Result(verb, result["signature"], fields, result)


def _taken_apart(signature: str) -> tuple[str, dict[str, str]]:
    """Split `aliquot:0.1.0|verb:spec|key:value|...` into the verb and its fields; the spec is called `method`."""
    parts = [part.partition(":") for part in signature.split("|")]
    if not parts or parts[0][0] != "aliquot":
        raise FormatError(f"the signature '{signature}' is not aliquot's; give what an aliquot verb prints with --json")
    verb, _, spec = parts[1] if len(parts) > 1 else ("", "", "")
    return verb, ({"method": spec} if spec else {}) | {key: value for key, _, value in parts[2:]}


def about(result: Result, criterion: str, criteria: Sequence[str]) -> bool:
    """Tell whether a result speaks of a criterion: it names it, or it names none of the sheet's criteria."""
    named = [_bare(result.fields[key]) for key in ("criterion", "human") if key in result.fields]
    ours = {_bare(name) for name in criteria}
    mentioned = [name for name in named if name in ours]
    return not mentioned or _bare(criterion) in mentioned


def _bare(name: str) -> str:
    return name.casefold().removeprefix("human_").removeprefix("human-")


def aggregation(result: Result) -> str | None:
    """Say how scores came from answers (4.3.9)."""
    document = result.document
    if result.verb == "estimate" and "judged" in document:
        return (
            f"each system's mean over all {document.get('population')} items, estimated from {document['judged']} "
            f"judged items by {document.get('method')} ({result.signature})"
        )
    if result.verb == "combine":
        given = [f"{word} {result.fields[key]}" for key, word in _COMBINING.items() if key in result.fields]
        return f"answers combined by aliquot combine: {', '.join(given) or 'mean'} ({result.signature})"
    return None


_ADJUSTMENTS = {"bh": "Benjamini-Hochberg over pairs", "holm": "Holm over pairs", "maxt": "max-t over pairs"}


def significance(result: Result) -> str | None:
    """Say how effect sizes and significance were determined (4.3.10)."""
    fields = result.fields
    if result.verb == "estimate" and "pairs" in result.document:
        test = fields.get("test", "estimator")
        of_test = "t test from the estimator's covariance" if test == "estimator" else f"{test} test"
        published = fields.get("rule") == "published"
        pairs = "one-sided" if published else "two-sided"
        many = "each pair alone" if published else _ADJUSTMENTS.get(fields.get("adjust", "bh"), "unadjusted")
        return (
            f"differences of means with {float(result.document.get('level', 0.95)):.0%} intervals "
            f"({result.document.get('interval')}); {pairs} {of_test}, {many}; clusters at alpha "
            f"{fields.get('alpha', '0.05')} ({result.signature})"
        )
    if result.verb == "compare":
        return f"preferences compared pair by pair, {result.fields.get('method', 'pairwise')} ({result.signature})"
    return None


def power(result: Result) -> str | None:
    """Say what a plan found about power (3.1.3)."""
    if result.verb != "plan":
        return None
    asked = [
        f"{key} {result.fields[key]}" for key in ("power", "alpha", "delta", "difference", "sd") if key in result.fields
    ]
    return f"{', '.join(asked) or 'Planned'}: computed by aliquot plan ({result.signature})"


def agreement(result: Result, criterion: str, criteria: Sequence[str]) -> str | None:
    """Write the coefficients of an agreement result that belong to a criterion (4.3.11), or None where none do.

    Those over all answers are a criterion's own only where there is one criterion.
    """
    if result.verb != "agreement":
        return None
    rows = [row for row in result.document.get("coefficients", ()) if isinstance(row, Mapping)]
    own = [row for row in rows if row.get("kind") == "criterion" and _bare(str(row.get("group"))) == _bare(criterion)]
    whole = [row for row in rows if row.get("kind") == "all"] if len(criteria) == 1 else []
    level = str(result.document.get("level", ""))
    values = [text for row in own or whole if (text := _coefficient(row, level)) is not None]
    if not values:
        return None
    if any("[" in value for value in values):
        values[-1] += f" ({float(result.document.get('confidence', 0.95)):.0%} intervals)"
    return f"{'; '.join([*values, *_repeats(result)])} ({result.signature})"


def _coefficient(row: Mapping[str, Any], level: str) -> str | None:
    value, low, high = (row.get(name) for name in ("value", "low", "high"))
    if not isinstance(value, int | float):
        return None
    measure = str(row.get("measure"))
    name = f"Krippendorff's alpha, {level}" if measure == "alpha" and level else _COEFFICIENTS.get(measure, measure)
    known = isinstance(low, int | float) and isinstance(high, int | float)
    return f"{name}: {value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if known else "")


def _repeats(result: Result) -> list[str]:
    """Say how far annotators agree with themselves, over all criteria, where outputs were shown again."""
    rows = [row for row in result.document.get("repeats", ()) if isinstance(row, Mapping) and row.get("repeats")]
    if not rows or not isinstance(rows[0].get("same"), int | float):
        return []
    r = rows[0].get("pearson")
    correlated = f", Pearson's r {r:.3f}" if isinstance(r, int | float) else ""
    said = f"{rows[0]['same']:.0%} the same answer{correlated}"
    return [f"with themselves, on {rows[0]['repeats']} repeated outputs: {said}"]


def cleaning(result: Result) -> str | None:
    """Say which steps cleaned the judgments and how many they marked (3.3.3)."""
    if result.verb != "clean":
        return None
    steps = [step for step in result.document.get("steps", ()) if isinstance(step, Mapping) and step.get("applied")]
    done = "; ".join(f"{step.get('step')} marked {step.get('marked')}" for step in steps)
    return f"cleaned by aliquot clean: {done or 'no step applied'} ({result.signature})"


def leaves_out(result: Result) -> tuple[bool, bool]:
    """Tell whether a cleaning left out some, not all, judgments of annotators, and all judgments of some others."""
    steps = [step for step in result.document.get("steps", ()) if isinstance(step, Mapping)]
    people = [row for row in result.document.get("annotators", ()) if isinstance(row, Mapping)]
    partly = any(0 < (row.get("marked") or 0) < (row.get("answers") or 0) for row in people)
    unknown = not people and any(step.get("marked") for step in steps)
    return partly or unknown, any(step.get("annotators") for step in steps)


# -- All evidence together -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data of one experiment, the selection, and results of other verbs: what a sheet is filled in from."""

    data: EvalSet | None
    human: str | None
    selection: Selection | None
    results: tuple[Result, ...]
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
        kept = judgments.table.filter(pl.col("criterion") == name)
        return Judgments(kept) if kept.height else None


def protocols(judgments: Judgments | None) -> list[str]:
    """Return the protocols that judgments name."""
    if judgments is None or "protocol" not in judgments.table.columns:
        return []
    return judgments.table["protocol"].drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital first, a full stop last.

    >>> sentence("three judgments per output")
    'Three judgments per output.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
