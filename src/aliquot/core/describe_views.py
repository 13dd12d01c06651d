"""What `Description` and `EvalSet` show: what there is, the scores, and what can be done next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from aliquot.core.view import Column, View
from aliquot.core.written import format_number, format_percent

if TYPE_CHECKING:  # these two import this file
    from aliquot.core.describe import Description, DrawSummary, JudgmentSummary, ScoreSummary
    from aliquot.core.evalset import EvalSet

_MAX_NAMES = 8
_STANDARD_COLUMNS = ("id", "source", "reference", "document", "position", "domain")


def describe_views(description: Description) -> tuple[View, ...]:
    """Return the views `data`, `scores`, `usage` and `steps`; of these only what there is."""
    size = f"{description.name}: {description.items} items x {len(description.systems)} systems"
    facts = (Column("", lambda fact: fact[0], "name"), Column("", lambda fact: fact[1], "text"))
    steps = (
        Column("step", "verb", "name"),
        Column("state", lambda step: "ready" if step.ready else "not yet", "name"),
        Column("why", "note", "text"),
    )
    return (
        View("data", _list_facts(description), facts, intro=(size,)),
        *([_score_view(description)] if description.scores else []),
        *([_usage_view(description)] if description.usage else []),
        View("steps", description.steps, steps, "what you can do next"),
    )


def evalset_views(evalset: EvalSet) -> tuple[View, ...]:
    """Return the view `scores`, or `items` where there are no scores."""
    if not evalset.scores:
        names = [name for name in ("id", "source", "document", "domain") if name in evalset.items.columns]
        return (View.of_frame("items", evalset.items.select(names)),)
    rows = [
        {
            "score": name,
            "kind": "human" if name == evalset.human else "score",
            "mean": float(np.nanmean(values)) if np.isfinite(values).any() else float("nan"),
            "coverage": float(np.isfinite(values).mean()),
        }
        for name, values in evalset.scores.items()
    ]
    columns = (
        Column("score", kind="name"),
        Column("kind", kind="name"),
        Column("mean"),
        Column("coverage", kind="share"),
    )
    return (View("scores", rows, columns, intro=(repr(evalset),)),)


def _score_view(description: Description) -> View:
    human = description.human

    def name_kind(score: ScoreSummary) -> str:
        return "human" if score.name == human else "people" if score.human else "metric"

    columns = (
        Column("name", lambda score: score.name + (" (flipped)" if score.flipped else ""), "name"),
        Column("kind", name_kind, "name"),
        Column("present", "coverage", "share"),
        Column("complete items", "complete_items", "count", rank=3),
        Column("min", "minimum", rank=2),
        Column("mean", rank=1),
        Column("max", "maximum", rank=2),
        Column("r items", "item_pearson", places=3),
        Column("r systems", "system_pearson", places=3),
    )
    title = f"scores (r: Pearson correlation with '{human}')" if human else "scores"
    return View("scores", sorted(description.scores, key=lambda score: not score.human), columns, title)


def _usage_view(description: Description) -> View:
    names = list(description.usage[0].totals)

    def total(name: str) -> Column:
        return Column(name, lambda usage: usage.totals[name], rank=names.index(name))

    columns = (Column("system", kind="name"), *map(total, names))
    return View("usage", description.usage, columns, "what the outputs took, in all")


def _ask_for_human(description: Description) -> list[tuple[str, str]]:
    """Return, where the human score is open, which scores people may have given and how to choose one."""
    if description.human is not None:
        return []
    people = [score.name for score in description.scores if score.human]
    metrics = [score.name for score in description.scores if not score.human]
    facts = [("people", f"{_list_names(people)}: choose one, `human={shlex.quote(people[0])}`")] if people else []
    if metrics:
        question = "" if people else f". Did people give one? `human={shlex.quote(metrics[0])}`"
        facts.append(("metrics", _list_names(metrics) + question))
    return facts


def _list_names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _list_facts(description: Description) -> list[tuple[str, str]]:
    facts = [("systems", ", ".join(description.systems))]
    if description.draws is not None:
        facts.append(("draws", _describe_draws(description.draws)))
    elif description.document_lengths is not None:
        low, mean, high = description.document_lengths
        facts.append(("documents", f"{description.documents} with {low} to {high} items, mean {mean:.1f}"))
    else:
        facts.append(("documents", "none"))
    if description.domains:
        facts.append(("domains", ", ".join(f"{name} {count}" for name, count in description.domains.items())))
    texts = ", ".join(f"{name} {format_percent(share)}" for name, share in description.texts.items())
    facts.append(("texts", texts or "none"))
    extra_columns = [name for name in description.item_columns if name not in _STANDARD_COLUMNS]
    if extra_columns:
        facts.append(("also", f"item columns {', '.join(extra_columns)}"))
    facts.append(("judgments", _describe_judgments(description.judgments)))
    facts += _ask_for_human(description)
    return [*facts, *(("missing", note) for note in description.missing)]


def _describe_draws(draws: DrawSummary) -> str:
    several = f"{draws.most} draws" if draws.fewest == draws.most else f"{draws.fewest} to {draws.most} draws"
    return f"{draws.prompts} prompts x {several}"


def _describe_judgments(judgments: JudgmentSummary | None) -> str:
    if judgments is None:
        return "none (single answers)"
    parts = [f"{judgments.count} on {judgments.cells} outputs by {judgments.annotators} annotators"]
    if judgments.criteria:
        parts.append(f"criteria {', '.join(judgments.criteria)}")
    parts.append(f"{judgments.cells_with_several_annotators} outputs by several annotators")
    if judgments.repeated_by_same_annotator:
        parts.append(f"{judgments.repeated_by_same_annotator} repeats by the same annotator")
    if judgments.marked:
        parts.append(f"{judgments.marked} more are marked and do not count")
    if judgments.timed:
        parts.append(f"{format_percent(judgments.timed)} timed, median {format_number(judgments.median_seconds)} s")
    return "; ".join(parts)
