"""Datasheets survive being written and read, and broken files are named with their line."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aliquot.errors import AliquotError, DataError, FormatError, OptionError, OutputError
from aliquot.report.datasheet import Answer, Criterion, Datasheet, load
from aliquot.report.datasheet.files import find_own_comments, to_document, to_toml
from aliquot.report.datasheet.questions import (
    find_question,
    load_questions,
    load_sections,
    select_questions,
    unknown_option,
)
from aliquot.report.datasheet.sheet import copy, make_blank_sheet

TEXT = st.text(max_size=40) | st.sampled_from(
    [
        '"""',
        '""""',
        'ends with "',
        'a """ b\n',
        '\n"""""',
        '\n"',
        'two ""\n',
        "\\",
        "\\\n",
        "\r\n",
        "\r",
        "\n\n",
        "  ",
        "\x00\x1f\x7f",
        "# no",
        "'''",
    ]
)
TEXT_QUESTIONS = [question.number for question in load_questions().values() if not question.options]
CHOICES = [question.number for question in load_questions().values() if question.options]


@st.composite
def sheets(draw):
    names = draw(st.lists(st.text(min_size=1, max_size=8).map(str.strip).filter(bool), max_size=2, unique=True))
    sheet = make_blank_sheet(names, signature=draw(TEXT), results=tuple(draw(st.lists(TEXT, max_size=2))))
    for question, name in draw(st.lists(st.sampled_from(sheet.places()), max_size=12)):
        source = draw(st.just("") | TEXT)
        if question.options:
            value = draw(st.lists(st.sampled_from(question.labels), max_size=3, unique=True))
            sheet = sheet.with_answer(question.number, value, details=draw(TEXT), source=source, criterion=name)
        else:
            sheet = sheet.with_answer(question.number, draw(TEXT), source=source, criterion=name)
    return sheet


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sheet=sheets(), ending=st.sampled_from([".toml", ".json"]))
def test_any_answers_survive(sheet, ending, tmp_path):
    path = tmp_path / f"sheet{ending}"
    sheet.save(path, force=True)
    assert in_order(load(path)) == in_order(sheet)


def in_order(sheet: Datasheet) -> Datasheet:
    """Options are written in the order of HEDS."""
    frame = sheet.to_frame()
    for row in frame.iter_rows(named=True):
        question = load_questions()[row["question"]]
        if question.options:
            answer = sheet.answer(question.number, row["criterion"])
            known = [label for label in question.labels if label in answer.chosen]
            rest = [label for label in answer.chosen if label not in known]
            sheet = sheet.with_answer(
                question.number, [*known, *rest], details=answer.text, source=answer.source, criterion=row["criterion"]
            )
    return sheet


def test_the_file_shows_every_question_and_every_option(complete):
    text = to_toml(complete)
    for question in load_questions().values():
        assert f"# {question.number} {question.title}" in text
        for label in question.labels:
            assert f'"{label}",' in text
    assert tomllib.loads(text)["criterion"][0]["name"] == "fluency"


def test_an_option_is_chosen_by_taking_the_mark_away(complete, tmp_path):
    text = to_toml(complete).replace('# "speech",  # recorded speech', '  "speech",  # recorded speech')
    (tmp_path / "sheet.toml").write_text(text)
    assert load(tmp_path / "sheet.toml").answer("2.1").chosen == ("text: sentence", "speech")


def test_yaml_of_the_same_layout(complete, tmp_path):
    yaml = pytest.importorskip("yaml")
    document = to_document(complete)
    (tmp_path / "sheet.yaml").write_text(yaml.safe_dump(document, allow_unicode=True))
    assert load(tmp_path / "sheet.yaml") == complete


def test_plain_yaml_as_people_type_it(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "sheet.yml").write_text(
        "ethics:\n  5.1: No\nexperiment:\n  3.2.1: 12\npaper:\ncriterion:\n- name: fluency\n  4.3.10: None\n"
    )
    sheet = load(tmp_path / "sheet.yml")
    assert sheet.answer("5.1").text == "No"  # not false
    assert sheet.answer("3.2.1").text == "12"
    assert sheet.answer("4.3.10", "fluency").text == "None"  # and 4.3.10 is not the number 4.3
    assert sheet.answer("1.1") == Answer()


