"""The verdict on agreement: good or bad for this kind of judgments, and what to do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from aliquot.core.verdict_words import join_names

if TYPE_CHECKING:
    from aliquot.annotation.agreement_result import Agreement

_PREFERRED = ("alpha", "kappa_quadratic", "fleiss", "kappa", "icc2", "pearson", "spearman", "raw")
_MEASURE_NAMES = {
    "alpha": "Krippendorff's alpha",
    "fleiss": "Fleiss' kappa",
    "kappa": "Cohen's kappa",
    "icc2": "ICC(2,1)",
    "kappa_quadratic": "weighted kappa",
    "pearson": "Pearson's r",
    "spearman": "Spearman's rho",
    "raw": "raw agreement",
}
_RATING_LIMITS = (0.2, 0.5)
"""What ratings of text quality reach: alpha of nine public campaigns of the tests (WMT, SummEval, DialSummEval, WebNLG,
bioMQM) is below 0.2 in two, 0.2 to 0.5 in four, above in three."""
_LABEL_LIMITS = (0.667, 0.8)
"""Krippendorff's limits for tentative and for firm conclusions; they are meant for labels with a right answer."""
_AGREEMENT_LIMITS = {
    "ratings of text quality": (_RATING_LIMITS, "usual", "public campaigns mostly reach 0.2 to 0.5"),
    "choices between outputs": ((0.2, 0.4), "usual", "WMT's rankings reached about 0.2 to 0.4"),
    "labels": (_LABEL_LIMITS, "fair", "0.67 is acceptable, 0.8 is good"),
}
"""For each kind of judgments: limits of what is low and good, the word for what is between them, and the reason."""
_CHOICE_LABELS = {"a", "b", "tie"}
_RELIABLE = 0.8  # of a mean of several judgments
_SCALES_DIFFER = 0.15  # Pearson's r less alpha beyond which annotators agree on the order and not on the scale
_MIN_R, _MIN_COMPARED = 0.15, 10  # r with the others below which an annotator is named, with so many judgments at least


def agreement_verdict(result: Agreement) -> str:
    """Return whether agreement is good for this kind of judgments, and what to do."""
    coefficient = _choose_coefficient(result)
    if coefficient is None:
        return (
            "Agreement cannot be measured: no output was judged by two annotators. Have some outputs judged by two "
            "people."
        )
    measure, value, interval = coefficient
    if measure == "raw":  # no coefficient corrects it for chance
        return f"Annotators give the same judgment in {value:.0%} of cases; chance is not taken into account."
    kind = _kind_of_judgments(result)
    (low, high), between, usual = _AGREEMENT_LIMITS[kind]
    grade = "good" if value >= high else between if value >= low else "low"
    head = f"Agreement is {grade} for {kind}: {_MEASURE_NAMES[measure]} is {value:.2f}{interval}; {usual}."
    return " ".join([head, *_list_advice(result, measure, value, grade)])


def _kind_of_judgments(result: Agreement) -> str:
    if result.level != "nominal":
        return "ratings of text quality"
    return "choices between outputs" if result.labels and set(result.labels) <= _CHOICE_LABELS else "labels"


def _choose_coefficient(result: Agreement) -> tuple[str, float, str] | None:
    rows = {row["measure"]: row for row in result.coefficients.filter(pl.col("kind") == "all").iter_rows(named=True)}
    for measure in _PREFERRED:
        row = rows.get(measure)
        if row is not None and row["value"] is not None and not math.isnan(row["value"]):
            has_interval = row["low"] is not None and not math.isnan(row["low"])
            interval = (
                f" ({result.confidence:.0%} interval {row['low']:.2f} to {row['high']:.2f})" if has_interval else ""
            )
            return measure, row["value"], interval
    return None


def _list_advice(result: Agreement, measure: str, value: float, grade: str) -> list[str]:
    """Return advice, the most useful first; none where agreement is good and no annotator stands out."""
    advice = []
    r = dict(result.coefficients.filter(pl.col("kind") == "all").select("measure", "value").iter_rows()).get("pearson")
    if grade != "good" and measure == "alpha" and r is not None and r - value > _SCALES_DIFFER:
        advice.append(
            f"Annotators order outputs alike (r = {r:.2f}) but use the scale differently: standardise their "
            "scores (the step standardise of aliquot clean)."
        )
    elif grade != "good" and _kind_of_judgments(result) == "labels":
        advice.append(
            "Discuss the outputs on which annotators differ, sharpen the guideline, and take the majority of "
            "several judgments (aliquot combine)."
        )
    elif grade != "good" and value > 0 and measure in ("alpha", "icc2") and result.level != "nominal":
        needed = math.ceil(_RELIABLE * (1 - value) / (value * (1 - _RELIABLE)) - 1e-9)  # Spearman-Brown
        advice.append(
            f"One judgment says little about one output; the mean of {needed} is reliable ({_RELIABLE:g}). "
            "Means of systems over many items need fewer."
        )
    elif value <= 0:
        advice.append("Judgments agree no more than chance: check the guideline and the controls before using them.")
    far = _find_outliers(result)
    if far:
        agree = "it agrees" if len(far) == 1 else "they agree"
        advice.append(f"Look first at {join_names(far)}: {agree} least with the others.")
    return advice


def _find_outliers(result: Agreement) -> list[str]:
    if "pearson" not in result.annotators.columns or result.annotators.height < 3:
        return []
    is_far = (pl.col("compared") >= _MIN_COMPARED) & (pl.col("pearson") < _MIN_R)
    rows = result.annotators.filter(is_far).sort("pearson")
    # Where more than a quarter are far from the others, nobody stands out.
    return rows["annotator"].to_list() if rows.height <= max(1, result.annotators.height // 4) else []
