"""Verdicts of the other kinds of `compare`, and those of questionnaires."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aliquot.core.verdict_words import format_p, join_names

if TYPE_CHECKING:
    from aliquot.annotation.criteria_result import Criteria
    from aliquot.annotation.error_importance import ErrorImportance
    from aliquot.annotation.group_changes import GroupChanges
    from aliquot.annotation.postediting import PostEdited, PostEditing
    from aliquot.annotation.questionnaires import AffectScores, PoolReduction
    from aliquot.annotation.verification import Verification, VerifiedPair

_ALPHA = 0.05


def verification_verdict(result: Verification) -> str:
    """Return which system is right more often."""
    tested = [row for row in result.pairs if not math.isnan(row.p)]
    if not tested:
        return "No two systems were told apart by any judgment: there is no difference to test."
    row = min(tested, key=lambda pair: (pair.p_adjusted, pair.p, -abs(pair.difference)))
    better, worse = (row.a, row.b) if row.difference >= 0 else (row.b, row.a)
    accuracy = sorted((row.accuracy_a, row.accuracy_b), reverse=True)
    shares = f"{accuracy[0]:.0%} against {accuracy[1]:.0%}, {format_p(row.p, row.p_adjusted)}"
    clearest = (
        f"{better} is right more often than {worse} ({shares})."
        if row.p_adjusted < _ALPHA
        else f"{row.a} and {row.b} cannot be told apart ({shares})."
    )
    return f"{clearest}{_count_separated(tested)}"


def postedit_verdict(result: PostEditing) -> str:
    """Return which system's outputs need fewer edits."""
    tested = [row for row in result.rows if row.group == result.rows[-1].group and not math.isnan(row.p)]
    if not tested:
        return f"The edits of {result.rows[-1].a} and {result.rows[-1].b} do not differ: there is nothing to test."
    row = min(tested, key=lambda pair: (pair.p_adjusted, pair.p))
    (largest, fewer), (smallest, more) = sorted([(row.fewer_a, row.a), (row.fewer_b, row.b)], reverse=True)
    text = (
        f"{largest} of {row.segments} segments against {smallest}, {format_p(row.p, row.p_adjusted)}; on average "
        f"{row.edits_a:.1f} characters from {row.a} and {row.edits_b:.1f} from {row.b}"
    )
    clearest = (
        f"Outputs of {fewer} need fewer edits than those of {more} ({text})."
        if row.p_adjusted < _ALPHA
        else f"{row.a} and {row.b} cannot be told apart by their edits ({text})."
    )
    return f"{clearest}{_count_separated(tested)}"


def _count_separated(rows: Sequence[VerifiedPair | PostEdited]) -> str:
    """Return how many pairs differ significantly; empty for a single pair."""
    apart = sum(row.p_adjusted < _ALPHA for row in rows)
    clearest = "That is the clearest difference" if apart else "No difference is clearer"
    return "" if len(rows) == 1 else f" {clearest}: {apart} of {len(rows)} pairs of systems are told apart."


def criteria_verdict(result: Criteria) -> str:
    """Return whether the criteria measure different things."""
    factors = 0 if result.factors is None else result.factors.loadings.shape[1]
    closest = max(result.pairs, key=lambda pair: abs(pair.correlation), default=None)
    near = "" if closest is None else f" {closest.a} and {closest.b} are closest (r = {closest.correlation:.2f})."
    if not factors:
        return f"The {len(result.names)} criteria share no factor that random data would not show.{near}"
    things = "one thing" if factors == 1 else f"{factors} different things"
    return f"The {len(result.kept)} criteria measure {things}.{near}"


def importance_verdict(result: ErrorImportance) -> str:
    """Return which type of error costs most."""
    weighed = [row for row in result.rows if row.annotator is None and not math.isnan(row.standardised)]
    if not weighed:
        return "No type of error can be weighed against the scores."
    texts = []
    for target in dict.fromkeys(row.target for row in weighed):
        worst = min((row for row in weighed if row.target == target), key=lambda row: row.standardised)
        if worst.slope < 0 and worst.p < _ALPHA:
            cost = f"{abs(worst.slope):.3g} points of {target} per error, {format_p(worst.p)}"
            texts.append(f"{worst.error} costs most: {cost}")
        else:
            texts.append(f"no type of error is sure to lower {target}")
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}."


def groups_verdict(result: GroupChanges) -> str:
    """Return which measures changed more in one group than in the other."""
    tested = [row for row in result.rows if not math.isnan(row.p)]
    if not tested:
        return "No measure can be tested (the notes say why)."
    groups, number = f"{tested[0].first} and {tested[0].second}", len(tested)
    significant = [row for row in tested if row.p_adjusted < _ALPHA]
    if not significant:
        closest = min(tested, key=lambda row: row.p)
        near = f"{closest.measure}, {format_p(closest.p, closest.p_adjusted)}"
        return f"The changes of {groups} cannot be told apart in any measure, of {number} (the clearest: {near})."
    texts = [f"{row.measure} ({format_p(row.p, row.p_adjusted)})" for row in significant]
    return f"{groups} changed differently in {len(significant)} of {number} measures: {join_names(texts)}."


def pool_verdict(result: PoolReduction) -> str:
    """Return how many questions are kept."""
    return f"{len(result.kept)} of {len(result.rows)} questions are suitable."


def affect_verdict(result: AffectScores) -> str:
    """Return the mean positive and negative affect."""
    complete = [row for row in result.rows if not math.isnan(row.positive + row.negative)]
    if not complete:
        return "No questionnaire is complete."
    count = len(complete)
    positive, negative = (sum(getattr(row, name) for row in complete) / count for name in ("positive", "negative"))
    return f"Mean affect of {count} questionnaires: positive {positive:.1f}, negative {negative:.1f} (10 to 50)."


COMPARE_VERDICTS: Mapping[str, Callable[[Any], str]] = {
    "Verification": verification_verdict,
    "PostEditing": postedit_verdict,
    "Criteria": criteria_verdict,
    "ErrorImportance": importance_verdict,
    "GroupChanges": groups_verdict,
    "PoolReduction": pool_verdict,
    "AffectScores": affect_verdict,
}
