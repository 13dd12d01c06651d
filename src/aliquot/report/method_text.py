"""The method paragraph of a paper with numbers filled in, as Markdown and LaTeX, and the references as BibTeX.

Sentences are pieces: plain text (escaped for each medium) and citations. Only methods that were used are cited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import polars as pl

from aliquot._version import __version__
from aliquot.core import escape
from aliquot.core.registry import parse_spec
from aliquot.core.written import format_fixed
from aliquot.report.findings import Findings


@dataclass(frozen=True)
class Cite:
    """A citation by the key of its BibTeX entry."""

    key: str


@dataclass(frozen=True)
class Reference:
    """A reference: how it is cited in words, and its BibTeX entry."""

    words: str
    entry: str


@cache
def load_references() -> dict[str, Reference]:
    """Return the references by key; before each entry of the file a comment says how it is cited in words.

    >>> load_references()["wei2021"].words
    'Wei and Jia 2021'
    """
    text = (resources.files("aliquot.report") / "templates" / "references.bib").read_text("utf-8")
    entries = re.findall(r"^% ([^\n]+)\n(@\w+\{(\w+),\n.*?^\}\n)", text, re.MULTILINE | re.DOTALL)
    return {key: Reference(words, entry.replace("VERSION", __version__)) for words, entry, key in entries}


Piece = str | Cite
_UTILITIES = ("metric_avg", "metric_var", "metric_cons", "diversity", "diffdisc", "irt", "source", "precomet")
_SAMPLES = {"documents": "knowles2023", "snippets": "knowles2023", "stratified": "saldias2022"}
_ESTIMATORS = {
    "greg": (" by the generalised regression estimator", "sarndal1992"),
    "cv": (" with a control variate", "saldias2022"),
    "paper_best": (" by stratification and a control variate", "saldias2022"),
    "stratified": (" by stratification", "saldias2022"),
    "multilevel": (" by a multilevel model that also uses the metrics' means of systems", None),
    "mean": (" by plain means", None),
}


def write_paragraph(findings: Findings) -> list[Piece]:
    """Return the pieces of the paragraph, in order."""
    return list(_choices_text(findings) if findings.comparison is not None else _scores_text(findings))


def _scores_text(findings: Findings) -> Iterator[Piece]:
    result, data = findings.estimates, findings.data
    if result is None or data is None:
        return
    judged = [row for row in result.systems if row.n]
    yield f"We compare {len(judged)} systems on {result.population:,} items"
    yield f" of {data.name}, of which {result.judged:,} were judged by people. "
    if findings.selection is not None:
        yield from _selection_text(findings)
    yield from _judges_text(findings)
    name = parse_spec(result.method).name
    words, key = _ESTIMATORS.get(name, (f" by {result.method}", None))
    yield f"The mean of each system over the whole test set is estimated{words}"
    yield from _cite(key)
    if name in ("greg", "cv", "multilevel") and data.metrics and result.judged < result.population:
        more = f" and {len(data.metrics) - 3} more" if len(data.metrics) > 3 else ""
        yield f" with the automatic metrics {', '.join(data.metrics[:3])}{more} as auxiliary variables"
    yield f", with {result.level:.0%} intervals ({result.interval}). "
    yield f"Two systems differ if a two-sided test of their means gives p < {findings.options.alpha:g} after adjustment"
    yield " for all pairs by Benjamini and Hochberg"
    yield Cite("benjamini1995")
    yield ". "
    yield from _agreement_text(findings)
    yield from _metrics_text(findings)
    yield from _closing_text(findings)


def _selection_text(findings: Findings) -> Iterator[Piece]:
    selection = findings.selection
    if selection is None:
        return
    name = parse_spec(selection.method).name
    is_random = selection.probability is not None
    yield f"The items were chosen by the method {selection.method}"
    yield from _cite(_SAMPLES.get(name) or ("zouhar2025" if name in _UTILITIES or not is_random else "sarndal1992"))
    yield ", with known inclusion probabilities. " if is_random else ". "


def _judges_text(findings: Findings) -> Iterator[Piece]:
    judgments = findings.judgments
    if judgments is None:
        return
    table = judgments.answers()
    people, cells = table["annotator"].n_unique(), table.select("item", "system").n_unique()
    yield f"{people} annotator{'s' * (people != 1)} gave {table.height:,} judgments on {cells:,} outputs "
    yield f"({table.height / max(1, cells):.2g} for each). "
    if findings.cleaned is not None:
        counts = findings.cleaned.counts
        yield f"{counts['marked']:,} of {counts['answers']:,} judgments were left out by the steps "
        yield ", ".join(step.step for step in findings.cleaned.steps if step.applied) + ". "


def _agreement_text(findings: Findings) -> Iterator[Piece]:
    if findings.agreement is None:
        return
    rows = findings.agreement.coefficients.filter((pl.col("kind") == "all") & (pl.col("measure") == "alpha"))
    if not rows.height or rows["value"][0] is None:
        return
    row = rows.row(0, named=True)
    yield f"Krippendorff's alpha ({findings.agreement.level}) is {format_fixed(row['value'], 2)}"
    if row["low"] is not None:
        low, high = format_fixed(row["low"], 2), format_fixed(row["high"], 2)
        yield f" ({findings.agreement.confidence:.0%} interval {low} to {high})"
    yield Cite("krippendorff2011")
    yield ". "


def _metrics_text(findings: Findings) -> Iterator[Piece]:
    if findings.metrics is None or not findings.metrics.breakeven:
        return
    yield f"{len(findings.metrics.metrics)} automatic metrics are compared with people by the number of judgments that "
    yield "each is worth"
    yield Cite("wei2021")
    yield ". "


def _choices_text(findings: Findings) -> Iterator[Piece]:
    result = findings.comparison
    if result is None:
        return
    people = f" by {result.annotators} annotator{'s' * (result.annotators != 1)}" if result.annotators else ""
    yield f"We compare {len(result.systems)} systems by {result.choices:,} choices{people} on {result.items:,} items. "
    yield "Scores are those of the Bradley-Terry model"
    yield Cite("bradley1952")
    if result.ties == "davidson":
        yield " with ties after Davidson"
        yield Cite("davidson1970")
    else:
        yield "; ties count half" if result.ties == "half" else "; ties are left out"
    yield f". {result.level:.0%} intervals and tests allow for several choices on one {result.clusters}; p-values "
    yield "are two-sided and adjusted for all pairs after Benjamini and Hochberg"
    yield Cite("benjamini1995")
    yield ". "
    yield from _closing_text(findings)


def _closing_text(findings: Findings) -> Iterator[Piece]:
    yield f"All numbers were computed with aliquot {__version__}"
    yield Cite("aliquot")
    lines = [line for verb, line in findings.signatures.items() if verb in ("estimate", "compare")]
    yield f" ({lines[0]})." if lines else "."


def _cite(key: str | None) -> Iterator[Piece]:
    if key is not None:
        yield Cite(key)


# -- Media -----------------------------------------------------------------------------------------------------------


def to_markdown(pieces: Sequence[Piece]) -> str:
    r"""Write the paragraph as Markdown, with citations in words.

    >>> print(to_markdown(["50% of *A*", Cite("benjamini1995"), "."]))
    50% of \*A\* (Benjamini and Hochberg 1995).
    """
    return _join_pieces(pieces, lambda text: escape.markdown_cell(f"x{text}x")[1:-1], _cite_in_words)


def to_latex(pieces: Sequence[Piece]) -> str:
    r"""Write the paragraph as LaTeX, with natbib's citations.

    >>> print(to_latex(["50% of A", Cite("benjamini1995"), "."]))
    50\% of A \citep{benjamini1995}.
    """
    return _join_pieces(
        pieces, lambda text: escape.plain_latex(" ".join(f"x{text}x".split()))[1:-1], lambda key: rf" \citep{{{key}}}"
    )


def _join_pieces(pieces: Sequence[Piece], text: Callable[[str], str], cite: Callable[[str], str]) -> str:
    return "".join(cite(piece.key) if isinstance(piece, Cite) else text(piece) for piece in pieces).strip()


def _cite_in_words(key: str) -> str:
    return f" ({load_references()[key].words})"


def to_bibtex(keys: Sequence[str]) -> str:
    """Write the entries of these references.

    >>> print(to_bibtex(["benjamini1995"]).splitlines()[0])
    @article{benjamini1995,
    """
    return "\n".join(load_references()[key].entry for key in dict.fromkeys(keys))


def list_citations(pieces: Sequence[Piece]) -> list[str]:
    """Return the keys of the references, in order of first mention."""
    return list(dict.fromkeys(piece.key for piece in pieces if isinstance(piece, Cite)))
