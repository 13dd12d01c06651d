"""Numbers, verdicts and names as text, by hand: as many digits as deserved, no more said than the p-values say."""

from __future__ import annotations

import math

import polars as pl
import pytest

from aliquot.core import escape, written
from aliquot.core.verdict_words import Lead, PairTest, find_lead, format_p, format_probability, join_names

NAN = math.nan


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.123456, 3, "0.123"),
        (1.23456, 3, "1.23"),
        (12.3456, 3, "12.3"),
        (123.456, 3, "123"),
        (1234.5, 3, "1234"),
        (-1.23456, 3, "-1.23"),
        (1.0, 3, "1.00"),
        (10.0, 3, "10.0"),
        (0.00123456, 3, "0.001"),
        (1e-4, 3, "0.000"),
        (9.9e-5, 3, "9.9e-05"),
        (1.23456, 4, "1.235"),
        (0.0, 3, "0"),
        (-0.0, 3, "0"),
        (math.inf, 3, "inf"),
        (-math.inf, 3, "-inf"),
        (NAN, 3, "-"),
        (None, 3, "-"),
    ],
)
def test_a_number_has_as_many_digits_as_it_deserves(value, digits, text):
    assert written.format_number(value, digits) == text


def test_other_numbers_by_hand():
    assert [written.format_fixed(value) for value in (1.23456, NAN, None)] == ["1.235", "-", "-"]
    assert written.format_fixed(1.23456, 1) == "1.2"
    assert [written.format_scientific(value) for value in (-1.5e150, NAN, None)] == ["-1.500e+150", "-", "-"]
    shares = [1.0, 0.9996, 0.995, 0.99, 0.5, 0.01, 0.0099, 0.001, 0.0009, 0.0]
    assert [written.format_percent(share) for share in shares] == [
        "100%",
        "99.9%",
        "99.5%",
        "99%",
        "50%",
        "1%",
        "1.0%",
        "0.1%",
        "<0.1%",
        "0%",
    ]


def test_tables_by_hand():
    frame = pl.DataFrame({"a|b": ["x_1", None], "n": [0.123456, None], "k": [12345, 7]})
    assert (
        written.render_markdown(frame) == "| a\\|b | n | k |\n|---|---|---|\n| x_1 | 0.1235 | 12345 |\n| - | - | 7 |\n"
    )
    assert written.render_latex(frame).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"a\textbar{}b & n & k \\",
        r"\midrule",
        r"x\_1 & 0.1235 & 12345 \\",
        r"- & - & 7 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_texts_are_shown_and_not_obeyed():
    assert escape.terminal("\x1b[2Ja\nb\tc\u202e") == r"\x1b[2Ja\nb\tc\u202e"
    assert escape.terminal("\x1b[2Ja\nb\tc", lines=True) == "\\x1b[2Ja\nb\tc"
    assert escape.split_links("see https://a.org/x_y. Or https://b.org") == [
        ("see ", False),
        ("https://a.org/x_y", True),
        (". Or ", False),
        ("https://b.org", True),
    ]
    assert escape.split_links("") == []
    assert [escape.markdown(text) for text in ("1. a", "12) a", "- a", "# a", "a - b", "x_y _z_")] == [
        r"1\. a",
        r"12\) a",
        r"\- a",
        r"\# a",
        "a - b",
        r"x_y \_z\_",
    ]
    cells = pl.DataFrame({"s": ["=1", "'=1", "it's", "- a b", "+a(", "@x", None], "n": [1] * 7})
    safe = escape.csv_cells(cells)
    assert safe["s"].to_list() == ["'=1", "''=1", "it's", "- a b", "'+a(", "'@x", None]
    assert escape.unescape_csv_cells(safe).equals(cells)
    names = ["=1", "'=1", "it's", "a"]
    assert escape.csv_names(names) == ["'=1", "''=1", "it's", "a"]
    assert escape.unescape_csv_names(escape.csv_names(names)) == names
    assert escape.unescape_csv_names(["'a"]) == ["'a"]


# -- verdicts ------------------------------------------------------------------------------------------------------