def test_numbers_lists_and_single_labels_are_understood(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[system]\n"2.4" = ["English", "Czech"]\n[experiment]\n"3.2.1" = 12\n'
        '"3.1.2" = "By manual,  arbitrary selection"\n[ethics]\n"5.1" = ""\n'
    )
    sheet = load(tmp_path / "a.toml")
    assert sheet.answer("2.4").text == "English, Czech"
    assert sheet.answer("3.2.1").text == "12"
    assert sheet.answer("3.1.2").chosen == ("by manual, arbitrary selection",)
    assert not sheet.answer("5.1").given


def test_labels_are_known_with_any_quotation_mark():
    sheet = make_blank_sheet().with_answer("2.2", "Human-generated 'outputs'")
    assert sheet.answer("2.2").chosen == ("human-generated ‘outputs’",)


BROKEN = {
    'paper = 1\n"1.1" = oops\n': ("line 2", "not valid TOML"),
    '[paper]\n"1.1" = "open\n': ("line 2", "not valid TOML"),
    '[paper]\n"1.1" = """open\n': ("not valid TOML",),
    '[paper]\n\n"1.9" = "x"\n': ("line 3", "unknown question '1.9'", "did you mean '1.3'?"),
    '[experiment]\n"3.1.11" = "x"\n': ("line 2", "unknown question '3.1.11'", "'3.1.1'"),
    '[paper]\n"paper" = "x"\n': ("line 2", "unknown question 'paper'"),
    '[papr]\n"1.1" = "x"\n': ("line 1", "unknown table 'papr'", "did you mean 'paper'?"),
    '[paper]\n"1.1 detail" = "x"\n': ("line 2", "did you mean 'details'?"),
    '[paper]\n"1.1 details" = "x"\n': ("line 2", "no options"),
    '[paper]\n"4.1.1" = ["Goodness"]\n': ("line 2", "belongs to a [[criterion]]"),
    '[[criterion]]\nname = "a"\n"1.1" = "x"\n': ("line 3", "belongs to [paper]"),
    '[criterion]\nname = "a"\n': ("line 1", "[[criterion]]"),
    '[[criterion]]\nname = "a"\n[[criterion]]\nname = "a"\n': ("'a' stands there twice",),
    '[paper]\n"1.1" = true\n': ("line 2", "text in quotes"),
    '[paper]\n"1.1" = { a = 1 }\n': ("line 2", "text in quotes"),
    '[system]\n"2.1" = [["speech"]]\n': ("line 2", "text in quotes"),
    '[sheet]\nheds = "3.0"\n': ("line 2", "HEDS 3.0"),
    '[paper]\n"1.1" = "x"\n[ethics]\n"1.1" = "y"\n': ("1.1", "two tables"),
    'paper = "x"\n': ("line 1", "should be a table"),
}


@pytest.mark.parametrize("content", BROKEN)
def test_broken_files(content, tmp_path):
    path = tmp_path / "sheet.toml"
    path.write_text(content)
    with pytest.raises(FormatError) as error:
        load(path)
    assert str(path) in str(error.value)
    for part in BROKEN[content]:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", "paper: [\n", "line 2"),
        ("a.yaml", "- 1\n", "[[criterion]]"),
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[]", "[[criterion]]"),
        ("a.toml", b"\xff", "not valid UTF-8"),
        ("gone.toml", None, "no such file"),
    ],
)
def test_other_broken_files(name, content, said, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError) as error:
        load(tmp_path / name)
    assert said in str(error.value)


def test_a_file_is_not_replaced(complete, tmp_path):
    path = tmp_path / "sheet.toml"
    path.write_text("precious")
    with pytest.raises(OutputError, match="there already"):
        complete.save(path)
    assert path.read_text() == "precious"
    complete.save(path, force=True)
    assert load(path) == complete
    with pytest.raises(OptionError, match=r"\.toml"):
        complete.save(tmp_path / "sheet.docx")


