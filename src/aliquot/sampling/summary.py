"""How a selection compares with the full set, and which conclusions it allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import parse_spec
from aliquot.core.result import Result
from aliquot.core.selection import Selection
from aliquot.core.view import Column, View
from aliquot.core.written import format_number, format_percent
from aliquot.sampling.methods import find_method

MAX_IDS = 10
_MAX_LENGTH = 50


@dataclass(frozen=True)
class Share:
    """A group's share of the selection and of the full set."""

    name: str
    selected: float
    full: float


@dataclass(frozen=True)
class SelectionSummary(Result):
    """How the selection compares with the full set."""

    items: int
    population: int
    cost: float | None
    total_cost: float | None
    documents: int | None
    all_documents: int | None
    domains: tuple[Share, ...]
    document_lengths: tuple[Share, ...]
    effect: str
    notes: tuple[str, ...]
    selection: Selection

    @property
    def signature(self) -> str:
        """The line that reproduces the selection."""
        return self.selection.signature

    def document(self) -> dict[str, Any]:
        """Return the fields but the selection itself."""
        return self.fields_without("selection") | {"method": self.selection.method}

    def to_frame(self) -> pl.DataFrame:
        """One row per domain and per class of document lengths: its share of the selection and of the full set."""
        kinds = (("domain", self.domains), ("document_length", self.document_lengths))
        rows = [{"kind": kind, **vars(share)} for kind, shares in kinds for share in shares]
        schema = {"kind": pl.String, "name": pl.String, "selected": pl.Float64, "full": pl.Float64}
        return pl.DataFrame(rows, schema=schema)

    def views(self) -> tuple[View, ...]:
        """Return the views `size`, `domains` and `documents` (where there are several), and `items`."""
        selection = self.selection
        facts = []
        if self.cost is not None:
            of_all = f" of {format_number(self.total_cost, 4)}" if self.total_cost else ""
            facts.append(f"cost {format_number(self.cost, 4)}{of_all}")
        if self.documents is not None:
            facts.append(f"{self.documents} of {self.all_documents} documents")
        share = format_percent(self.items / self.population)
        size = f"{self.items} of {self.population} items ({share}) by {selection.method}"
        waves = selection.details.get("waves")
        ids = selection.ids if waves is None else selection.ids[len(selection) - waves[-1]["drawn"] :]
        examples = ", ".join(map(str, ids[:MAX_IDS])) + " ..." * (len(ids) > MAX_IDS)
        shares = (
            ("domains", "domain", self.domains),
            ("documents", "document length", self.document_lengths),
        )
        return (
            View("size", intro=["\n".join([size, *([", ".join(facts)] if facts else [])])]),
            *(
                View(
                    name,
                    rows,
                    [
                        Column(header, "name", "name"),
                        Column("selected", kind="share"),
                        Column("full set", "full", "share"),
                    ],
                )
                for name, header, rows in shares
                if len(rows) > 1
            ),
            View("items", intro=[f"{'first' if waves is None else 'new'}: {examples}", f"effect: {self.effect}"]),
        )


def summarise_selection(selection: Selection, evalset: EvalSet, total_cost: float | None = None) -> SelectionSummary:
    """Compare a selection with the set it was chosen from."""
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    rows = np.array([row_of[item] for item in selection.ids], dtype=np.int64)
    codes = evalset.documents
    return SelectionSummary(
        items=len(selection),
        population=selection.population,
        cost=None if selection.cost is None else float(selection.cost.sum()),
        total_cost=total_cost,
        documents=None if codes is None else len(np.unique(codes[rows])),
        all_documents=None if codes is None else int(codes.max()) + 1,
        domains=_domain_shares(evalset, rows),
        document_lengths=() if codes is None else length_shares(codes, rows),
        effect=describe_effect(selection),
        notes=_write_notes(selection),
        selection=selection,
    )


