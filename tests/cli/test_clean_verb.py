"""`aliquot clean` and `aliquot combine` as people type them: what is printed, written, and said when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.cells import cell_len

import aliquot
from aliquot.cli.main import run

Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(capsys) -> Type:
    """Run a command; return its exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        if "--json" not in arguments:
            lines = [line for line in said.out.splitlines() if not line.startswith(("aliquot:", "next: "))]
            assert all(cell_len(line) <= 100 for line in lines)
        return code, said.out, said.err

    return call


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    data = aliquot.synthetic(items=40, systems=3, protocol="likert", annotators=6, judgments_per_output=4, seed=2)
    path = tmp_path / "campaign.jsonl"
    aliquot.save(data, path)
    return path


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """A CSV as a crowd platform gives it: control items with expected judgments, times, skipped pages, odd names."""
    rows = ["item,system,annotator,criterion,value,seconds,control,expected"]
    for item in range(12):
        for name, system in (("good", "A"), ("[/b]weird", "B"), ("bad", "A")):
            control = item < 4
            value = 1 if name != "bad" or not control else 0
            rows.append(f"{item},{system},{name},style,{value},{30 + item},{control},{1 if control else ''}")
    rows.append("11,A,skipper,style,,4,False,")
    path = tmp_path / "crowd.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


# -- clean ---------------------------------------------------------------------------------------------------------


def test_clean_shows_steps_annotators_and_systems(typed, crowd):
    code, out, _ = typed("clean", crowd, "--preset", "crowd")
    assert code == 0
    words = " ".join(out.split())
    assert "37 judgments by 4 annotators, 1 skipped, 20 marked now" in words
    assert "controls:minimum=0.7 20" in words
    assert "exam:minimum=0.8 - - - - - not applied" in words
    assert "[/b]weird" in words
    assert "|clean|preset:crowd|" in words


def test_clean_writes_what_the_others_heed(typed, campaign, tmp_path):
    cleaned = tmp_path / "cleaned.jsonl"
    code, out, _ = typed("clean", campaign, "--preset", "da_wmt", "-o", cleaned)
    assert code == 0
    assert f"wrote {cleaned}" in " ".join(out.split()).replace("- ", "")
    back = aliquot.load(cleaned)
    assert back.judgments is not None
    marked = back.judgments.table["marked"].count()
    assert marked >= 60
    assert f"{marked} more are marked and do not count" in " ".join(typed("inspect", cleaned)[1].split())
    code, out, _ = typed("combine", cleaned)
    assert f"{marked} marked judgments left out" in " ".join(out.split())
    assert typed("estimate", cleaned)[0] == 0
    assert typed("estimate", campaign, "--judgments", cleaned)[0] == 0


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet", "csv", "tsv"])
def test_marks_in_every_format(typed, crowd, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    assert typed("clean", crowd, "--preset", "crowd", "-o", path)[0] == 0
    back = aliquot.load(path)
    assert back.judgments is not None
    assert back.judgments.table["marked"].count() == 20


def test_the_audit_as_a_document_and_as_a_table(typed, crowd, tmp_path):
    code, out, err = typed("clean", crowd, "--preset", "crowd", "--json")
    assert code == 0
    assert err == ""
    document = json.loads(out)
    assert list(document) == ["verdict", "counts", "steps", "annotators", "systems", "by_step", "notes", "signature"]
    assert document["counts"]["skipped"] == 1
    bad = next(row for row in document["annotators"] if row["annotator"] == "bad")
    assert bad["control_passed"] == 0
    assert bad["controls"] == 12
    assert bad["marked"] == 12
    typed("clean", crowd, "--preset", "crowd", "--audit", tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text()) == document
    typed("clean", crowd, "--preset", "crowd", "--audit", tmp_path / "audit.csv")
    assert pl.read_csv(tmp_path / "audit.csv").height == 4


def test_options_of_clean(typed, crowd):
    def steps(*options: str) -> list[str]:
        return [row["step"] for row in json.loads(typed("clean", crowd, "--json", *options)[1])["steps"]]

    assert steps("--steps", "skips:pages=1+duplicates") == ["skips:pages=1", "duplicates"]
    assert steps("--preset", "crowd", "--without", "exam,skips") == ["controls:minimum=0.7", "fast_pages:seconds=15"]
    assert steps("--scale", "0:1", "--labels", "0,1") == ["scale:low=0,high=1", "labels:allowed=0|1"]


def test_all_annotators_on_request(typed, tmp_path):
    rows = [(item, "A", f"p{item:02d}", 1.0) for item in range(45)]
    pl.DataFrame(rows, schema=["item", "system", "annotator", "value"], orient="row").write_csv(tmp_path / "t.csv")
    short = typed("clean", tmp_path / "t.csv", "--steps", "duplicates")[1]
    assert "the 30 that matter most of 45 rows" in short
    assert "p44" not in short
    assert "p44" in typed("clean", tmp_path / "t.csv", "--steps", "duplicates", "--annotators")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing to do; name a preset (da_wmt, da_humeval, crowd, semantic_differential)"),
        (("--preset", "crowdd"), "did you mean 'crowd'"),
        (("--steps", "speeder"), "did you mean 'speeders'"),
        (("--steps", "skips:page=3"), "did you mean 'pages'"),
        (("--scale", "0-100"), "write LOW:HIGH"),
        (("--scale", "1:0"), "the low end must be below"),
        (("--labels", "yes,no"), "labels are numbers"),
        (("--labels", "1", "--strict"), "is outside the labels"),
        (("--preset", "crowd", "-o", "folder"), "no place for marks"),
        (("--preset", "crowd", "-o", "x.xlsx"), "unknown ending"),
        (("--preset", "crowd", "--audit", "x.txt"), "unknown ending"),
    ],
)
def test_what_clean_refuses(typed, crowd, options, message):
    code, out, err = typed("clean", crowd, *options)
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_clean_without_judgments(typed, tmp_path):
    aliquot.save(aliquot.synthetic(items=5, systems=2, annotators=0), tmp_path / "d.jsonl")
    code, _, err = typed("clean", tmp_path / "d.jsonl", "--preset", "crowd")
    assert code == 2
    assert "there are no judgments" in err


