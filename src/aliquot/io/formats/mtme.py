"""Folders of WMT's mt-metrics-eval, version 2: parallel text files with one line per segment.

sources/en-de.txt  references/en-de.refA.txt  documents/en-de.docs  system-outputs/en-de/SYSTEM.txt
human-scores/en-de.mqm.seg.score  metric-scores/en-de/COMET-refA.seg.score     (system TAB score; None = missing)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.core.conventions import is_error_rate, is_human_name
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, FormatError, OptionError, OutputError, quoted, unknown_name
from aliquot.io.files import decode_text, read_bytes
from aliquot.io.writing import atomic_folder
from aliquot.stats.arrays import FloatArray

_SEGMENT = ".seg.score"
_MISSING_WORDS = ("none", "nan", "")
_NOT_IN_FILE_NAMES = "/\t\n\r\0"


def looks_like(folder: Path) -> bool:
    """Return whether a folder has the layout of mt-metrics-eval."""
    return (folder / "sources").is_dir() and (folder / "system-outputs").is_dir()


def list_pairs(folder: Path) -> list[str]:
    """Return the language pairs of a test set."""
    return sorted(path.stem for path in (folder / "sources").glob("*.txt"))


def read(folder: Path, pair: str | None = None) -> EvalSet:
    """Read one language pair; it must be named where the folder holds several."""
    available = list_pairs(folder)
    if not available:
        raise FormatError(f"{folder}: sources/ holds no PAIR.txt; is this an mt-metrics-eval v2 test set?")
    if pair is None:
        if len(available) > 1:
            raise OptionError(
                f"{folder}: holds {len(available)} language pairs ({quoted(available)}); choose one with `pair`, "
                "or read all with aliquot.load_all"
            )
        pair = available[0]
    if pair not in available:
        raise unknown_name("language pair", pair, available)
    sources = read_lines(folder / "sources" / f"{pair}.txt")
    n = len(sources)
    outputs = {path.stem: read_lines(path, n) for path in sorted((folder / "system-outputs" / pair).glob("*.txt"))}
    if not outputs:
        raise FormatError(f"{folder}: system-outputs/{pair} holds no SYSTEM.txt")
    systems = list(outputs)
    scores, flipped = _read_scores(folder, pair, systems, n)
    return EvalSet(
        items=pl.DataFrame(
            [pl.Series("id", range(n)), pl.Series("source", sources), *_read_item_columns(folder, pair, n)]
        ),
        systems=tuple(systems),
        scores=scores,
        outputs=pl.DataFrame([pl.Series(system, texts, dtype=pl.String) for system, texts in outputs.items()]),
        human=_choose_human(scores),
        flipped=flipped,
        name=f"{folder.name}/{pair}",
    )


def read_lines(path: Path, expected: int | None = None, kind: str = "sources") -> list[str]:
    """Return the lines of a text file; `expected` is their number in the `kind` parallel to it."""
    text = decode_text(read_bytes(path), path)
    lines = text.split("\n")  # not splitlines: texts hold other line-like characters
    if lines and not lines[-1]:
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if expected is not None and len(lines) != expected:
        raise FormatError(
            f"{path}: {len(lines)} lines where the {kind} have {expected}; the files must be parallel, line by line"
        )
    return lines


def _read_item_columns(folder: Path, pair: str, n: int) -> list[pl.Series]:
    columns = []
    references = _list_references(folder, pair)
    for number, (name, path) in enumerate(references.items()):
        columns.append(pl.Series("reference" if number == 0 else f"reference_{name}", read_lines(path, n)))
    documents = folder / "documents" / f"{pair}.docs"
    if documents.exists():
        rows = [line.split("\t") for line in read_lines(documents, n)]
        bad = next((number for number, row in enumerate(rows, start=1) if len(row) < 2), None)
        if bad is not None:
            raise FormatError(f"{documents} line {bad}: expected DOMAIN<tab>DOCUMENT, found {rows[bad - 1]}")
        columns += [pl.Series("document", [row[1] for row in rows]), pl.Series("domain", [row[0] for row in rows])]
    return columns


def _list_references(folder: Path, pair: str) -> dict[str, Path]:
    paths = sorted((folder / "references").glob(f"{pair}.*.txt")) if (folder / "references").is_dir() else []
    return {path.name.removeprefix(f"{pair}.").removesuffix(".txt"): path for path in paths}


def _read_scores(folder: Path, pair: str, systems: list[str], n: int) -> tuple[dict[str, FloatArray], frozenset[str]]:
    human = sorted((folder / "human-scores").glob(f"{pair}.*{_SEGMENT}"))
    scores = {
        path.name.removeprefix(f"{pair}.").removesuffix(_SEGMENT): _read_score(path, systems, n) for path in human
    }
    metric_files = sorted((folder / "metric-scores" / pair).rglob(f"*{_SEGMENT}"))
    names = _shorten_metric_names(
        [path.name.removesuffix(_SEGMENT) for path in metric_files], list(_list_references(folder, pair))
    )
    flipped = set()
    for name, path in zip(names, metric_files, strict=True):
        values = _read_score(path, systems, n)
        if is_error_rate(name) and _mostly_positive(values):  # some years' archives hold it negated already
            values = -values
            flipped.add(name)
        scores[name] = values
    if flipped:
        warnings.warn(
            f"{folder.name}/{pair}: {quoted(sorted(flipped))} count errors (lower is better): flipped",
            AliquotWarning,
            2,
        )
    for values in scores.values():
        values.setflags(write=False)
    return scores, frozenset(flipped)


def _mostly_positive(values: FloatArray) -> bool:
    present = values[np.isfinite(values)]
    return bool(present.size) and bool(np.median(present) > 0)


def _shorten_metric_names(names: Sequence[str], references: Sequence[str]) -> list[str]:
    """Drop the suffix for the reference used (COMET-refA, CometKiwi-src) if names stay unique.

    >>> _shorten_metric_names(["BLEU-refA", "BLEU-refB", "Kiwi-src", "COMET-refA"], ["refA", "refB"])
    ['BLEU', 'BLEU-refB', 'Kiwi', 'COMET']
    """
    main = references[0] if references else None
    suffixes = [suffix for suffix in (main, "src") if suffix]
    short = [next((name.removesuffix(f"-{s}") for s in suffixes if name.endswith(f"-{s}")), name) for name in names]
    return [
        new if short.count(new) == 1 and (new == old or new not in names) else old
        for new, old in zip(short, names, strict=True)
    ]


def _read_score(path: Path, systems: list[str], n: int) -> FloatArray:
    """Read SYSTEM<tab>SCORE lines, the systems' segments one after the other; systems may be absent."""
    rows: dict[str, list[float]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t") if "\t" in line else line.rsplit(maxsplit=1)
        if len(fields) < 2:
            raise FormatError(f"{path} line {number}: expected SYSTEM<tab>SCORE, found '{line[:60]}'")
        system, text = fields[0], fields[1].strip()
        try:
            value = float("nan") if text.casefold() in _MISSING_WORDS else float(text)
        except ValueError:
            raise FormatError(f"{path} line {number}: '{text}' is not a number; use None for missing") from None
        if np.isinf(value):
            raise FormatError(f"{path} line {number}: the score is infinite; use None for missing")
        rows.setdefault(system, []).append(value)
    scores = np.full((n, len(systems)), np.nan)
    for system, values in rows.items():
        if len(values) != n:
            raise FormatError(f"{path}: {len(values)} scores for '{system}' where there are {n} segments")
        if system in systems:
            scores[:, systems.index(system)] = values
    return scores


def _choose_human(scores: dict[str, FloatArray]) -> str | None:
    """Prefer error annotations by experts over direct assessment, as the WMT metrics tasks do."""
    human = [name for name in scores if is_human_name(name)]
    for start in ("mqm", "esa", "da", "wmt"):
        chosen = [name for name in human if name.startswith(start) and np.isfinite(scores[name]).any()]
        if chosen:
            return min(chosen, key=len)
    return None


def write(evalset: EvalSet, folder: Path, pair: str, *, alone: bool = False) -> None:
    """Write one language pair; scores with names of human scores go to human-scores/.

    The format knows lines only: line breaks inside a text become spaces, and judgments have no place in it.

    A folder that is there may hold other language pairs, which stay, unless the campaign is to be `alone` in it. The
    pair itself is replaced when its sources are the same and no other file of it would stay; anything else there is
    another campaign, and is refused.
    """
    _require_free_folder(folder)
    if evalset.outputs is None or "source" not in evalset.items.columns:
        raise OptionError(f"{evalset.name}: an mt-metrics-eval folder needs sources and outputs; write .jsonl instead")
    for kind, names in (("pair", [pair]), ("system", evalset.systems), ("score", evalset.scores)):
        for name in names:
            _validate_file_name(name, kind)
    files = {Path(place): _encode_lines(lines) for place, lines in _iterate_files(evalset, pair)}
    kept_files = _list_kept_files(folder, pair, files)
    if kept_files and alone:
        raise OutputError(
            f"{folder}: holds another campaign ({quoted(list_pairs(folder), 3)}); name a new folder, or add it as "
            "a language pair of its own: `pair`"
        )
    with atomic_folder(folder, keep=kept_files) as temporary:
        for place, content in files.items():
            (temporary / place).parent.mkdir(parents=True, exist_ok=True)
            (temporary / place).write_bytes(content)


def _encode_lines(lines: list[str]) -> bytes:
    return "".join(line.replace("\r", " ").replace("\n", " ") + "\n" for line in lines).encode()


def _require_free_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file where an output folder is meant; name another")
    if folder.exists() and any(folder.iterdir()) and not looks_like(folder):
        raise OutputError(f"{folder}: is a folder with other things in it; name a file or a new folder")


def _list_kept_files(folder: Path, pair: str, files: dict[Path, bytes]) -> list[Path]:
    """Return the files of other pairs, which stay; raise OutputError if campaigns would be mixed or replaced."""
    existing = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if not path.is_dir()]
    same = [place for place in existing if _belongs_to_pair(place, pair)]
    source = Path("sources", f"{pair}.txt")
    if source in same and (folder / source).read_bytes() != files[source]:
        raise OutputError(
            f"{folder}: holds another campaign of {pair}, with other sources; name a new folder, or delete it"
        )
    mixed = [place for place in same if place not in files]
    if mixed:
        raise OutputError(
            f"{folder}: holds another campaign of {pair}, which would be mixed with this one ({quoted(mixed, 2)} would "
            "stay); name a new folder, or delete it"
        )
    return [place for place in existing if place not in same]