def _domain_shares(evalset: EvalSet, rows: np.ndarray) -> tuple[Share, ...]:
    if "domain" not in evalset.items.columns:
        return ()
    domain = evalset.items["domain"].fill_null("(none)")
    full = domain.value_counts(sort=True)
    chosen = dict(domain.gather(pl.Series(rows, dtype=pl.UInt32)).value_counts().iter_rows())
    return tuple(
        Share(name, chosen.get(name, 0) / max(1, len(rows)), count / evalset.n_items)
        for name, count in full.iter_rows()
    )


def length_shares(codes: np.ndarray, rows: np.ndarray) -> tuple[Share, ...]:
    """Return shares of items in documents of 0-9, 10-19, ... items (Knowles and Lo 2023, table 4)."""
    length = np.bincount(codes)[codes]
    group = np.minimum(length // 10, _MAX_LENGTH // 10)
    full = np.bincount(group, minlength=_MAX_LENGTH // 10 + 1) / len(codes)
    chosen = np.bincount(group[rows], minlength=_MAX_LENGTH // 10 + 1) / max(1, len(rows))
    names = [f"{10 * k}-{10 * k + 9}" if k < _MAX_LENGTH // 10 else f"{_MAX_LENGTH}+" for k in range(len(full))]
    return tuple(Share(*row) for row in zip(names, chosen.tolist(), full.tolist(), strict=True) if row[2] > 0)


def describe_effect(selection: Selection) -> str:
    """Return in words which conclusions the selection allows."""
    method, _ = find_method(parse_spec(selection.method).name)
    if len(selection) == selection.population and selection.systems is None:
        if selection.design.within is not None:
            return "all items of the first selection are chosen: estimates are about those"
        return "all items are chosen: means are exact up to the noise of the judgments"
    coverage = selection.design.coverage
    if coverage < 1.0:
        return f"only {coverage:.0%} of the items had a probability above 0: estimates are about those items only"
    if selection.probability is not None:
        if _within_fixed(selection):
            return "every item of the first selection had a known probability, so estimates are about those items"
        return "every item had a known probability, so means, intervals and rankings for the whole set are unbiased"
    if method.name == "random":
        return "a random order: a plain mean over the first items is unbiased (the design 'segments' records this)"
    if selection.weight is not None:
        return "each item stands for its cluster: weighted means are approximate, intervals are not valid"
    return "system means from this selection are biased; use a design (segments, pps, ...) if you need means"


def _within_fixed(selection: Selection) -> bool:
    """Return whether the first stage has no probabilities, so that its items are the population."""
    return selection.design.within is not None and selection.population == selection.design.first_stage


def _write_notes(selection: Selection) -> tuple[str, ...]:
    notes = []
    details = selection.details
    if "auto" in details:
        notes.append(f"auto chose {details['auto']}")
    if details.get("gap"):
        notes.append(f"the choice is within {details['gap']:.1e} of the best possible total utility")
    if details.get("rounding") == "nearest" and details.get("empty_bins"):
        notes.append(
            f"{details['empty_bins']} of {details['bins']} bins got no item: means are biased towards the others"
        )
    if details.get("matching") is False:
        notes.append("each system has its own draw; the file names the systems to judge for each item")
    if selection.design.within is not None and selection.probability is not None:
        stages = ", which has no probabilities" if _within_fixed(selection) else ": probabilities multiplied"
        notes.append(f"within a first selection of {selection.design.first_stage} by {selection.design.within}{stages}")
    if "waves" in details:
        *_, last, wave = details["waves"]
        requested = wave["size"] - last["size"]
        drawn = (
            f"{wave['drawn']} items" if wave["drawn"] == requested else f"{wave['drawn']} items ({requested} expected)"
        )
        notes.append(f"wave {len(details['waves'])} adds {drawn} to {len(selection) - wave['drawn']}, which come first")
    if "draws" in details:
        notes.append(f"best of {details['draws']} draws by a metric: known probabilities are given up")
    if selection.cost is not None and selection.probability is not None:
        notes.append("the cost budget holds in expectation; this draw's cost is shown")
    return tuple(notes)