def test_labels_are_cleaned_as_what_they_are_worth(typed, tmp_path):
    rows = ["item,system,annotator,verdict,control,expected"]
    rows += [
        f"{item},A,{who},{'no' if who == 'bad' else 'yes'},{item < 5},{'yes' if item < 5 else ''}"
        for item in range(8)
        for who in ("good", "bad")
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    options = ("--preset", "crowd", "--answer", "verdict", "--recode", "no=0,yes=1")
    code, out, _ = typed("clean", tmp_path / "t.csv", *options, "--json", "-o", tmp_path / "c.jsonl")
    assert code == 0
    people = {row["annotator"]: row for row in json.loads(out)["annotators"]}
    assert (people["good"]["control_passed"], people["bad"]["control_passed"]) == (1.0, 0.0)
    assert people["bad"]["marked"] == 8
    code, out, _ = typed("combine", tmp_path / "c.jsonl", "--method", "majority", "--json")
    assert code == 0
    assert json.loads(out)["systems"] == [{"system": "A", "human": 1.0, "items": 3}]
    assert "error" not in typed("clean", tmp_path / "t.csv", *options, "--systems", "A")[2]
    assert typed("clean", tmp_path / "t.csv", *options, "--exclude", "A")[0] == 2
    code, _, err = typed("clean", tmp_path / "t.csv", "--preset", "crowd", "--answer", "verdict")
    assert code == 2
    assert "the judgments are labels" in err


# -- combine -------------------------------------------------------------------------------------------------------


def test_combine_shows_systems_queue_and_curve(typed, campaign, tmp_path):
    code, out, _ = typed(
        "combine",
        campaign,
        "--method",
        "dawid_skene",
        "--threshold",
        "0.95",
        "--curve",
        "--repeats",
        "3",
        "--queue",
        tmp_path / "queue.csv",
        "-o",
        tmp_path / "scored.jsonl",
    )
    assert code == 0
    words = " ".join(out.split())
    assert "labels per item, against all answers" in words
    assert "for experts, least sure first" in words
    assert "dawid_skene:threshold=0.95" in words
    queue = pl.read_csv(tmp_path / "queue.csv")
    assert {"item", "system", "best", "confidence", "source", "output"} <= set(queue.columns)
    scored = aliquot.load(tmp_path / "scored.jsonl")
    assert scored.human == "human"
    assert typed("estimate", tmp_path / "scored.jsonl")[0] == 0


def test_combine_as_a_document(typed, campaign):
    code, out, _ = typed("combine", campaign, "--normalise", "crossed", "--name", "fair", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["score"] == "fair"
    assert {"severity", "noise"} <= set(document["annotators"][0])
    assert [row["items"] for row in document["systems"]] == [40, 40, 40]


def test_formula_and_recode_and_experts(typed, tmp_path):
    rows = ["item,system,annotator,criterion,value"]
    for item in range(6):
        for system in ("A", "SRC"):
            for person in ("x", "boss"):
                rows += [f"{item},{system},{person},style,{item % 2}", f"{item},{system},{person},fluency,{item % 3}"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    code, out, _ = typed(
        "combine",
        tmp_path / "t.csv",
        "--formula",
        "style * (fluency >= source.fluency)",
        "--source",
        "SRC",
        "--recode",
        "fluency:0=0,1|2=1",
        "--experts",
        "boss",
        "--json",
    )
    assert code == 0
    document = json.loads(out)
    assert document["systems"] == [{"system": "A", "human_joint": 0.5, "items": 6}]
    assert any("'SRC' is the source" in note for note in document["notes"])


def test_labels_in_a_table(typed, tmp_path):
    rows = ["item,system,annotator,verdict"] + [
        f"{item},A,{who},{'yes' if item < 3 else 'no'}" for item in range(4) for who in "xyz"
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    options = ("--method", "majority", "--answer", "verdict", "--recode", "no=0,yes=1", "--json")
    code, out, _ = typed("combine", tmp_path / "t.csv", *options, "-o", tmp_path / "s.jsonl")
    assert code == 0
    assert json.loads(out)["systems"] == [{"system": "A", "human": 0.75, "items": 4}]
    assert aliquot.load(tmp_path / "s.jsonl").scores["human"].ravel().tolist() == [1.0, 1.0, 1.0, 0.0]
    code, _, err = typed("combine", tmp_path / "t.csv", "--answer", "verdict")
    assert code == 2
    assert "the judgments are labels ('yes')" in err
    (tmp_path / "v.csv").write_text("item,system,annotator,value\n0,A,x,fluent\n")
    code, _, err = typed("combine", tmp_path / "v.csv")
    assert code == 2
    assert "--answer COLUMN and --recode" in err
    code, out, _ = typed("combine", tmp_path / "v.csv", "--answer", "value", "--recode", "fluent=1", "--json")
    assert code == 0
    assert json.loads(out)["systems"][0]["human"] == 1.0


def test_mqm_files_at_other_prices(typed, tmp_path):
    text = "system\tdoc\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\n"
    text += "A\td\t1\tr1\tsrc\t<v>t</v>gt\tAccuracy\tMajor\nA\td\t1\tr1\tsrc\ttgt\tFluency\tMinor\n"
    (tmp_path / "mqm.tsv").write_text(text)
    code, out, _ = typed("combine", tmp_path / "mqm.tsv", "--mqm-weights", "major=10", "--json")
    assert code == 0
    assert json.loads(out)["systems"][0]["human"] == -11.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "modus"), "unknown way to combine 'modus'"),
        (("--method", "dawid_skene", "--threshold", "2"), "threshold=2 should be"),
        (("--criterion", "style"), "unknown criterion 'style'"),
        (("--formula", "likert **"), "cannot be read"),
        (("--formula", "open('x')"), "'open' is no function here"),
        (("--recode", "1=2"), "are in no group"),
        (("--recode", "1:2"), "is not OLD|OLD=NEW"),
        (("--normalise", "rank"), "unknown way to normalise 'rank'"),
        (("--method", "majority", "--normalise", "z"), "combines labels"),
        (("--experts", "nobody"), "unknown annotator 'nobody'"),
        (("--mqm-weights", "major=1"), "category and severity"),
        (("--queue", "queue.txt"), "unknown ending"),
    ],
)
def test_what_combine_refuses(typed, campaign, options, message):
    code, _, err = typed("combine", campaign, *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
