"""What results of other verbs say that a datasheet asks for: any JSON document with a signature, of any verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aliquot.data.files import read_bytes
from aliquot.errors import FormatError, OptionError

_COMBINING = {
    "method": "method", "formula": "joined by", "normalise": "normalised by", "recode": "recoded as",
    "experts": "experts",
}  # fmt: skip
_COEFFICIENTS = {
    "raw": "raw agreement", "kappa": "Cohen's kappa", "kappa_linear": "kappa with linear weights",
    "kappa_quadratic": "kappa with quadratic weights", "fleiss": "Fleiss' kappa", "pearson": "Pearson's r",
    "spearman": "Spearman's rho", **{f"icc{kind}": f"ICC({kind},1)" for kind in "123"},
    **{f"icc{kind}k": f"ICC({kind},k)" for kind in "123"},
}  # fmt: skip
"""Names that a reader knows; those of aliquot where there is no other."""


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
        try:
            result = msgspec.json.decode(read_bytes(result))
        except msgspec.MsgspecError as error:
            raise FormatError(
                f"{where}: not one JSON document ({error}); give what a verb prints with --json; "
                "a selection belongs to --selection"
            ) from None
    elif not isinstance(result, Mapping):
        to_dict = getattr(result, "to_dict", None)
        if to_dict is None:
            raise OptionError(f"a {type(result).__name__} is not a result; give a file, a document or a result object")
        result = to_dict()
    if not isinstance(result, Mapping) or not isinstance(result.get("signature"), str) or not result["signature"]:
        raise FormatError(f"{where}: no signature in it; give what an aliquot verb prints with --json")
    verb, fields = _taken_apart(result["signature"])
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


def significance(result: Result) -> str | None:
    """Say how effect sizes and significance were determined (4.3.10)."""
    fields = result.fields
    if result.verb == "estimate" and "pairs" in result.document:
        test = fields.get("test", "estimator")
        of_test = "z test from the estimator's covariance" if test == "estimator" else f"{test} test"
        holm = ", Holm over pairs" if fields.get("holm") == "yes" else ""
        return (
            f"differences of means with {float(result.document.get('level', 0.95)):.0%} intervals "
            f"({result.document.get('interval')}); one-sided {of_test}{holm}; clusters at alpha "
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
