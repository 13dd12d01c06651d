"""Verdicts of the other kinds of `compare`, and those of questionnaires."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aliquot.core.verdict_words import join_names, p_words

if TYPE_CHECKING:
    from aliquot.annotation.criteria import Criteria
    from aliquot.annotation.error_importance import ErrorImportance
    from aliquot.annotation.group_changes import GroupChanges
    from aliquot.annotation.side_by_side import PostEditing, Verification
    from aliquot.annotation.surveys import AffectScores, PoolReduction

_ALPHA = 0.05


def verification_verdict(result: Verification) -> str:
    """Which system is right more often."""
    known = [row for row in result.pairs if not math.isnan(row.difference)]
    if not known:
        return "There is no pair of systems to compare."
    row = max(known, key=lambda pair: abs(pair.difference))
    better, worse = (row.a, row.b) if row.difference >= 0 else (row.b, row.a)
    accuracy = sorted((row.accuracy_a, row.accuracy_b), reverse=True)
    shares = f"{accuracy[0]:.0%} against {accuracy[1]:.0%}, {p_words(row.p)}"
    first = (f"{better} is right more often than {worse} ({shares})." if row.p < _ALPHA
             else f"{row.a} and {row.b} cannot be told apart ({shares}).")  # fmt: skip
    return first if len(known) == 1 else f"{first} That is the largest difference of {len(known)} pairs."


def postedit_verdict(result: PostEditing) -> str:
    """Whose outputs need fewer edits."""
    row = result.rows[-1]
    if math.isnan(row.difference):
        return f"The edits of {row.a} and {row.b} cannot be compared."
    fewer, more = (row.a, row.b) if row.difference <= 0 else (row.b, row.a)
    edits = sorted((row.edits_a, row.edits_b))
    text = f"{edits[0]:.1f} against {edits[1]:.1f} characters per segment, {p_words(row.p)}"
    if not row.p < _ALPHA:
        return f"{row.a} and {row.b} need about as many edits ({text})."
    return f"Outputs of {fewer} need fewer edits than those of {more} ({text})."


def criteria_verdict(result: Criteria) -> str:
    """Whether the criteria measure different things."""
    factors = 0 if result.factors is None else result.factors.loadings.shape[1]
    closest = max(result.pairs, key=lambda pair: abs(pair.correlation), default=None)
    near = "" if closest is None else f" {closest.a} and {closest.b} are closest (r = {closest.correlation:.2f})."
    if not factors:
        return f"The {len(result.names)} criteria share no factor that random data would not show.{near}"
    things = "one thing" if factors == 1 else f"{factors} different things"
    return f"The {len(result.kept)} criteria measure {things}.{near}"


def importance_verdict(result: ErrorImportance) -> str:
    """Which type of error costs most."""
    known = [row for row in result.rows if row.annotator is None and not math.isnan(row.standardised)]
    if not known:
        return "No type of error can be weighed against the scores."
    texts = []
    for target in dict.fromkeys(row.target for row in known):
        worst = min((row for row in known if row.target == target), key=lambda row: row.standardised)
        if worst.high < 0:
            texts.append(f"{worst.error} costs most of {target}: {abs(worst.slope):.3g} points per error")
        else:
            texts.append(f"no type of error is sure to lower {target}")
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}."


def groups_verdict(result: GroupChanges) -> str:
    """Which measures changed more in one group than in the other."""
    found = [row for row in result.rows if row.p_adjusted < _ALPHA]
    if not found:
        return f"None of {len(result.rows)} measures changed more in one group than in the other."
    texts = [f"{row.measure} ({p_words(row.p_adjusted)})" for row in found]
    groups = f"{result.rows[0].first} and {result.rows[0].second}"
    return f"{groups} changed differently in {len(found)} of {len(result.rows)} measures: {join_names(texts)}."


def pool_verdict(result: PoolReduction) -> str:
    """How many questions stay."""
    return f"{len(result.kept)} of {len(result.rows)} questions are suitable."


def affect_verdict(result: AffectScores) -> str:
    """Mean positive and negative affect."""
    known = [row for row in result.rows if not math.isnan(row.positive + row.negative)]
    if not known:
        return "No questionnaire is complete."
    positive, negative = (sum(getattr(row, name) for row in known) / len(known) for name in ("positive", "negative"))
    return f"Mean affect of {len(known)} questionnaires: positive {positive:.1f}, negative {negative:.1f} (10 to 50)."


COMPARED: Mapping[str, Callable[[Any], str]] = {
    "Verification": verification_verdict, "PostEditing": postedit_verdict, "Criteria": criteria_verdict,
    "ErrorImportance": importance_verdict, "GroupChanges": groups_verdict, "PoolReduction": pool_verdict,
    "AffectScores": affect_verdict,
}  # fmt: skip
