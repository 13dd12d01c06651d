"""Describe an evaluation set: its content, and which steps are possible."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import is_human_name
from aliquot.core.describe_views import describe_views
from aliquot.core.draws import has_draws, prompt_codes
from aliquot.core.evalset import EvalSet
from aliquot.core.plausibility import plausibility_notes
from aliquot.core.result import Result, frame_of, make_signature
from aliquot.core.view import View
from aliquot.errors import unknown_name
from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import common_column_means, pearson

DATA = "DATA"
PREFERENCE = "preference"
"""The criterion of judgments that were choices between two outputs."""
_MIN_SHARED = 10  # items of which a fifth is a sample
MIN_PLAN_ITEMS = 4
"""Items judged for all systems from which spread and tails can be estimated."""


@dataclass(frozen=True)
class ScoreSummary:
    """One score: coverage, range and correlation with the human score.

    `item_pearson` pools all cells that have both scores; `system_pearson` correlates the systems' means over them.
    """

    name: str
    human: bool
    flipped: bool
    coverage: float
    items: int
    complete_items: int
    systems: int
    minimum: float
    maximum: float
    mean: float
    item_pearson: float
    system_pearson: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but the name, with short names for the range."""
        fields = {name: value for name, value in vars(self).items() if name not in ("name", "minimum", "maximum")}
        return fields | {"min": self.minimum, "max": self.maximum}


@dataclass(frozen=True)
class JudgmentSummary:
    """Counts of usable judgments, their annotators, outputs, repeats and times, and of marked ones."""

    count: int
    cells: int
    annotators: int
    criteria: tuple[str, ...]
    cells_with_several_annotators: int
    repeated_by_same_annotator: int
    timed: float
    median_seconds: float
    marked: int = 0


@dataclass(frozen=True)
class NextStep:
    """A verb, whether the data suffice for it, and a note."""

    verb: str
    ready: bool
    note: str


@dataclass(frozen=True)
class UsageSummary:
    """What the outputs of a system took: name -> sum over the outputs, such as cost, seconds, tokens; NaN: unknown."""

    system: str
    totals: dict[str, float]


@dataclass(frozen=True)
class DrawSummary:
    """How often outputs were drawn for the prompts."""

    prompts: int
    fewest: int
    most: int