def test_comments_of_people_are_seen(complete, tmp_path):
    path = tmp_path / "sheet.toml"
    complete.save(path)
    assert find_own_comments(path) == []
    chosen = path.read_text().replace('# "visual",', '"visual",')  # an option chosen by hand is no comment of one's own
    path.write_text(chosen.replace("[ethics]", "# ask the committee\n[ethics]"))
    assert find_own_comments(path) == ["# ask the committee"]


# -- the sheet itself ------------------------------------------------------------------------------------------------


def test_questions_are_those_of_heds():
    assert len(load_questions()) == 45
    assert [section.number for section in load_sections()] == ["1", "2", "3", "4", "5"]
    assert sum(question.per_criterion for question in load_questions().values()) == 17
    assert sum(len(question.options) for question in load_questions().values()) == 118
    for question in load_questions().values():
        assert question.ask.endswith("?")
        assert question.number.startswith(next(s.number for s in load_sections() if s.key == question.section))
        assert len(set(question.labels)) == len(question.labels)


def test_unknown_numbers_and_labels():
    with pytest.raises(AliquotError, match=r"did you mean '4\.3\.11'"):
        find_question("4.3.12")
    with pytest.raises(AliquotError, match="unknown question '7'"):
        select_questions(("7",))
    assert "did you mean 'paid" in str(unknown_option(load_questions()["3.2.2"], "paid"))


def test_answers_go_where_they_are_asked():
    sheet = make_blank_sheet(["a"])
    with pytest.raises(OptionError, match="for each criterion"):
        sheet.with_answer("4.3.1", "x")
    with pytest.raises(OptionError, match="once"):
        sheet.with_answer("1.1", "x", criterion="a")
    with pytest.raises(AliquotError, match="unknown criterion 'b'"):
        sheet.with_answer("4.3.1", "x", criterion="b")
    with pytest.raises(OptionError, match="no options"):
        sheet.with_answer("1.1", "x", details="y")
    with pytest.raises(OptionError):
        sheet.with_answer("1.1", True)
    with pytest.raises(DataError, match="twice"):
        Datasheet(criteria=(Criterion("a"), Criterion("a")))
    with pytest.raises(DataError, match="no name"):
        Criterion(" ")
    with pytest.raises(DataError, match="half"):
        sheet.with_answer("1.1", "\ud800")


def test_copying_between_criteria(complete):
    sheet = Datasheet(complete.answers, (*complete.criteria, Criterion("b"), Criterion("c", {"4.3.3": Answer("7")})))
    copied = copy(sheet, "fluency")
    shared = [q.number for q in load_questions().values() if q.per_criterion and not q.own]
    assert list(copied.criterion("b").answers) == shared
    assert copied.answer("4.3.3", "c").text == "7"  # an answer that is there stays
    assert copied.answer("4.3.4", "c").text == "1-5"
    assert copied.criterion("fluency") == sheet.criterion("fluency")
    assert copy(sheet, "fluency", "c", overwrite=True).answer("4.3.3", "c").text == "5"
    assert copy(sheet, "fluency", ["b"]).criterion("c") == sheet.criterion("c")
    named = copy(sheet, "fluency", "b", questions=["4.1", "4.3.7"])
    assert list(named.criterion("b").answers) == ["4.1.1", "4.1.2", "4.1.3", "4.3.7"]


def test_copying_what_cannot_be(complete):
    for arguments, said in (
        (("fluency", "fluency"), "to itself"),
        (("flency",), "did you mean 'fluency'"),
        (("fluency", "x"), "unknown criterion 'x'"),
    ):
        with pytest.raises(AliquotError, match=said):
            copy(complete, *arguments)
    with pytest.raises(OptionError, match="not about a criterion"):
        copy(complete, "fluency", questions=["3.1"])
    with pytest.raises(AliquotError, match=r"unknown question '4\.9'"):
        copy(complete, "fluency", questions=["4.9"])


def test_the_frame_has_a_row_for_each_question(complete):
    frame = complete.to_frame()
    assert frame.height == 45
    (row,) = frame.filter(question="3.2.2").to_dicts()
    assert row["answer"].split("; ")[0] == "experts"
    assert (row["details"], row["criterion"], row["source"]) == ("Translators.", None, "")
    assert frame.filter(criterion="fluency").height == 17
