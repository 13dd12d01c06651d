"""Protocols: presets are sound; mistakes in a user's file are named with the line and a remedy."""

from __future__ import annotations

import re

import msgspec
import pytest

from aliquot.collect.protocols import Protocol, list_protocols, load_protocol, protocol_text, read_protocol
from aliquot.errors import AliquotError, FormatError, NameUnknownError

PRESETS = (
    "best-worst",
    "contrastive",
    "da",
    "document-comparison",
    "esa",
    "esa-ai",
    "likert",
    "mqm",
    "pairwise",
    "postedit",
    "sqm",
)


def test_all_presets_are_there():
    assert list_protocols() == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_preset(name):
    protocol = load_protocol(name)
    assert protocol.name == name
    assert protocol.title
    assert protocol.instructions
    assert protocol.facts["scale"]
    assert msgspec.json.decode(msgspec.json.encode(protocol), type=Protocol) == protocol  # as keys of sheets keep it


def test_the_page_learns_nothing_secret():
    text = protocol_text("esa-ai")[0] + '[checks]\ngold = [{ item = 1, system = "sysA", low = 0, high = 5 }]\n'
    shown = msgspec.json.encode(read_protocol(text, "x").for_page()).decode()
    for secret in ("gold", "sysA", "checks", "weight", "prefill", "facts"):
        assert secret not in shown


CORRECT = protocol_text("esa")[0]
MISTAKES = {
    "a text for a number": ("low = 0", 'low = "x"', "line 18: widgets[1].low: should be a number, found a text"),
    "a wrong key": ("high = 100", "hihg = 100", "line 19: widgets[1]: unknown key 'hihg'; did you mean 'high'?"),
    "a wrong style": ('style = "slider"', 'style = "slidr"', "line 17: widgets[1].style: invalid enum value 'slidr'"),
    "a wrong kind": ('kind = "score"', 'kind = "scor"', "line 16: widgets[1].kind: invalid value 'scor'"),
    "a wrong key inside": ("weight = 5", "weigth = 5", "line 9: widgets[0].severities[1]: unknown key 'weigth'"),
    "ends swapped": ("high = 100", "high = -1", "line 19: the widget 'score': high = -1 is not above low = 0"),
    "an anchor outside": ('"100" =', '"101" =', "the anchor '101' is not a number from 0 to 100"),
    "a step too long": ("low = 0", "low = 0\nstep = 200", "line 19: the widget 'score': step = 200"),
    "two of one name": ('name = "score"', 'name = "errors"', "line 15: two widgets are called 'errors'"),
    "no name": ('name = "esa"\n', "", "the key 'name' is missing; add it"),
    "no TOML": ("low = 0", "low = = 0", "line 18: not valid TOML"),
    "an item in a unit of outputs": ('kind = "score"', 'kind = "score"\nscope = "item"', "shows one system at a time"),
    "a choice alone": (
        'kind = "score"\nstyle = "slider"\nlow = 0\nhigh = 100',
        'kind = "choice"',
        "unknown key 'anchors'",
    ),
    "context": ('title = "', 'context = 99\ntitle = "', "line 2: context = 99"),
    "a share": ("[facts]", "[checks]\ndamaged = 2\n[facts]", "line 23: checks.damaged = 2 should be a share"),
    "a quiz": (
        "[facts]",
        '[[quiz.questions]]\nquestion = "?"\noptions = ["a", "b"]\nanswer = "c"\n[facts]',
        "line 25: the answer 'c' is none of the options 'a', 'b'",
    ),
    "payment": ("[facts]", "[payment]\nper_unit = -1\n[facts]", "line 23: payment.per_unit should be 0 or more"),
    "unknown check": (
        "[facts]",
        "[checks]\ndamagd = 0.1\n[facts]",
        "line 23: checks: unknown key 'damagd'; did you mean",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_file_line_and_remedy(case):
    old, new, expected = MISTAKES[case]
    assert old in CORRECT
    text = CORRECT.replace(old, new, 1) if old != "low = 0" else re.sub(r"^low = 0$", new, CORRECT, flags=re.MULTILINE)
    with pytest.raises(FormatError) as error:
        read_protocol(text, "my.toml")
    assert str(error.value).startswith("my.toml")
    assert expected in str(error.value)


def test_comparisons_need_several_systems():
    text = protocol_text("pairwise")[0]
    with pytest.raises(FormatError, match="show = 2"):
        read_protocol(text.replace("show = 2", "show = 3"), "p.toml")
    with pytest.raises(FormatError, match="side-by-side"):
        read_protocol(text.replace('unit = "side-by-side"\n', "").replace('scope = "item"\n', ""), "p.toml")


def test_tables_for_checks_are_typed():
    text = CORRECT + (
        "\n[checks]\ndamaged = 0.1\nrepeats = 0.05\nfloor_seconds_per_char = 0.02\naction = 'pause'\n"
        "gold = [{item = 'x', system = 'A', low = 0, high = 20}]\n"
        "[[tutorial.examples]]\noutput = 'o'\nfeedback = 'f'\nlow = 0\nhigh = 9\n"
        "[quiz]\nattempts = 3\n[[quiz.questions]]\nquestion = '?'\noptions = ['a', 'b']\nanswer = 'a'\n"
        "[payment]\ncurrency = 'CZK'\nper_unit = 12\nbonus = 1.5\n"
    )
    protocol = read_protocol(text, "x.toml")
    assert (protocol.checks.damaged, protocol.checks.gold[0].high, protocol.checks.action) == (0.1, 20.0, "pause")
    assert protocol.tutorial.examples[0].feedback == "f"
    assert (protocol.quiz.attempts, protocol.quiz.questions[0].answer) == (3, "a")
    assert (protocol.payment.currency, protocol.payment.per_unit) == ("CZK", 12.0)


def test_an_unknown_preset_is_suggested(tmp_path):
    with pytest.raises(NameUnknownError, match="did you mean 'esa'"):
        load_protocol("esaa")
    (tmp_path / "mine.toml").write_text(CORRECT)
    assert load_protocol(tmp_path / "mine.toml").name == "esa"
    with pytest.raises(AliquotError, match="no such file"):
        load_protocol(tmp_path / "other.toml")
