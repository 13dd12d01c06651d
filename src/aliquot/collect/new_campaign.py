"""Inputs of a new campaign or set of sheets, read and validated before any file is written."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from aliquot.collect.protocols import Protocol, Score, Spans, load_protocol, protocol_text
from aliquot.collect.units import UNIT_ITEMS, Unit, make_units
from aliquot.core.evalset import EvalSet
from aliquot.core.origin import record_origin
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, OptionError
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset, as_selection
from aliquot.validation import between, invalid, one_of

POLICIES = ("shared", "fixed", "allocate")


class CampaignSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How outputs become units, who gets them, and what the page shows.

    Args:
        per_output: finished judgments of each output, all by different annotators.
        assign: "shared" (whoever comes first takes the next unit) or "fixed" (a list for each annotator).
        seed: same seed, same units in the same order.
        guidelines: a text (Markdown) that annotators can look up.
        locale: the language of the page: en, de, cs, zh or ar; by default the protocol's.
        title: what annotators see above the page; by default the protocol's.
        pairs: for comparisons, "balanced" or "all".
        unit_items: at most so many items in a unit.
        skip_missing: leave out outputs that are missing, instead of refusing the data.
        allocate: a policy (auto, uniform, rank:power=1, ...) that decides while people judge which system is judged
            next on which item; without a selection.
        question: what the policy should find out: top, ranking, best, means, or pairs "A:B,C:D".
        budget: cells at the most that the policy may ask for, or a share of all ("30%").
    """

    per_output: int = 1
    assign: str = "shared"
    seed: int = 0
    guidelines: str | None = None
    locale: str | None = None
    title: str | None = None
    pairs: str = "balanced"
    unit_items: int = UNIT_ITEMS
    skip_missing: bool = False
    allocate: str | None = None
    question: str = "top"
    budget: int | str | None = None


DEFAULTS = CampaignSettings()


class AllocationOptions(msgspec.Struct, frozen=True):
    """How the allocator decides."""

    policy: str
    question: str
    budget: int | str | None
    protocol_scale: str


class UnitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How units are cut, also later: the JSON that a campaign keeps as its settings."""

    pairs: str = "balanced"
    unit_items: int = UNIT_ITEMS
    skip_missing: bool = False
    allocate: AllocationOptions | UnsetType = UNSET

    def cut(self, evalset: EvalSet, selection: Selection | None, protocol: Protocol, seed: int) -> list[Unit]:
        """Cut the selected cells into units."""
        return make_units(
            evalset,
            selection,
            protocol,
            seed=seed,
            unit_items=self.unit_items,
            pairs=self.pairs,
            skip_missing=self.skip_missing,
        )


@dataclass(frozen=True)
class NewCampaign:
    """What a campaign is made of; its settings have a locale, a title and guidelines."""

    evalset: EvalSet
    selection: Selection | None
    protocol: Protocol
    protocol_text: str
    units: list[Unit]
    annotators: tuple[str, ...]
    settings: CampaignSettings
    unit_options: UnitOptions


def gather_inputs(
    data: DataLike,
    selection: SelectionLike | None,
    protocol: str | Path | Protocol,
    annotators: int | Sequence[str],
    settings: CampaignSettings = DEFAULTS,
) -> NewCampaign:
    """Read and check everything before a file is made."""
    loaded, text = _read_protocol(protocol)
    names = annotator_names(annotators)
    one_of("assign", settings.assign, POLICIES)
    if not 1 <= settings.per_output <= len(names):
        remedy = f"nobody judges an output twice, and there are {len(names)} annotators; choose 1 to {len(names)}, or "
        raise invalid("per_output", settings.per_output, f"{remedy}name more `annotators`")
    evalset = as_evalset(data)
    chosen = None if selection is None else as_selection(selection)
    if chosen is not None:
        for note in chosen.check(evalset):
            warnings.warn(note, AliquotWarning, 3)
        # these outputs are what is judged
        origin = record_origin(evalset, chosen.ids, is_pool=evalset.n_items == chosen.population)
        chosen = replace(chosen, origin=origin)
    options = UnitOptions(
        pairs=settings.pairs,
        unit_items=settings.unit_items,
        skip_missing=settings.skip_missing,
        allocate=UNSET if settings.allocate is None else _allocation_options(settings, chosen, loaded),
    )
    resolved = msgspec.structs.replace(
        settings,
        assign=settings.assign if settings.allocate is None else "allocate",
        guidelines=settings.guidelines or "",
        locale=settings.locale or loaded.locale,
        title=settings.title or loaded.title,
    )
    units = options.cut(evalset, chosen, loaded, settings.seed) if settings.allocate is None else []
    return NewCampaign(evalset, chosen, loaded, text, units, names, resolved, options)


def _allocation_options(
    settings: CampaignSettings, selection: Selection | None, protocol: Protocol
) -> AllocationOptions:
    """The options of the allocator that the queue follows."""
    if selection is not None:
        raise OptionError("`allocate` chooses items by itself; leave out `selection`, or `allocate`", "allocate")
    if settings.assign != "shared":
        raise OptionError("`allocate` needs the shared queue; leave out `assign`", "allocate")
    has_spans = any(isinstance(w, Spans) for w in protocol.widgets)
    has_scores = any(isinstance(w, Score) for w in protocol.widgets)
    scale = "penalties" if has_spans and not has_scores else "ratings"
    return AllocationOptions(settings.allocate or "auto", settings.question, settings.budget, scale)


def _read_protocol(protocol: str | Path | Protocol) -> tuple[Protocol, str]:
    if isinstance(protocol, Protocol):
        return load_protocol(protocol), msgspec.json.encode(protocol).decode()
    return load_protocol(protocol), protocol_text(protocol)[0]


def annotator_names(annotators: int | Sequence[str]) -> tuple[str, ...]:
    """Return names of annotators; a number gives ann1, ann2, ...

    >>> annotator_names(2)
    ('ann1', 'ann2')
    """
    if isinstance(annotators, int):
        count = between("annotators", annotators, 1, 100_000)
        return tuple(f"ann{number}" for number in range(1, count + 1))
    names = tuple(str(name).strip() for name in annotators)
    if not names or "" in names:
        raise OptionError("`annotators`: a name is empty; write a number, or names such as ann1,ann2")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise OptionError(f"`annotators`: '{repeated}' is named twice; give each annotator another name", "annotators")
    return names
