"""A new datasheet, filled in as far as data, selection, judgments and results of other verbs go; the rest is left open.

Nothing is guessed: what is filled in says where it comes from, what could not be filled in although one might expect it
says why (`notes`), and everything can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from aliquot.data.evalset import EvalSet
from aliquot.data.judgments import Judgments
from aliquot.data.selection import Selection
from aliquot.data.signature import signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.estimate.inputs import with_judgments
from aliquot.report.datasheet import results as verbs
from aliquot.report.datasheet.fill_criterion import fill_criterion
from aliquot.report.datasheet.fill_experiment import fill_experiment
from aliquot.report.datasheet.known import Known, protocols
from aliquot.report.datasheet.sheet import Datasheet, blank

_NAMELESS = "criterion 1"


def new(
    data: EvalSet | None = None,
    *,
    selection: Selection | None = None,
    judgments: Judgments | pl.DataFrame | None = None,
    results: Sequence[object] = (),
    criteria: Sequence[str] | None = None,
    protocol: str | None = None,
    human: str | None = None,
    value_range: tuple[float, float] | None = None,
) -> Datasheet:
    """Start a datasheet for an experiment, filled in as far as what is given goes.

    Args:
        data: the evaluation set; without it the sheet is blank.
        selection: the items that were (or will be) judged; says how they were chosen, with which probabilities.
        judgments: people's answers, where they are not in the data.
        results: results of other verbs (`estimate`, `agreement`, ...): objects, documents, or files with their JSON.
        criteria: the names of the criteria; by default those of the judgments.
        protocol: keep only the judgments of this protocol; a sheet describes one experiment.
        human: the human score; by default the one the data name.
        value_range: the ends of the scale, where the values do not tell it.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=40, systems=3, seed=1)
    >>> sheet = aliquot.datasheet.new(data, selection=aliquot.select(data, "segments", budget=10))
    >>> sheet.answer("3.1.1").text, sheet.answer("3.1.2").chosen
    ('10', ('by an automatic random process from a larger set',))
    """
    known, notes = _known(data, selection, judgments, results, criteria, protocol, human, value_range)
    sheet = blank(known.criteria or (_NAMELESS,))
    for number, value, details, source in fill_experiment(known):
        sheet = sheet.with_answer(number, value, details=details, source=source)
    for name in known.criteria:
        for number, value, details, source in fill_criterion(known, name):
            sheet = sheet.with_answer(number, value, details=details, source=source, criterion=name)
    return replace(
        sheet,
        signature=signature(
            "datasheet:new", data, criteria=len(sheet.criteria), protocol=protocol, human=human,
            range=None if value_range is None else f"{value_range[0]:g},{value_range[1]:g}",
        ),
        results=tuple(_signatures(known)),
        name="datasheet" if data is None else data.name,
        notes=(*notes, *_notes(known, sheet)),
    )  # fmt: skip


def _known(
    data: EvalSet | None,
    selection: Selection | None,
    judgments: Judgments | pl.DataFrame | None,
    results: Sequence[object],
    criteria: Sequence[str] | None,
    protocol: str | None,
    human: str | None,
    value_range: tuple[float, float] | None,
) -> tuple[Known, list[str]]:
    """Bring everything together: the data with the judgments of this experiment only."""
    notes: list[str] = []
    if data is None and (selection is not None or judgments is not None or protocol is not None):
        raise OptionError("a selection, judgments or a protocol need the data they belong to; give DATA / data=")
    if value_range is not None and not value_range[0] < value_range[1]:
        raise OptionError(f"value_range {value_range}: the lower end comes first, e.g. (1, 5) / --range 1,5")
    if data is not None:
        if judgments is not None:
            data, mismatches = with_judgments(data, judgments, selection, human)
            notes += [f"{m.what}: {m.count} ({m.example}), {m.action}" for m in mismatches]
        elif selection is not None:
            data = _selected(data, selection)
        if protocol is not None:
            data = _of_protocol(data, protocol)
        human = human or data.human
        if human is not None:
            data.score(human)
    read = tuple(verbs.read_result(result) for result in results)
    names = tuple(criteria) if criteria is not None else _criterion_names(data, human)
    return Known(data, human, selection, read, value_range, names, protocol), notes


def _selected(data: EvalSet, selection: Selection) -> EvalSet:
    """Return the chosen items, with the judgments of the chosen outputs only."""
    chosen = data.keep(items=list(selection.ids))
    if chosen.judgments is None or selection.systems is None:
        return chosen
    asked = [(str(i), s) for i, names in zip(selection.ids, selection.systems, strict=True) for s in names]
    wanted = pl.DataFrame(asked, schema={"_item": pl.String, "system": pl.String}, orient="row")
    table = chosen.judgments.table.with_columns(pl.col("item").cast(pl.String).alias("_item"))
    kept = table.join(wanted, on=["_item", "system"], how="semi", maintain_order="left").drop("_item")
    return replace(chosen, judgments=Judgments(kept))


def _of_protocol(data: EvalSet, protocol: str) -> EvalSet:
    table = None if data.judgments is None else data.judgments.table
    if table is None or "protocol" not in table.columns:
        raise DataError(f"{data.name}: the judgments name no protocol; leave out --protocol / protocol=")
    known = table["protocol"].drop_nulls().unique(maintain_order=True).to_list()
    if protocol not in known:
        raise unknown_name("protocol", protocol, known)
    return replace(data, judgments=Judgments(table.filter(pl.col("protocol") == protocol)))


def _criterion_names(data: EvalSet | None, human: str | None) -> tuple[str, ...]:
    """The criteria of the judgments; where they name none, one: the protocol's, or that of the human score."""
    if data is None:
        return ()
    criteria = [] if data.judgments is None else data.judgments.criteria
    named = protocols(data.judgments)
    return tuple(criteria) or (tuple(named) if len(named) == 1 else (human,) if human else ())


def _signatures(known: Known) -> Iterator[str]:
    if known.selection is not None and known.selection.signature:
        yield known.selection.signature
    yield from (result.signature for result in known.results)


def _notes(known: Known, sheet: Datasheet) -> Iterator[str]:
    judgments = known.judgments
    if known.data is None:
        return
    if judgments is None:
        yield "there are no judgments: annotators, scales and agreement are left open"
    named = protocols(judgments)
    if len(named) > 1:
        yield (
            f"the judgments are of {len(named)} protocols ({', '.join(named)}); a sheet describes one "
            "experiment: keep one with --protocol"
        )
    if judgments is not None and not sheet.answer("3.2.1").given:
        yield "the judgments name no annotators: 3.2.1 is left open"
    if not known.criteria:
        yield f"no criterion is named: [[criterion]] is called '{_NAMELESS}'; rename it"
    for name in known.criteria:
        if known.judgments_of(name) is None and judgments is not None:
            yield f"no judgment is of the criterion '{name}': it is left open"
        elif judgments is not None and not sheet.answer("4.3.3", name).given:
            yield f"the values do not tell the scale of '{name}' (4.3.3, 4.3.4); give --range LOW,HIGH"
        if judgments is not None and known.human is not None and not sheet.answer("4.3.9", name).given:
            yield f"no human score is the mean of the judgments of '{name}': 4.3.9 is left open"
    for result in known.results:
        if result.verb not in ("estimate", "combine", "compare", "plan", "agreement", "clean"):
            yield f"a result of '{result.verb}' answers no question; its signature is kept"
