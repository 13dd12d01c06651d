"""`select_pool`: from files of sources, a method and a budget to the items worth translating and judging."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aliquot.core.columns import decode_column, encode_column, frame_from_records
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Spec, parse_spec
from aliquot.core.result import make_signature
from aliquot.core.selection import Selection
from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.core.written import format_number, format_percent
from aliquot.errors import AliquotWarning, DataError, FormatError
from aliquot.io.overwrite import protect_inputs
from aliquot.sampling.budgets import resolve_budget
from aliquot.sampling.methods import resolve_spec
from aliquot.sampling.pool_methods import (
    BALANCE,
    BINS,
    Dedup,
    PoolItems,
    PoolMethod,
    pool_items,
    pool_kmeans,
    pool_method,
)
from aliquot.sampling.pool_passes import (
    NO_GROUP,
    MeasuredPool,
    Progress,
    fetch_items,
    first_pass,
    hash_texts,
    open_parts,
    refuse_repeated_ids,
)
from aliquot.sampling.pool_reading import PARTITION_BYTES, PARTITION_ROWS, open_pool
from aliquot.sampling.select import build_task, report_empty
from aliquot.sampling.sources import build_unlike_warning
from aliquot.sampling.summary import describe_effect
from aliquot.sampling.tasks import ChosenRows, choose_rows
from aliquot.sampling.text_vectors import near_duplicates
from aliquot.stats.arrays import IntArray

MAX_EXAMPLES, MAX_EXCERPT = 5, 60
"""Items that a view of a selection shows, and characters of their sources."""


@dataclass(frozen=True, eq=False)
class PoolSelection(Shown):
    """The items chosen from a pool."""

    # ids in order, with utility and probability; the population is the pool without its duplicates
    selection: Selection
    items: pl.DataFrame  # the chosen items themselves, in the same order
    n_items: int  # how many items the pool has
    duplicates: int = 0  # how many were left out because they repeat an earlier source

    def __len__(self) -> int:
        return len(self.selection)

    def save(self, path: str | Path) -> None:
        """Save as item JSON lines, sources included, with a `selection` object on each; `Selection.load` reads it."""
        self.selection.save(path, EvalSet(items=self.items, systems=(), name="pool"))

    def to_frame(self) -> pl.DataFrame:
        """One row per chosen item: the selection's columns, then the item's own."""
        chosen = self.selection.to_frame()
        other_columns = [name for name in self.items.columns if name not in chosen.columns]
        return chosen.hstack(self.items.select(other_columns))

    @property
    def signature(self) -> str:
        """The line that reproduces the selection."""
        return self.selection.signature

    @property
    def notes(self) -> tuple[str, ...]:
        """Which method `auto` chose, where it did."""
        auto = self.selection.details.get("auto")
        return () if auto is None else (f"auto chose {auto}",)

    def views(self) -> tuple[View, ...]:
        """Return the views `items` (the first few) and `effect`."""
        population, cost = self.selection.population, self.selection.cost
        share = format_percent(len(self) / population)
        size = f"{len(self):,} of {population:,} sources ({share}) by {self.selection.method}"
        facts = [size]
        if self.duplicates:
            facts.append(f"{self.duplicates:,} of {self.n_items:,} sources repeat an earlier one and were left out")
        if cost is not None:
            facts.append(f"cost {format_number(float(cost.sum()), 4)}")
        columns = (
            Column("id", kind="name"),
            Column("probability", lambda row: None if row["probability"] is None else f"{row['probability']:.2g}"),
            Column("utility"),
            Column("source", _cut_source, "text"),
        )
        more = f"... and {len(self) - MAX_EXAMPLES:,} more" if len(self) > MAX_EXAMPLES else ""
        examples = self.to_frame().head(MAX_EXAMPLES)
        return (
            View.of_frame("items", examples, columns, intro=["\n".join(facts)], caption=more),
            View("effect", intro=[f"effect: {describe_effect(self.selection)}"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        items = [encode_column(name, decode_column(self.items[name])) for name in self.items.columns]
        sources = pl.DataFrame(items).to_dicts()
        return self.selection.to_dict() | {"n_items": self.n_items, "duplicates": self.duplicates, "sources": sources}


def _cut_source(row: Mapping[str, Any]) -> str:
    """Return the beginning of a source in one line."""
    text = " ".join(str(row.get("source") or "").split())
    return text if len(text) <= MAX_EXCERPT else f"{text[: MAX_EXCERPT - 1]}…"


@protect_inputs()
def select_pool(
    paths: str | Path | Sequence[str | Path],
    method: str = "auto",
    budget: float | str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    cost: str | None = None,
    balance: str | None = None,
    dedup: Dedup | None = None,
    pair: str | None = None,
    seed: int = 0,
    jobs: int | None = 1,
    engine: str | None = None,
    journal: str | Path | None = None,
    progress: Progress | None = None,
    partition_rows: int = PARTITION_ROWS,
    partition_bytes: int = PARTITION_BYTES,
) -> PoolSelection:
    r"""Choose the sources to translate and judge, among more than memory holds.

    The selection is that of `select` on the same file loaded into memory, whatever the partitions, `jobs` and engine
    (k-means excepted: here it learns from mini-batches).

    Args:
        paths: Parquet or JSON lines (plain or gzip), or patterns such as "pool/*.parquet".
        method: "source:model=FILE", "source_length" (largest first); "pps:size=length", "pps:size=COLUMN",
            "pps:size=(source:model=FILE)", "segments", "stratified:bins=COLUMN", "documents" (known probabilities);
            "kmeans"; or "auto".
        budget: a number of items, a share ("1%"), with `cost` an amount of cost.
        columns: role -> its name in the files, e.g. {"id": "key", "source": "text"}.
        cost: a column, or "esa_time".
        balance: a column over whose values the budget is split equally.
        dedup: "exact" or "near": leave out sources that repeat, or almost repeat, an earlier one.
        pair: the language pair, for models that know several.
        seed: same seed, same selection.
        jobs: processes; None for all cores.
        engine: "dask://host:port" for a cluster whose workers see the same files.
        journal: the output file beside which finished partitions are kept (NAME.part), so that a killed run resumes.
        progress: called with the name of the pass, the share done and the number of items so far.
        partition_rows: rows of Parquet read at a time.
        partition_bytes: bytes of JSON lines read at a time.

    >>> import json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pool.jsonl"
    >>> _ = path.write_text("".join(json.dumps({"i": k, "src": "word " * (k % 9 + 1)}) + "\n" for k in range(500)))
    >>> chosen = select_pool(path, "pps:size=length", 20, seed=3)
    >>> chosen.selection
    Selection(20 of 500 items by pps:size=length, with probabilities)
    """
    asked_method = pool_method(method, cost=cost, balance=balance, dedup=dedup, pair=pair)
    if engine is not None:  # workers may have been started in another folder
        paths = [Path(path).absolute() for path in ([paths] if isinstance(paths, str | Path) else paths)]
    pool = open_pool(paths, columns, partition_rows=partition_rows, partition_bytes=partition_bytes)
    fingerprint = pool.fingerprint
    named = ",".join(f"{role}={name}" for role, name in sorted((columns or {}).items()))
    line = make_signature("pool", None, first_pass=asked_method.request, columns=named or None, data=fingerprint)
    with open_parts(None if journal is None else Path(journal), line, len(pool.partitions)) as parts:
        measured = first_pass(pool, asked_method.request, parts, jobs=jobs, engine=engine, progress=progress)
        if progress is not None:
            progress("choosing", 1.0, measured.n_items)
        _refuse_absent_roles(measured, asked_method)
        refuse_repeated_ids(measured)
        kept_rows = _without_duplicates(measured, dedup)
        items, digest = _pool_items(measured, asked_method, kept_rows)
        _warn_of_unlike_sources(measured, asked_method)
        costs = None if cost is None else parts.read_column("cost")[kept_rows].astype(np.float64, copy=False)
        spec, details = resolve_spec(items, parse_spec(method), {})
        amount = resolve_budget(budget, items.n_items, costs)
        if spec.name == "kmeans":
            vectors = parts.map_rows("vector")
            clusters = pool_kmeans(vectors, kept_rows, amount.n, np.random.default_rng(seed), **asked_method.parameters)
            chosen = ChosenRows(clusters.rows, weight=clusters.weight)
        else:
            group = None if balance is None else BALANCE
            task = build_task(items, Spec(spec.name, asked_method.parameters), amount, costs, balance=group, seed=seed)
            chosen = choose_rows(replace(task, method=asked_method.method), matching=True)
        if not len(chosen.rows):
            report_empty(spec, budget, costs)
        records = fetch_items(measured, kept_rows[chosen.rows], jobs=jobs, engine=engine, progress=progress)
        if pool.fingerprint != fingerprint:
            raise FormatError(f"{measured.files}: a file changed while it was read; start again")
        _check_sources(records, measured)
    duplicates = measured.n_items - items.n_items
    if dedup is not None:
        details = details | {"dedup": dedup, "duplicates": duplicates}
    table = _build_table(records)
    selection = Selection(
        ids=tuple(table["id"].to_list()),
        population=items.n_items,
        method=str(spec),
        utility=chosen.utility,
        probability=chosen.probability,
        weight=chosen.weight,
        cost=None if costs is None else costs[chosen.rows],
        stratum=None if chosen.stratum is None else tuple(map(str, chosen.stratum.tolist())),
        design=chosen.design,
        details=details | dict(chosen.details),
        signature=make_signature(
            f"pool:{spec}",
            None,
            budget=budget,
            cost=cost,
            balance=balance,
            dedup=dedup,
            pair=pair,
            seed=seed,
            data=digest,
        ),
    )
    return PoolSelection(selection, table, measured.n_items, duplicates)


def _without_duplicates(measured: MeasuredPool, dedup: Dedup | None) -> IntArray:
    """Return the rows whose source repeats no earlier one; all rows without `dedup`."""
    if dedup is None:
        return np.arange(measured.n_items)
    hashes = measured.parts.read_column("text")
    first = np.zeros(len(hashes), dtype=np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    if dedup == "near":
        first &= ~near_duplicates(measured.parts.map_rows("signature"))  # type: ignore[arg-type]
    return np.flatnonzero(first)


def _pool_items(measured: MeasuredPool, method: PoolMethod, kept_rows: IntArray) -> tuple[PoolItems, str]:
    """Return the pool as numbers, and a digest of all numbers that the selection depends on."""
    parts, digest = measured.parts, hashlib.blake2b(digest_size=16)
    arrays: dict[str, NDArray[np.generic]] = {}
    digest.update(parts.read_column("id").tobytes())
    for column, name in method.columns.items():
        values = parts.read_column(name)
        digest.update(values.tobytes())
        _refuse_empty(values, column, name, method, measured)
        arrays[column] = (values if values.dtype != np.uint64 else values.view(np.int64))[kept_rows]
    documents = parts.read_column("document") if method.request.document else None
    if documents is not None:
        digest.update(documents.tobytes())
    if method.request.position:
        position = parts.read_column("position").astype(np.int64)
        missing = position == np.iinfo(np.int64).min
        if not missing.all():
            arrays["position"] = np.where(missing, 0, position)[kept_rows]
    items = pool_items(len(kept_rows), arrays, None if documents is None else documents[kept_rows], measured.files)
    return items, digest.hexdigest()[:6]


def _build_table(records: list[dict[str, Any]]) -> pl.DataFrame:
    for record in records:
        for name in ("document", "domain"):
            if record.get(name) is not None:
                record[name] = str(record[name])
    table = frame_from_records(records) if records else pl.DataFrame({"id": pl.Series([], dtype=pl.Int64)})
    return table.select("id", pl.exclude("id"))


# -- checks of the pool as a whole: before anything is written -------------------------------------------------------


def _refuse_empty(
    values: NDArray[np.generic], column: str, array: str, method: PoolMethod, measured: MeasuredPool
) -> None:
    """Raise DataError if a column that the selection depends on is empty in the whole pool."""
    value = method.request.value
    if column in (BALANCE, BINS):
        empty, what = bool((values == hash_texts([NO_GROUP])[0]).all()), f"a value in '{array.removeprefix('group:')}'"
    elif value is not None and array == "value":
        empty = not np.isfinite(values.astype(np.float64, copy=False)).any()
        what = f"a number in '{value.name}'" if value.kind == "column" else "a source (field 'src')"
    else:
        return
    if empty:
        raise DataError(f"{measured.files}: no item has {what}; check the name, or map it with `columns` ROLE=NAME")


def _refuse_absent_roles(measured: MeasuredPool, method: PoolMethod) -> None:
    """Raise DataError if `columns` names a field that no item has."""
    for role in ("id", *(["document"] if method.request.document else [])):
        if role in measured.pool.fields and not measured.parts.read_column(role).any():
            raise _build_absent_error(role, measured)


def _check_sources(records: Sequence[dict[str, Any]], measured: MeasuredPool) -> None:
    """Warn if no chosen item has a source; the first pass may not have read sources."""
    if any("source" in record for record in records) or not records:
        return
    if "source" in measured.pool.fields:
        raise _build_absent_error("source", measured)
    fields = ", ".join(f"'{name.removeprefix('field:')}'" for name in list(records[0])[:8] if name != "id")
    warnings.warn(
        f"no chosen item has a source (field 'src'); there are: {fields}; name it with `columns` source=NAME",
        AliquotWarning,
        3,
    )


def _build_absent_error(role: str, measured: MeasuredPool) -> DataError:
    name = measured.pool.fields[role]
    return DataError(f"`columns` {role}={name}: no item of {measured.files} has the field '{name}'; check the name")


def _warn_of_unlike_sources(measured: MeasuredPool, method: PoolMethod) -> None:
    """Warn if many sources are unlike those the model was trained on."""
    if method.request.value_kind != "model":
        return
    warning = build_unlike_warning(measured.parts.read_column("unlike").astype(np.float64, copy=False))
    if warning:
        warnings.warn(warning, AliquotWarning, 3)