def test_names_and_probabilities_by_hand():
    assert [join_names(list("ABCDE"[:n])) for n in (1, 2, 3, 4, 5)] == [
        "A",
        "A and B",
        "A, B and C",
        "A, B, C and D",
        "A, B, C and 2 more",
    ]
    assert join_names(["A", "B", "C"], limit=1) == "A and 2 more"
    ps = [0.0034, 0.00099, 0.001, 0.0999, 0.1, 0.21, 1.0, NAN]
    assert [format_p(p) for p in ps] == [
        "p = 0.003",
        "p < 0.001",
        "p = 0.001",
        "p = 0.100",
        "p = 0.10",
        "p = 0.21",
        "p = 1.00",
        "p unknown",
    ]
    assert [format_p(0.0034, p) for p in (0.012, 0.0031, NAN, None, 0.0002)] == [
        "p = 0.003, adjusted 0.012",
        "p = 0.003",
        "p = 0.003",
        "p = 0.003",
        "p = 0.003, adjusted < 0.001",
    ]
    assert [format_probability(p) for p in (0.58, 0.9901, 0.99, 0.01, 0.0099)] == [
        "58%",
        "more than 99%",
        "99%",
        "1%",
        "less than 1%",
    ]


def pairs(**p: float) -> list[PairTest]:
    """AB=0.01 and so on, three pairs adjusted by Bonferroni."""
    return [PairTest(names[0], names[1], value, min(1.0, 3 * value)) for names, value in p.items()]


@pytest.mark.parametrize(
    ("clusters", "p", "sentence", "rivals"),
    [
        (
            [1, 2, 3],
            {"AB": 0.002, "AC": 0.001, "BC": 0.01},
            "A is best: the next system, B, is worse (p = 0.002, adjusted 0.006)",
            (),
        ),
        (
            [1, 2, 2],
            {"AB": 0.001, "AC": 0.3, "BC": 0.6},
            "A leads and B is worse (p = 0.001, adjusted 0.003), but C cannot be told apart from it",
            ("C",),
        ),
        ([1, 2, 2], {"AB": 0.3, "AC": 0.001, "BC": 0.6}, "A leads, but B cannot be told apart from it", ("B",)),
        ([1, 2, 2], {"AB": 0.3, "BC": 0.6}, "A leads, but B and C cannot be told apart from it", ("B", "C")),
        (
            [1, 1, 2],
            {"AB": 0.5, "AC": 0.001, "BC": 0.002},
            "A and B lead and cannot be told apart; the next system, C, is worse than A (p = 0.001, adjusted 0.003)",
            (),
        ),
        ([1, 1, 1], {"AB": 0.5, "AC": 0.4, "BC": 0.6}, "The 3 systems cannot be told apart", ()),
        (
            [1, 2, 3],
            {"AB": NAN, "AC": NAN, "BC": NAN},
            "No difference between systems can be tested (the notes say why)",
            ("B", "C"),
        ),
    ],
)
def test_who_leads_by_hand(clusters, p, sentence, rivals):
    lead = find_lead(["A", "B", "C"], clusters, pairs(**p), alpha=0.05)
    assert (lead.sentence, lead.rivals) == (sentence, rivals)
    assert lead.leaders == tuple(name for name, cluster in zip("ABC", clusters, strict=True) if cluster == 1)
    assert lead.best == ("A" if "is best" in sentence else None)


def test_two_systems_and_none_below():
    lead = find_lead(["A", "B"], [1, 1], [PairTest("A", "B", 0.5, 0.5)], alpha=0.05)
    assert lead.sentence == "The two systems cannot be told apart"
    alone = Lead(("A", "B"), "C", None, (), testable=True)
    assert alone.sentence == "A and B lead and cannot be told apart; the next system, C, is worse"
    assert alone.best is None


@pytest.mark.parametrize(
    ("method", "p", "rivals"),
    [
        ("bh", (0.03, 0.03), ()),  # of two tests 0.03 stays 0.03
        ("holm", (0.03, 0.03), ("B", "C")),  # 0.06
        ("none", (0.03, 0.03), ()),
        ("bh", (0.03, 0.05), ("B", "C")),  # 0.05 twice, which is not below 0.05
        ("none", (0.03, 0.05), ("C",)),
        ("bh", (0.03, 0.049), ()),
    ],
)
def test_a_leader_is_best_after_the_adjustment_over_its_own_pairs(method, p, rivals):
    tests = [PairTest("A", name, value, 1.0) for name, value in zip("BC", p, strict=True)]
    assert find_lead(["A", "B", "C"], [1, 2, 2], tests, alpha=0.05, method=method).rivals == rivals


def test_the_adjusted_values_of_max_t_are_taken_as_they_are():
    tests = [PairTest("A", "B", 0.001, 0.06), PairTest("A", "C", 0.9, 0.04)]
    assert find_lead(["A", "B", "C"], [1, 2, 2], tests, alpha=0.05, method="maxt").rivals == ("B",)