@dataclass(frozen=True)
class Description(Result):
    """What `inspect` shows.

    Attributes:
        next_words: The words of the most sensible next command; DATA stands for the data.
    """

    name: str
    items: int
    systems: tuple[str, ...]
    human: str | None
    documents: int
    document_lengths: tuple[int, float, int] | None
    domains: dict[str, int]
    texts: dict[str, float]
    item_columns: tuple[str, ...]
    scores: tuple[ScoreSummary, ...]
    judgments: JudgmentSummary | None
    missing: tuple[str, ...]
    steps: tuple[NextStep, ...]
    signature: str
    notes: tuple[str, ...] = ()  # what looks wrong with the judgments
    usage: tuple[UsageSummary, ...] = ()
    draws: DrawSummary | None = None
    next_words: tuple[str, ...] = ()

    @property
    def next_command(self) -> str:
        """The most sensible next command."""
        return shlex.join(("aliquot", *self.next_words))

    def with_data(self, *words: str) -> Description:
        """Return the description of data that the words name on the command line: a path and how it is read."""
        own = self.next_words if len(words) == 1 or self.next_words[:1] != ("compare",) else ("estimate", DATA)
        after = [part for word in own for part in (words if word == DATA else (word,))]
        return replace(self, next_words=tuple(after))

    def views(self) -> Sequence[View]:
        """Return the views `data`, `scores`, `usage` and `steps`."""
        return describe_views(self)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per score."""
        return frame_of(self.scores, ScoreSummary)

    def document(self) -> dict[str, Any]:
        """Return the fields: scores by name, document lengths by min, mean and max, {} without judgments."""
        lengths = self.document_lengths
        return self.fields_without("next_words") | {
            "document_lengths": None if lengths is None else dict(zip(("min", "mean", "max"), lengths, strict=True)),
            "scores": {score.name: score.to_dict() for score in self.scores},
            "judgments": self.judgments or {},
            "usage": {usage.system: usage.totals for usage in self.usage},
            "next": self.next_command,
        }


def describe(evalset: EvalSet, human: str | None = None) -> Description:
    """Describe an evaluation set.

    >>> import aliquot
    >>> description = describe(aliquot.synthetic(items=50, systems=4, seed=3))
    >>> description.items, description.systems[:2], description.human
    (50, ('sys1', 'sys2'), 'human')
    """
    human = human or evalset.human
    if human is not None and human not in evalset.scores:
        raise unknown_name("score", human, evalset.scores, "name it with `human`")
    target = evalset.scores[human] if human else None
    scores = tuple(_summarise_score(evalset, name, human, target) for name in evalset.scores)
    codes = evalset.documents
    lengths = np.bincount(codes) if codes is not None else None
    judgments = _summarise_judgments(evalset)
    steps = _list_steps(evalset, scores, judgments, human)
    return Description(
        name=evalset.name,
        items=evalset.n_items,
        systems=evalset.systems,
        human=human,
        documents=0 if lengths is None else len(lengths),
        document_lengths=None
        if lengths is None
        else (int(lengths.min()), float(round(lengths.mean(), 2)), int(lengths.max())),
        domains=_count_domains(evalset),
        texts=_compute_text_shares(evalset),
        item_columns=tuple(evalset.items.columns),
        scores=scores,
        judgments=judgments,
        missing=_describe_missing(evalset, human),
        steps=steps,
        signature=make_signature("inspect", evalset, human=human),
        notes=tuple(plausibility_notes(evalset, human)),
        usage=_sum_usage(evalset),
        draws=_count_draws(evalset),
        next_words=_choose_next(evalset, steps, judgments),
    )


def _sum_usage(evalset: EvalSet) -> tuple[UsageSummary, ...]:
    sums = {
        name: np.where(np.isfinite(values).any(axis=0), np.nansum(values, axis=0), np.nan).tolist()
        for name, values in evalset.usage.items()
    }
    rows = (UsageSummary(name, {u: sums[u][i] for u in sums}) for i, name in enumerate(evalset.systems))
    return tuple(rows) if sums else ()


def _count_draws(evalset: EvalSet) -> DrawSummary | None:
    if not has_draws(evalset):
        return None
    counts = np.bincount(prompt_codes(evalset))
    return DrawSummary(len(counts), int(counts.min()), int(counts.max()))


def _choose_next(evalset: EvalSet, steps: tuple[NextStep, ...], judgments: JudgmentSummary | None) -> tuple[str, ...]:
    """Return the words of the command that fits the data: compare, agreement, estimate or select."""
    ready = {step.verb for step in steps if step.ready}
    if judgments is not None and judgments.criteria == (PREFERENCE,):
        return ("compare", DATA)
    complete = judgments is not None and judgments.cells == evalset.n_items * evalset.n_systems
    if "agreement" in ready and complete and not evalset.metrics:
        return ("agreement", DATA)
    if "estimate" in ready:
        return ("estimate", DATA)
    budget = "20%" if evalset.n_items >= _MIN_SHARED else str(max(1, evalset.n_items // 2))
    return ("select", DATA, "--budget", budget, "-o", "selection.jsonl")


def _summarise_score(evalset: EvalSet, name: str, human: str | None, target: FloatArray | None) -> ScoreSummary:
    values = evalset.scores[name]
    present = np.isfinite(values)
    some = bool(present.any())
    item_r = system_r = float("nan")
    if target is not None and name != human and some:
        item_r = pearson(values.ravel(), target.ravel())
        system_r = pearson(*common_column_means(values, target))
    return ScoreSummary(
        name=name,
        human=name == human or is_human_name(name),
        flipped=name in evalset.flipped,
        coverage=float(present.mean()) if present.size else 0.0,
        items=int(present.any(axis=1).sum()),
        complete_items=int(present.all(axis=1).sum()),
        systems=int(present.any(axis=0).sum()),
        minimum=float(np.nanmin(values)) if some else float("nan"),
        maximum=float(np.nanmax(values)) if some else float("nan"),
        mean=float(np.nanmean(values)) if some else float("nan"),
        item_pearson=item_r,
        system_pearson=system_r,
    )


def _count_domains(evalset: EvalSet) -> dict[str, int]:
    if "domain" not in evalset.items.columns:
        return {}
    counts = evalset.items["domain"].fill_null("(none)").value_counts(sort=True)
    return dict(zip(counts["domain"].to_list(), counts["count"].to_list(), strict=True))


def _compute_text_shares(evalset: EvalSet) -> dict[str, float]:
    """Return the share of items (for outputs: cells) that have a text."""
    shares: dict[str, float] = {
        name: 1.0 - evalset.items[name].null_count() / max(1, evalset.n_items)
        for name in ("source", "reference")
        if name in evalset.items.columns
    }
    if evalset.outputs is not None:
        nulls = sum(column.null_count() for column in evalset.outputs)
        shares["outputs"] = 1.0 - nulls / max(1, evalset.n_items * evalset.n_systems)
    return shares


def _summarise_judgments(evalset: EvalSet) -> JudgmentSummary | None:
    if evalset.judgments is None:
        return None
    answers = evalset.judgments.answers()
    by_cell = answers.group_by("item", "system").agg(pl.col("annotator").n_unique().alias("people"))
    keys = ["item", "system", "annotator", "criterion"] + (["protocol"] if "protocol" in answers.columns else [])
    repeated = answers.group_by(keys).len().filter(pl.col("len") > 1)
    seconds = answers["seconds"].drop_nulls()
    median = seconds.median()
    return JudgmentSummary(
        count=answers.height,
        cells=by_cell.height,
        annotators=len(evalset.judgments.annotators),
        criteria=tuple(evalset.judgments.criteria),
        cells_with_several_annotators=by_cell.filter(pl.col("people") > 1).height,
        repeated_by_same_annotator=int((repeated["len"] - 1).sum()),
        timed=len(seconds) / max(1, answers.height),
        median_seconds=float(median) if isinstance(median, int | float) else float("nan"),
        marked=len(evalset.judgments) - len(evalset.judgments.usable()),
    )


def _describe_missing(evalset: EvalSet, human: str | None) -> tuple[str, ...]:
    """Return notes on missing scores and outputs."""
    notes = []
    if human is not None:
        present = np.isfinite(evalset.scores[human])
        unjudged = int((present.sum(axis=1) == 0).sum())
        if unjudged:
            notes.append(f"{unjudged} items have no '{human}'")
        counts = present.sum(axis=0)
        never = [system for system, count in zip(evalset.systems, counts, strict=True) if not count]
        if never:
            notes.append(f"systems without any '{human}': {', '.join(never)}")
    if evalset.outputs is not None:
        lacking = {column.name: column.null_count() for column in evalset.outputs if column.null_count()}
        if lacking:
            notes.append(f"outputs are missing for {', '.join(f'{name} ({count})' for name, count in lacking.items())}")
    partly = [name for name in evalset.metrics if not np.isfinite(evalset.scores[name]).any(axis=0).all()]
    if partly:
        notes.append(f"{len(partly)} of {len(evalset.metrics)} metrics lack some systems")
    return tuple(notes)


def _find_sparse_systems(evalset: EvalSet, human: str) -> tuple[list[str], int]:
    """Return systems with at most half of the most judged items, and the number of complete items without them."""
    present = np.isfinite(evalset.scores[human])
    counts = present.sum(axis=0)
    thin = counts <= 0.5 * counts.max()
    complete_items = int(present[:, ~thin].all(axis=1).sum()) if (~thin).sum() > 1 else 0
    return [evalset.systems[column] for column in np.flatnonzero(thin)], complete_items


def _suggest_exclusion(evalset: EvalSet, human: str, needed: int) -> str:
    """Return the hint to leave out sparse systems, if enough items are then judged for all others."""
    thin, complete_items = _find_sparse_systems(evalset, human)
    if thin and complete_items >= needed:
        return f" (try `exclude={','.join(thin)}`: {complete_items} items)"
    return " (the systems were judged on different items)"


def _describe_plan(evalset: EvalSet, human: str | None) -> NextStep:
    """Return whether `plan` is possible: it needs a few items judged for all well-covered systems."""
    numbers = "aliquot plan power plans from numbers alone"
    if human is None:
        return NextStep("plan", ready=False, note=f"needs a pilot with human scores; {numbers}")
    _, complete = _find_sparse_systems(evalset, human)
    if complete < MIN_PLAN_ITEMS:
        note = f"{complete} items have '{human}' for all systems; a plan needs {MIN_PLAN_ITEMS}; {numbers}"
        return NextStep("plan", ready=False, note=note)
    return NextStep("plan", ready=True, note=f"from the variances of {complete} items judged for all systems")


def _list_steps(
    evalset: EvalSet, scores: tuple[ScoreSummary, ...], judgments: JudgmentSummary | None, human: str | None
) -> tuple[NextStep, ...]:
    metrics = [score for score in scores if not score.human and score.coverage > 0]
    judged = next((score for score in scores if score.name == human), None)
    judged_items = judged.complete_items if judged else 0
    several = judgments is not None and judgments.cells_with_several_annotators > 0
    with_metrics = f"{len(metrics)} metric{'s' * (len(metrics) != 1)} can guide it"
    no_human = "needs human scores on some items: judge some, or name them with `human`"
    return (
        NextStep(
            "select",
            ready=True,
            note=with_metrics if metrics else "random and document designs; metrics would guide it",
        ),
        NextStep(
            "estimate",
            ready=judged is not None and judged.items >= 2,
            note=no_human if judged is None else f"'{human}' covers {judged.items} of {evalset.n_items} items",
        ),
        NextStep(
            "simulate",
            ready=judged_items >= 20,
            note=no_human
            if judged is None
            else f"{judged_items} items have '{human}' for all systems"
            + ("" if judged_items >= 20 else f"; at least 20 are needed{_suggest_exclusion(evalset, str(human), 20)}"),
        ),
        _describe_plan(evalset, human),
        NextStep(
            "metrics",
            ready=judged is not None and bool(metrics),
            note=no_human
            if judged is None
            else with_metrics.replace(" can guide it", " to compare with people")
            if metrics
            else "needs automatic scores (or texts to compute them from)",
        ),
        NextStep(
            "agreement",
            ready=several,
            note=f"{judgments.cells_with_several_annotators} outputs have several annotators"
            if several and judgments is not None
            else "needs outputs judged by several annotators",
        ),
    )
