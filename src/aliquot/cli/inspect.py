"""`aliquot inspect`: what is in my data, and what can I do with it?"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from aliquot.cli import common, options, render
from aliquot.core import escape
from aliquot.core.describe import Description, ScoreSummary


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.Output,
    seed: options.SeedOption = 0,
) -> None:
    """What is in my data, and what can I do with it?

    Shows items, systems, documents, domains, texts, judgments, every score with its coverage, range and correlation
    with the human score, and which later steps are possible.

    Example: aliquot inspect data.jsonl --human mqm
    """
    del seed  # nothing is drawn; accepted because all data verbs take it
    common.require_writable(output.output)
    evalset = common.load_data(data, reading)
    description = evalset.describe()
    if output.output is not None:
        common.write_result(description.to_frame(), description.to_dict(), output.output)
    if output.json:
        common.print_json(description.to_dict())
    else:
        show(description, render.console())


def show(description: Description, console: Console) -> None:
    """Print a description."""
    size = f"{description.items} items x {len(description.systems)} systems"
    console.print(Text.assemble((escape.terminal(description.name), "bold"), f": {size}\n"))
    facts = render.table()
    facts.show_header = False
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(description):
        facts.add_row(name, value)
    console.print(facts)
    if description.scores:
        console.print()
        console.print(_score_table(description))
    console.print()
    console.print(_step_table(description))
    if description.notes:
        console.print()
    for note in description.notes:
        console.print(f"note: {note}", markup=False)
    render.signature(description.signature, console)


def _facts(description: Description) -> list[tuple[str, str]]:
    facts = [("systems", ", ".join(description.systems))]
    if description.document_lengths is not None:
        low, mean, high = description.document_lengths
        facts.append(("documents", f"{description.documents} with {low} to {high} items, mean {mean:.1f}"))
    else:
        facts.append(("documents", "none"))
    if description.domains:
        facts.append(("domains", ", ".join(f"{name} {count}" for name, count in description.domains.items())))
    texts = ", ".join(f"{name} {render.percent(share)}" for name, share in description.texts.items())
    facts.append(("texts", texts or "none"))
    others = [name for name in description.item_columns if name not in _STANDARD]
    if others:
        facts.append(("also", f"item columns {', '.join(others)}"))
    facts.append(("judgments", _judgment_line(description)))
    facts += [("missing", note) for note in description.missing]
    return facts


_STANDARD = ("id", "source", "reference", "document", "position", "domain")


def _judgment_line(description: Description) -> str:
    judgments = description.judgments
    if judgments is None:
        return "none (single answers); scores may still be people's"
    parts = [f"{judgments.count} on {judgments.cells} outputs by {judgments.annotators} annotators"]
    if judgments.criteria:
        parts.append(f"criteria {', '.join(judgments.criteria)}")
    parts.append(f"{judgments.cells_with_several_annotators} outputs by several annotators")
    if judgments.repeated_by_same_annotator:
        parts.append(f"{judgments.repeated_by_same_annotator} repeats by the same annotator")
    if judgments.marked:
        parts.append(f"{judgments.marked} more are marked and do not count")
    if judgments.timed:
        parts.append(f"{render.percent(judgments.timed)} timed, median {render.number(judgments.median_seconds)} s")
    return "; ".join(parts)


def _score_table(description: Description) -> object:
    about = f"scores (r: Pearson correlation with '{description.human}')" if description.human else "scores"
    table = render.columns(
        render.table(about),
        left=["name", "kind"],
        right=["present", "complete items", "min", "mean", "max", "r items", "r systems"],
    )
    for score in sorted(description.scores, key=lambda score: not score.human):
        table.add_row(
            score.name + (" (flipped)" if score.flipped else ""),
            _kind(score, description.human),
            render.percent(score.coverage),
            str(score.complete_items),
            render.number(score.minimum),
            render.number(score.mean),
            render.number(score.maximum),
            render.fixed(score.item_pearson),
            render.fixed(score.system_pearson),
        )
    return table


def _kind(score: ScoreSummary, human: str | None) -> str:
    if score.name == human:
        return "human"
    return "people" if score.human else "metric"


def _step_table(description: Description) -> object:
    table = render.columns(render.table("what you can do next"), left=["step", "", ""])
    for step in description.steps:
        table.add_row(step.verb, "ready" if step.ready else "not yet", step.note)
    return table
