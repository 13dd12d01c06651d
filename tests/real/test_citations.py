"""Sections, equations, appendices, tables and algorithms that we cite exist in the papers (../shared/papers)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = ROOT.parent / "shared" / "papers"
TEXTS = {
    r"Zouhar et al\.(?: \(?2025\)?)?": "select_datapoints.txt",
    r"Knowles and Lo(?: \(?2023\)?)?": "wmt_sampling.txt",
    r"Sald[ií]as et al\.(?: \(?2022\)?)?": "stratified_control_variates.txt",
    r"Wei and Jia(?: \(?2021\)?)?": "metric_statistical_advantage.txt",
    r"HumEval 2022": "humeval2022.txt",
}
_PART = r"(?:section|sections|appendix|eq\.|paper|Algorithm|Table|Figure)"
_NUMBER = r"(?:[A-Z](?:\.\d+)?|\d+(?:\.\d+){0,2})\b"
_LIST = rf"{_NUMBER}(?:(?:, | and | to ){_NUMBER})*"
_CITED = re.compile(f"({'|'.join(TEXTS)})((?:[,:;]? *\\(?(?:(?:the|their|as in|in|with) )*{_PART} {_LIST})+)")
_PLACE = re.compile(f"({_PART}) ({_LIST})")
_HEADINGS = (
    r"^#+ ((?:\d|[A-Z])(?:\.\d)*)\.? \S",  # Markdown
    r"^(?:<\|[^|]*\|>)?(\d(?:\.\d){0,2}) [A-Z]",  # a number and its title on one line
    r"^(\d(?:\.\d){0,2})$",  # the number on a line of its own
)

pytestmark = pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not there (../shared/papers)")


@cache
def parts(text: str) -> dict[str, frozenset[str]]:
    """What a paper has: kind -> numbers."""
    content = (PAPERS / text).read_text()

    def found(*patterns: str) -> frozenset[str]:
        return frozenset(number for one in patterns for number in re.findall(one, content, re.MULTILINE))

    return {
        "section": found(*_HEADINGS),
        "eq.": found(r"\((\d{1,2})\)(?:\$\$)?[.,]?\s*$"),
        "appendix": found(r"^#+ ([A-Z](?:\.\d)?) ", r"Appendix §?([A-Z])\b", r"^([A-Z]) [A-Z][a-z]+", r"^([A-H])$"),
        "paper": found(r"(?!)") if text != "humeval2022.txt" else frozenset(str(n) for n in range(1, 13)),
        **{kind: found(rf"{kind} (\d+)") for kind in ("Table", "Figure", "Algorithm")},
    }


def numbers_of(text: str) -> list[str]:
    """The numbers in `14 to 16` or `3, 4 and 5`.

    >>> numbers_of("14 to 16")
    ['14', '15', '16']
    """
    span = re.fullmatch(r"(\d+) to (\d+)", text)
    return [str(n) for n in range(int(span[1]), int(span[2]) + 1)] if span else re.split(r", | and | to ", text)


def missing(citation: str) -> list[str]:
    """What a text cites of our papers that is not in them."""
    lacking = []
    for cited in _CITED.finditer(" ".join(citation.split())):
        text = next(name for authors, name in TEXTS.items() if re.match(authors, cited[0]))
        for kind, numbers in _PLACE.findall(cited[0]):
            there = parts(text)["section" if kind == "sections" else kind]
            lacking += [f"{cited[0]}: no {kind} {number}" for number in numbers_of(numbers) if number not in there]
    return lacking


def sources() -> list[Path]:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in ("api.md", "cli.md")]
    return [*sorted((ROOT / "src").rglob("*.py")), *sorted(pages), ROOT / "README.md"]


def cited_in(path: Path) -> str:
    """A file's text, with constants that hold a paper's name and comment marks resolved."""
    text = path.read_text()
    for name, value in re.findall(r'^(_[A-Z]+) = "([^"]+)"$', text, re.MULTILINE):
        text = text.replace("{" + name + "}", value)
    return re.sub(r"\n *#:? ?", " ", text)


def test_every_citation_exists():
    assert {str(path.relative_to(ROOT)): found for path in sources() if (found := missing(cited_in(path)))} == {}


def test_citations_are_found_and_false_ones_refused():
    """The two kinds that were wrong, one that is right, and that the sources hold several dozen."""
    assert missing("Zouhar et al. 2025, section 3.5") == ["Zouhar et al. 2025, section 3.5: no section 3.5"]
    assert missing("(Knowles and Lo 2023, section 5)") == ["Knowles and Lo 2023, section 5: no section 5"]
    assert missing("Zouhar et al. 2025, eq. 14 to 18") == ["Zouhar et al. 2025, eq. 14 to 18: no eq. 18"]
    right = "Zouhar et al. 2025, appendix A.1; Wei and Jia 2021, eq. 15, 16 and Saldias et al. 2022, section 4.1"
    assert missing(right) == []
    assert sum(len(_CITED.findall(" ".join(cited_in(path).split()))) for path in sources()) >= 40
