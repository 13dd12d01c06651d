"""`aliquot select` and `aliquot methods` as people type them: what is printed, written, and said when it fails."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest
from tests.cli.conftest import Said

from aliquot import EvalSet, Selection, __version__, load, save, synthetic
from aliquot.sampling import text_vectors as embedding
from aliquot.sampling.methods import ALIASES, all_methods
from aliquot.sampling.select import select

WIDTH = 100
FIELDS = ["id", "rank", "utility", "probability", "cost"]
SUMMARY = {
    "items",
    "population",
    "cost",
    "total_cost",
    "documents",
    "all_documents",
    "domains",
    "document_lengths",
    "effect",
    "notes",
    "method",
}


@pytest.fixture(scope="module")
def campaign() -> EvalSet:
    data = synthetic(items=50, systems=4, seed=11)
    costs = pl.Series("cost", [1.0 + at % 4 for at in range(50)])
    return EvalSet(
        items=data.items.with_columns(costs),
        systems=data.systems,
        scores=data.scores,
        outputs=data.outputs,
        judgments=data.judgments,
        human="human",
    )


@pytest.fixture(scope="module")
def path(campaign: EvalSet, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("select") / "data.jsonl"
    save(campaign, file)
    return str(file)


@pytest.fixture
def chosen(aliquot, path):
    """Run `select` on the campaign, which must succeed without a word on standard error."""

    def call(*arguments: object) -> Said:
        said: Said = aliquot("select", path, *arguments)
        assert said.code == 0, said.err
        assert said.err == ""
        return said

    return call


# -- the summary ---------------------------------------------------------------------------------------------------


SEEN = (
    "10 of 50 items (20%) by segments",
    "of 11 documents",
    "domain",
    "selected",
    "full set",
    "news",
    "effect: every item had a known probability",
    "nothing written; give -o FILE",
    f"aliquot:{__version__}|select:segments|",
)


def test_what_people_see(chosen):
    said = chosen("--method", "segments", "--budget", "20%")
    assert all(words in said.out for words in SEEN)
    assert all(len(line) <= WIDTH for line in said.out.splitlines())


def test_a_biased_choice_is_called_biased(chosen):
    said = chosen("--method", "metric_avg", "--metric", "metricA", "--budget", "5")
    assert "system means from this selection are biased" in " ".join(said.out.split())


def test_auto_says_what_it_chose_and_why(chosen):
    said = " ".join(chosen("--budget", "5").out.split())
    assert "note: auto chose pps:" in said
    assert "3 metrics show which items are hard" in said


def test_costs_are_shown_against_all_costs(chosen):
    said = chosen("--method", "metric_avg", "--metric", "metricA", "--budget", "20cost", "--cost", "cost")
    assert "cost 20.00 of 123.0" in said.out


# -- JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--method", "metric_var", "--metric", "metricA"),
        ("--method", "segments"),
        ("--method", "metric_avg:metric=metricA", "--cost", "cost", "--budget", "7cost"),
        ("--method", "pps", "--non-matching"),
        ("--method", "documents"),
        ("--method", "kmeans:model=ngrams,weighted=yes"),
        (),
    ],
)
def test_json_has_the_promised_shape(chosen, arguments):
    budget = () if "--budget" in arguments else ("--budget", "12")
    document = chosen(*arguments, *budget, "--json").json
    assert list(document) == ["items", "summary", "signature"]
    assert all(list(item) == FIELDS for item in document["items"])
    assert [item["rank"] for item in document["items"]] == list(range(1, len(document["items"]) + 1))
    assert set(document["summary"]) == SUMMARY
    assert document["summary"]["items"] == len(document["items"])
    for group in ("domains", "document_lengths"):
        shares = document["summary"][group]
        assert all(set(share) == {"name", "selected", "full"} for share in shares)
        assert sum(share["full"] for share in shares) == pytest.approx(1.0)
        assert sum(share["selected"] for share in shares) == pytest.approx(1.0)
    assert document["signature"].startswith(f"aliquot:{__version__}|select:")


def test_json_is_what_the_library_gives(chosen, campaign):
    document = chosen("--method", "metric_var", "--metric", "metricA", "--budget", "7", "--seed", "3", "--json").json
    selection = select(campaign, "metric_var", 7, metric="metricA", seed=3)
    assert document["items"] == selection.to_frame().select(FIELDS).to_dicts()
    assert document["signature"].rpartition("|")[0] == selection.signature.rpartition("|")[0]


def test_probabilities_utilities_and_costs_are_null_where_there_are_none(chosen):
    design = chosen("--method", "segments", "--budget", "5", "--json").json["items"][0]
    assert (design["utility"], design["probability"], design["cost"]) == (None, 0.1, None)
    utility = chosen("--method", "random", "--budget", "20cost", "--cost", "cost", "--json").json["items"][0]
    assert utility["probability"] is None
    assert utility["cost"] in {1.0, 2.0, 3.0, 4.0}


def test_json_stays_alone_on_standard_output_when_something_is_to_be_said(aliquot, path):
    said = aliquot("select", path, "--method", "metric_avg", "--metric", "human", "--budget", "500", "--json")
    assert said.code == 0
    assert len(said.json["items"]) == 50
    assert [line[:6] for line in said.err.splitlines()] == ["note: "] * 2
    assert "oracle" in said.err
    assert "all are taken" in said.err


# -- files and other forms -----------------------------------------------------------------------------------------


def test_items_are_written_with_texts_scores_and_the_selection(chosen, campaign, tmp_path):
    out = tmp_path / "selection.jsonl"
    said = chosen("--method", "pps", "--budget", "8", "--seed", "2", "-o", out)
    assert f"wrote {out}" in said.out.replace("\n", "")
    selection = Selection.load(out)
    expected = select(campaign, "pps", 8, seed=2)
    assert selection.ids == expected.ids
    assert selection.to_frame().equals(expected.to_frame())
    data = load(out)
    assert set(data.ids) == set(selection.ids)
    assert data.systems == campaign.systems
    assert data.outputs is not None
    assert set(data.scores) == set(campaign.scores)


def test_gzip_by_ending(chosen, tmp_path):
    chosen("--method", "segments", "--budget", "4", "-o", tmp_path / "s.jsonl.gz")
    assert (tmp_path / "s.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(Selection.load(tmp_path / "s.jsonl.gz")) == 4


@pytest.mark.parametrize(
    ("name", "options"), [("s.csv", ()), ("s.csv", ("--format", "csv")), ("s.tsv", ()), ("s.parquet", ())]
)
def test_tables_by_ending(chosen, campaign, tmp_path, name, options):
    chosen("--method", "segments", "--budget", "4", "-o", tmp_path / name, *options)
    read = {"csv": pl.read_csv, "tsv": lambda path: pl.read_csv(path, separator="\t"), "parquet": pl.read_parquet}
    table: pl.DataFrame = read[name.rpartition(".")[2]](tmp_path / name)
    assert table["id"].to_list() == list(select(campaign, "segments", 4).ids)
    assert table["probability"].to_list() == [0.08] * 4


def test_ids_one_a_line(chosen, campaign, tmp_path):
    expected = "".join(f"{item}\n" for item in select(campaign, "segments", 4).ids)
    assert chosen("--method", "segments", "--budget", "4", "--format", "ids").out == expected
    chosen("--method", "segments", "--budget", "4", "--format", "ids", "-o", tmp_path / "ids.txt")
    assert (tmp_path / "ids.txt").read_text() == expected


def test_csv_to_standard_output(chosen, campaign):
    said = chosen("--method", "segments", "--budget", "4", "--format", "csv")
    table = pl.read_csv(io.StringIO(said.out))
    assert table.columns == ["id", "rank", "utility", "probability", "weight", "cost"]
    assert table["id"].to_list() == list(select(campaign, "segments", 4).ids)


def test_a_file_and_json_at_once(chosen, tmp_path):
    said = chosen("--method", "segments", "--budget", "4", "-o", tmp_path / "s.jsonl", "--json")
    assert [item["id"] for item in said.json["items"]] == list(Selection.load(tmp_path / "s.jsonl").ids)


def test_the_systems_to_judge_are_in_the_file_of_a_non_matching_design(chosen, tmp_path):
    chosen("--method", "segments", "--budget", "6", "--non-matching", "-o", tmp_path / "s.jsonl")
    selection = Selection.load(tmp_path / "s.jsonl")
    assert selection.systems is not None
    assert sum(map(len, selection.systems)) == 24
    table = pl.read_csv(
        io.StringIO(chosen("--method", "segments", "--budget", "6", "--non-matching", "--format", "csv").out)
    )
    assert [tuple(names.split(",")) for names in table["systems"]] == list(selection.systems)


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("--balance", "domain"), {"balance": "domain"}),
        (("--unit", "document"), {"unit": "document"}),
        (("--include", "3,17"), {"include": [3, 17]}),
        (("--exclude-items", "3,17"), {"exclude_items": [3, 17]}),
        (("--crowd", "sys1,sys3"), {"crowd": ["sys1", "sys3"]}),
        (("--cost", "cost", "--budget", "12cost"), {"cost": "cost", "budget": "12cost"}),
        (("--cost", "esa_time", "--budget", "400cost"), {"cost": "esa_time", "budget": "400cost"}),
        (("--seed", "5"), {"seed": 5}),
    ],
)
@pytest.mark.parametrize("method", ["pps", "metric_var:metric=metricB"])
def test_options_are_those_of_the_library(chosen, campaign, method, options, given):
    budget = () if "--budget" in options else ("--budget", "12")
    said = chosen("--method", method, *budget, *options, "--format", "ids")
    arguments: dict[str, Any] = {"budget": 12} | given
    assert said.out.split() == [str(item) for item in select(campaign, method, **arguments).ids]


def test_ids_may_come_from_a_file(chosen, tmp_path):
    (tmp_path / "ids").write_text("3\n17\n\n")
    said = chosen("--method", "random", "--budget", "4", "--include", f"@{tmp_path / 'ids'}", "--format", "ids")
    assert said.out.split()[:2] == ["3", "17"]


def test_ids_that_are_text_may_hold_spaces(aliquot, tmp_path):
    items = pl.DataFrame({"id": ["first item", "second", "third item"]})
    save(EvalSet(items=items, systems=("A",), scores={"m": [[1.0], [2.0], [3.0]]}), tmp_path / "data.jsonl")  # type: ignore[dict-item]
    (tmp_path / "ids").write_text("third item\nsecond\n")
    for given in ("third item,second", f"@{tmp_path / 'ids'}"):
        said = aliquot(
            "select",
            tmp_path / "data.jsonl",
            "--method",
            "random",
            "--include",
            given,
            "--budget",
            "2",
            "--format",
            "ids",
        )
        assert said.code == 0, said.err
        assert said.out.splitlines() == ["second", "third item"]


def test_the_signature_is_the_same_on_every_form(chosen, tmp_path):
    arguments = ("--method", "pps:tau=0.3", "--budget", "9", "--seed", "4")
    signature = chosen(*arguments, "--json").json["signature"]
    assert signature in chosen(*arguments).out
    chosen(*arguments, "-o", tmp_path / "s.jsonl")
    assert Selection.load(tmp_path / "s.jsonl").signature == signature


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "metric_vra"), "unknown method 'metric_vra'; did you mean 'metric_var'?"),
        (("--method", "pps:taw=1"), "pps: no parameter 'taw'; did you mean 'tau'?"),
        (("--method", "pps", "--metric", "metricA"), "pps: no parameter 'metric'; did you mean 'metrics'?"),
        (("--method", "metric_avg"), "choose a metric with --metric"),
        (("--method", "metric_avg", "--metric", "metrica"), "unknown score 'metrica'; did you mean 'metricA'?"),
        (("--method", "uncertainty"), "score"),
        (("--method", "mixture:methods=random|metric_avg,weights=1|b", "--metric", "metricA"), "weights"),
        (("--budget", "0"), "must be above 0"),
        (("--budget", "-3"), "must be above 0"),
        (("--budget", "2.5"), "a number of items is whole"),
        (("--budget", "lots"), "write a number of items (200 or 200items), a share (30%)"),
        (("--cost", "price"), "unknown cost 'price'"),
        (("--balance", "domian"), "did you mean 'domain'?"),
        (("--unit", "page"), "--unit is 'page'"),
        (("--include", "999"), "unknown item '999'"),
        (("--include", "abc"), "the ids of these data are whole numbers"),
        (("--include", "@nowhere.txt"), "nowhere.txt"),
        (("--include", "1,2,3", "--budget", "2"), "already exceed the budget"),
        (("--crowd", "sys9"), "unknown system 'sys9'"),
        (("--format", "xml"), "unknown output format 'xml'"),
        (("--method", "random", "--non-matching"), "non-matching is for designs"),
        (("--method", "kmeans"), "pip install 'aliquot[embed]'"),
        (("--method", "incremental"), "not judged yet"),
        (("--format", "csv", "-o", "{dir}/s.jsonl"), "use .csv, .tsv or .parquet"),
        (("--sede", "1"), "--sede"),
    ],
)
def test_mistakes_are_told_in_one_line(aliquot, path, arguments, message, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "find_spec", lambda _: None)
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    given = [argument.format(dir=tmp_path) if "{dir}" in argument else argument for argument in arguments]
    said = aliquot("select", path, *given, *(() if "--budget" in arguments else ("--budget", "5")))
    assert said.code == 2
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert not list(tmp_path.glob("s.*"))


def test_a_folder_as_output_is_refused_before_anything_is_read(aliquot, tmp_path):
    said = aliquot("select", tmp_path / "missing.jsonl", "-o", tmp_path)
    assert said.code == 1
    assert "is a folder" in said.err


# -- methods -------------------------------------------------------------------------------------------------------


def test_methods_lists_all_with_needs_gifts_and_advice(aliquot):
    said = aliquot("methods")
    assert said.code == 0
    assert all(len(line) <= WIDTH for line in said.out.splitlines())
    words = said.out.split()
    assert all(name in words for name in all_methods())
    assert said.out.split()[:5] == ["method", "needs", "gives", "paper", "advice"]
    assert "'auto' chooses" in said.out
    assert "metric_cons: the paper uses Spearman's correlation (rank=spearman)" in said.words
    assert "diversity: the paper uses embeddings (similarity=embedding)" in said.words


def test_methods_as_json(aliquot):
    methods = aliquot("methods", "--json").json["methods"]
    assert [method["name"] for method in methods] == list(all_methods())
    for method in methods:
        assert list(method) == ["name", "kind", "needs", "gives", "paper", "advice", "differs", "summary", "parameters"]
        assert all(method[field] for field in ("gives", "paper", "advice", "summary"))
        assert all(set(of) == {"kind", "default", "about"} for of in method["parameters"].values())
        assert all(of["about"] for of in method["parameters"].values()), method["name"]


@pytest.mark.parametrize("name", all_methods())
def test_one_method_is_explained_with_its_parameters(aliquot, name):
    said = aliquot("methods", name)
    assert said.code == 0
    method = all_methods()[name]
    assert said.out.startswith(f"{name}: {method.summary.split()[0]}")
    assert all(f"\n{parameter}" in said.out for parameter in method.parameters)
    assert all(len(line) <= WIDTH for line in said.out.splitlines())
    assert aliquot("methods", name, "--json").json["name"] == name


@pytest.mark.parametrize("old", ALIASES)
def test_old_names_are_explained_too(aliquot, old):
    said = aliquot("methods", old)
    assert said.code == 0
    assert f"{ALIASES[old][0]}: " in said.out
    assert old in said.out


def test_auto_is_explained(aliquot):
    said = aliquot("methods", "auto")
    assert said.code == 0
    assert "goal" in said.out


def test_an_unknown_method_is_suggested(aliquot):
    said = aliquot("methods", "metric_vra")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "did you mean 'metric_var'?" in said.err


def test_what_help_shows_for_a_method_can_be_typed(aliquot, path):
    """The defaults that `methods NAME` shows are accepted when they are written out."""
    for name, method in all_methods().items():
        shown = aliquot("methods", name, "--json").json["parameters"]
        given = {key: of["default"] for key, of in shown.items() if of["default"] is not None and key != "model"}
        written = ",".join(f"{key}={'|'.join(v) if isinstance(v, list) else v}" for key, v in given.items())
        told = {"metric": "metricA", "score": "metricA", "model": "ngrams"}
        if name == "source":  # its model is a file
            told = {"predictor": "numpy.char:str_len"}
        extra = ",".join(f"{key}={value}" for key, value in told.items() if key in method.parameters)
        spec = ":".join(filter(None, [name, ",".join(filter(None, [written, extra]))]))
        if name not in {"incremental", "pretrained"}:  # the one needs judgments, the other a package
            said = aliquot("select", path, "--method", spec, "--budget", "5", "--json")
            assert said.code == 0, (spec, said.err)


# -- more items later ----------------------------------------------------------------------------------------------


def test_a_wave_is_added_to_a_file(chosen, tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    chosen("--method", "segments", "--budget", 10, "-o", first)
    said = chosen("--add-to", first, "--budget", "+5", "-o", second)
    assert said.fits
    assert "15 of 50 items (30%) by segments" in said.out
    assert "note: wave 2 adds 5 items to 10, which come first" in said.out
    before, after = Selection.load(first), Selection.load(second)
    assert after.ids[:10] == before.ids
    assert f"new: {', '.join(map(str, after.ids[10:]))}\n" in said.out
    document = chosen("--add-to", first, "--budget", "30%", "--json").json
    assert document["waves"] == [{"size": 10, "drawn": 10}, {"size": 15, "drawn": 5}]
    assert [item["id"] for item in document["items"]] == list(after.ids)
    assert {item["probability"] for item in document["items"]} == {0.3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{draw}"], "--add-to needs --budget"),
        (["{draw}", "--budget", "8"], "the selection is of 10 items already"),
        (["{draw}", "--budget", "20", "--method", "segments"], "was drawn by pps:size=error,tau=0.1, not by segments"),
        (["{draw}", "--budget", "20", "--include", "3"], "leave out --include"),
        (["{top}", "--budget", "20"], "select again with the full budget"),
        (["{data}", "--budget", "20"], "no 'selection' object"),
        (["{other}", "--budget", "20"], "have another source in the data"),
    ],
)
def test_mistakes_with_add_to(aliquot, path, tmp_path, arguments, message):
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("draw", "top", "other", "pool")} | {"data": path}
    save(synthetic(items=50, systems=4, seed=12), files["pool"])
    assert aliquot("select", path, "--budget", "10", "-o", files["draw"]).code == 0
    assert aliquot("select", path, "-m", "metric_var", "--metric", "metricA", "-b", "10", "-o", files["top"]).code == 0
    assert aliquot("select", files["pool"], "--budget", "10", "-o", files["other"]).code == 0
    said = aliquot("select", path, "--add-to", *(argument.format(**files) for argument in arguments))
    assert said.code == 2
    assert message in said.err
