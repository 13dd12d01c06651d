"""What a campaign or a set of sheets is made of: everything is read and checked before a file is made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from aliquot.collect.protocols import Protocol, Score, Spans, load_protocol, protocol_text
from aliquot.collect.units import UNIT_ITEMS, Unit, make_units
from aliquot.core.evalset import EvalSet
from aliquot.core.origin import record_origin
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, OptionError, unknown_name
from aliquot.io.inputs import DataLike, SelectionLike, as_evalset, as_selection

POLICIES = ("shared", "fixed", "allocate")


@dataclass(frozen=True)
class Inputs:
    """What a campaign is made of."""

    evalset: EvalSet
    selection: Selection | None
    protocol: Protocol
    protocol_text: str
    units: list[Unit]
    annotators: tuple[str, ...]
    per_output: int
    assign: str
    seed: int
    guidelines: str
    locale: str
    title: str
    settings: dict[str, Any]


def gather(
    data: DataLike,
    selection: SelectionLike | None,
    protocol: str | Path | Protocol,
    annotators: int | Sequence[str],
    *,
    per_output: int = 1,
    assign: str = "shared",
    seed: int = 0,
    guidelines: str | None = None,
    locale: str | None = None,
    pairs: str = "balanced",
    unit_items: int = UNIT_ITEMS,
    skip_missing: bool = False,
    title: str | None = None,
    allocate: str | None = None,
    question: str = "top",
    budget: int | str | None = None,
) -> Inputs:
    """Read and check everything before a file is made."""
    chosen, text = _protocol(protocol)
    names = annotator_names(annotators)
    if assign not in POLICIES:
        raise unknown_name("--assign", assign, POLICIES)
    if not 1 <= per_output <= len(names):
        raise OptionError(
            f"--per-output {per_output}: nobody judges an output twice, and there are {len(names)} "
            f"annotators; choose 1 to {len(names)}, or name more --annotators"
        )
    evalset = as_evalset(data)
    picked = None if selection is None else as_selection(selection)
    if picked is not None:
        for note in picked.check(evalset):
            warnings.warn(note, AliquotWarning, 3)
        whole = evalset.n_items == picked.population
        picked = replace(
            picked, origin=record_origin(evalset, picked.ids, is_pool=whole)
        )  # these outputs are what is judged
    settings: dict[str, Any] = {"pairs": pairs, "unit_items": unit_items, "skip_missing": skip_missing}
    if allocate is not None:
        settings["allocate"] = _allocation(allocate, question, budget, picked, chosen, assign)
        assign, units = "allocate", []
    else:
        units = make_units(
            evalset, picked, chosen, seed=seed, unit_items=unit_items, pairs=pairs, skip_missing=skip_missing
        )
    return Inputs(
        evalset,
        picked,
        chosen,
        text,
        units,
        names,
        per_output,
        assign,
        seed,
        guidelines or "",
        locale or chosen.locale,
        title or chosen.title,
        settings,
    )


def _allocation(
    policy: str, question: str, budget: int | str | None, selection: Selection | None, protocol: Protocol, assign: str
) -> dict[str, Any]:
    """The options of the allocator that the queue follows."""
    if selection is not None:
        raise OptionError("--allocate chooses items by itself; leave out the selection, or leave out --allocate")
    if assign != "shared":
        raise OptionError("--allocate decides while people judge; it needs the shared queue, not --assign fixed")
    scale = (
        "penalties"
        if any(isinstance(w, Spans) for w in protocol.widgets)
        and not any(isinstance(w, Score) for w in protocol.widgets)
        else "ratings"
    )
    return {"policy": policy, "question": question, "budget": budget, "protocol_scale": scale}


def _protocol(protocol: str | Path | Protocol) -> tuple[Protocol, str]:
    if isinstance(protocol, Protocol):
        return load_protocol(protocol), msgspec.json.encode(protocol).decode()
    return load_protocol(protocol), protocol_text(protocol)[0]


def annotator_names(annotators: int | Sequence[str]) -> tuple[str, ...]:
    """Return names of annotators; a number gives ann1, ann2, ...

    >>> annotator_names(2)
    ('ann1', 'ann2')
    """
    if isinstance(annotators, int):
        if not 1 <= annotators <= 100_000:
            raise OptionError(f"--annotators {annotators}: 1 to 100,000 are possible")
        return tuple(f"ann{number}" for number in range(1, annotators + 1))
    names = tuple(str(name).strip() for name in annotators)
    if not names or "" in names:
        raise OptionError("--annotators: an annotator's name is empty; write a number, or names such as ann1,ann2")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"--annotators: '{twice}' is named twice; every annotator has a name of his or her own")
    return names