def _belongs_to_pair(place: Path, pair: str) -> bool:
    """Return whether a file belongs to the language pair."""
    return len(place.parts) > 1 and (place.parts[1] == pair or place.parts[1].startswith(f"{pair}."))


def _validate_file_name(name: str, kind: str) -> None:
    bad = next((character for character in _NOT_IN_FILE_NAMES if character in name), None)
    if bad is not None:
        raise OptionError(
            f"the {kind} '{name}' has {bad!r} in its name, which names a file in an mt-metrics-eval folder; "
            "rename it, or write .jsonl instead"
        )


def _iterate_files(evalset: EvalSet, pair: str) -> Iterator[tuple[str, list[str]]]:
    items, outputs = evalset.items, evalset.outputs
    against = "refA" if "reference" in items.columns else "src"  # what a metric compares outputs with
    yield f"sources/{pair}.txt", _list_texts(items["source"])
    if "reference" in items.columns:
        yield f"references/{pair}.refA.txt", _list_texts(items["reference"])
    if "document" in items.columns:
        domains = _list_texts(items["domain"]) if "domain" in items.columns else ["all"] * items.height
        rows = zip(domains, _list_texts(items["document"]), strict=True)
        yield f"documents/{pair}.docs", [f"{domain}\t{document}" for domain, document in rows]
    for column in outputs if outputs is not None else ():
        yield f"system-outputs/{pair}/{column.name}.txt", _list_texts(column)
    for name, values in evalset.scores.items():
        human = name == evalset.human or is_human_name(name)
        place = f"human-scores/{pair}.{name}" if human else f"metric-scores/{pair}/{name}-{against}"
        yield (
            f"{place}{_SEGMENT}",
            [
                f"{system}\t{'None' if np.isnan(value) else repr(float(value))}"
                for column, system in enumerate(evalset.systems)
                for value in values[:, column]
            ],
        )


def _list_texts(column: pl.Series) -> list[str]:
    return column.fill_null("").to_list()
