"""`aliquot estimate` as people type it: what is printed, written, and said when it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Call, Said

from aliquot import EvalSet, __version__, estimate, save, select, synthetic

WIDTH = 100
SYSTEM = [
    "system",
    "estimate",
    "se",
    "low",
    "high",
    "n",
    "effective_n",
    "rank_low",
    "rank_high",
    "p_best",
    "cluster",
    "missing",
    "plain_mean",
]
PAIR = ["a", "b", "difference", "low", "high", "p", "p_adjusted", "p_sample", "p_full"]


@dataclass(frozen=True)
class Files:
    """A campaign of 80 items: `full` is judged all over; `data` not yet, `judgments` has the selected items."""

    full: Path
    data: Path
    selection: Path
    judgments: Path
    untidy: Path

    @property
    def three(self) -> tuple[Path | str, ...]:
        return self.data, "--selection", self.selection, "--judgments", self.judgments


@pytest.fixture(scope="module")
def campaign() -> EvalSet:
    return synthetic(items=80, systems=5, annotators=4, judgments_per_output=2, seed=11)


@pytest.fixture(scope="module")
def files(campaign: EvalSet, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("estimate")
    assert campaign.judgments is not None
    chosen = select(campaign, "pps", 30, seed=2)
    metrics = {name: campaign.scores[name] for name in campaign.metrics}
    save(campaign, folder / "full.jsonl")
    bare = EvalSet(items=campaign.items, systems=campaign.systems, scores=metrics, outputs=campaign.outputs)
    save(bare, folder / "data.jsonl")
    chosen.save(folder / "selection.jsonl")
    answers = campaign.judgments.keep(items=list(chosen.ids)).table
    answers.write_csv(folder / "judgments.csv")
    first = answers.head(1)
    outside = campaign.judgments.table.filter(~pl.col("item").is_in(list(chosen.ids))).head(4)
    strangers = [first.with_columns(system=pl.lit("sys0")), first.with_columns(item=pl.lit(999, dtype=pl.Int64))]
    pl.concat([answers, first, outside, *strangers]).write_parquet(folder / "untidy.parquet")
    names = ("full.jsonl", "data.jsonl", "selection.jsonl", "judgments.csv", "untidy.parquet")
    return Files(*(folder / name for name in names))


@pytest.fixture
def estimated(aliquot: Call) -> Call:
    """Run `estimate`, which must succeed without a word on standard error."""

    def call(*arguments: object) -> Said:
        said = aliquot("estimate", *arguments)
        assert said.code == 0, said.err
        assert said.err == ""
        return said

    return call


# -- what people see -----------------------------------------------------------------------------------------------


def test_the_table(estimated, files, campaign):
    said = estimated(*files.three)
    assert said.fits
    assert "30 of 80 items judged (38%); greg; 95% intervals by t" in said.out
    head = next(line for line in said.out.splitlines() if line.startswith("system"))
    assert head.split() == ["system", "estimate", "se", "interval", "n", "worth", "rank", "P(best)", "cluster"]
    assert all(re.search(rf"^{system}\s.*─*●─*", said.out, re.MULTILINE) for system in campaign.systems)
    assert f"aliquot:{__version__}|estimate:greg|selection:pps#" in said.out


def test_numbers_are_those_of_the_library(estimated, files, campaign):
    result = estimate(campaign, selection=select(campaign, "pps", 30, seed=2))
    said = estimated(*files.three).out
    assert said.startswith(" ".join(str(result.verdict).split())[:60])  # the verdict comes first
    table = said.partition("interval")[2]
    for row in result.systems:
        line = next(line for line in table.splitlines() if line.startswith(row.system))
        assert line.split()[1:6] == [f"{row.estimate:.2f}", f"{row.se:.2f}", f"{row.low:.2f}", "to", f"{row.high:.2f}"]
        assert line.split()[-1] == str(row.cluster)


def test_rules_stand_between_clusters(estimated, files):
    lines = estimated(*files.three).out.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("───")) + 1
    rows = lines[start : lines.index("", start)]
    parts = "\n".join(rows).split("─" * len(lines[start - 1]))
    numbers = [{line.split()[-1] for line in part.splitlines() if line.strip()} for part in parts]
    assert numbers == [{str(number)} for number in range(1, len(numbers) + 1)]
    assert len(numbers) > 1


@pytest.mark.parametrize("name", ["a" * 45, "[/b]", "名前" * 10, "x|y & z_%"])
def test_the_table_fits_whatever_systems_are_called(estimated, files, campaign, tmp_path, name):
    save(campaign.rename(systems={"sys2": name}), tmp_path / "named.jsonl")
    said = estimated(tmp_path / "named.jsonl", "--selection", files.selection, "--pairs")
    assert said.fits
    assert name[:4] in said.out


def test_large_numbers_fit(estimated, files, campaign, tmp_path):
    save(campaign.with_score("human", 1e6 * campaign.scores["human"]), tmp_path / "large.jsonl")
    assert estimated(tmp_path / "large.jsonl", "--selection", files.selection, "--pairs").fits


def test_pairs(estimated, files):
    said = estimated(*files.three, "--pairs")
    assert said.fits
    assert "better worse difference interval p adjusted p full" in said.words
    result = estimated(*files.three, "--json").json
    assert f"{result['pairs'][0]['a']} {result['pairs'][0]['b']}" in said.words
    assert "p full" not in estimated(*files.three).words


def test_what_does_not_fit_is_shown_in_one_table(estimated, files):
    said = estimated(files.data, "--selection", files.selection, "--judgments", files.untidy)
    assert said.fits
    for what in ("unknown items", "unknown systems", "outside the selection", "copies of judgments"):
        assert what in said.out
    assert "counted once" in said.out


def test_strict_refuses_what_does_not_fit(aliquot, estimated, files):
    said = aliquot("estimate", files.data, "-s", files.selection, "-j", files.untidy, "--strict")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: judgments do not fit the data; 1 unknown items (999)")
    estimated(*files.three, "--strict")


def test_what_does_not_fit_is_not_hidden_by_json(aliquot, files):
    said = aliquot("estimate", files.data, "-s", files.selection, "-j", files.untidy, "--json")
    assert said.code == 0
    assert "outside the selection" in said.out + said.err


def test_a_selection_without_probabilities_is_said_once(aliquot, files, tmp_path, campaign):
    select(campaign, "metric_var", 20, metric="metricA").save(tmp_path / "top.jsonl")
    said = aliquot("estimate", files.full, "--selection", tmp_path / "top.jsonl")
    assert said.code == 0
    text = " ".join((said.out + said.err).split())
    assert text.count("means are biased and only the ranking is meaningful") == 1


def test_data_with_human_scores_alone(estimated, files):
    said = estimated(files.full)
    assert "80 of 80 items judged (100%)" in said.out
    assert "0.00" in said.out


def test_judgments_need_no_annotator(estimated, files, tmp_path):
    """The help says: item, system, value, ...; a table of just these is what many tools give."""
    cells = pl.read_csv(files.judgments).group_by("item", "system", maintain_order=True).agg(pl.col("value").mean())
    cells.write_csv(tmp_path / "short.csv")
    said = estimated(files.data, "--selection", files.selection, "--judgments", tmp_path / "short.csv", "--json")
    full = estimated(*files.three, "--json")
    assert [s["estimate"] for s in said.json["systems"]] == pytest.approx([s["estimate"] for s in full.json["systems"]])


# -- JSON and files ------------------------------------------------------------------------------------------------


def test_json_has_the_promised_shape(estimated, files):
    document = estimated(*files.three, "--json").json
    assert {"systems", "pairs", "signature"} <= set(document)
    assert [name for name in document["systems"][0] if name in SYSTEM] == SYSTEM
    assert all(list(pair) == PAIR for pair in document["pairs"])
    assert len(document["systems"]) == 5
    assert len(document["pairs"]) == 10
    assert document["signature"].startswith(f"aliquot:{__version__}|estimate:greg")


def test_json_is_what_the_library_gives(estimated, files, campaign):
    said = estimated(files.full, "--selection", files.selection, "--interval", "bootstrap", "--seed", "3", "--json")
    expected = estimate(campaign, selection=select(campaign, "pps", 30, seed=2), interval="bootstrap", seed=3)
    assert said.json["systems"] == expected.to_dict()["systems"]
    assert said.json["pairs"] == expected.to_dict()["pairs"]


def test_undefined_numbers_are_null_in_json_and_dashes_in_the_table(estimated, campaign, tmp_path):
    human = np.where(np.arange(80)[:, None] == 5, campaign.scores["human"], np.nan)
    bare = EvalSet(
        items=campaign.items, systems=campaign.systems, human="human", scores=dict(campaign.scores) | {"human": human}
    )
    save(bare, tmp_path / "one.jsonl")
    assert [system["se"] for system in estimated(tmp_path / "one.jsonl", "--json").json["systems"]] == [None] * 5
    said = estimated(tmp_path / "one.jsonl")
    assert "one judged item: no standard error can be given" in said.words
    rows = [line.split() for line in said.out.splitlines() if line.startswith("sys")]
    assert len(rows) >= 5
    assert all(row[2:4] == ["-", "-"] for row in rows[-5:])  # standard error and interval
    assert "nan" not in said.out


READ: dict[str, Callable[[Path], pl.DataFrame]] = {
    "csv": pl.read_csv,
    "tsv": lambda path: pl.read_csv(path, separator="\t"),
    "parquet": pl.read_parquet,
}


@pytest.mark.parametrize("ending", READ)
@pytest.mark.parametrize("pairs", [False, True])
def test_tables_by_ending(estimated, files, tmp_path, ending, pairs):
    out = tmp_path / f"out.{ending}"
    estimated(*files.three, "-o", out, *(["--pairs"] if pairs else []))
    document = estimated(*files.three, "--json").json
    expected = document["pairs" if pairs else "systems"]
    table = READ[ending](out)
    assert [name for name in table.columns if name != "proxy_correlation"] == (PAIR if pairs else SYSTEM)
    for name in ("a", "b", "difference", "p_full") if pairs else ("system", "estimate", "low", "n", "cluster"):
        assert table[name].to_list() == [row[name] for row in expected]


def test_json_files_hold_the_same_as_json(estimated, files, tmp_path):
    said = estimated(*files.three, "-o", tmp_path / "out.json", "--json")
    assert json.loads((tmp_path / "out.json").read_text()) == said.json


@pytest.mark.parametrize("pairs", [False, True])
def test_markdown(estimated, files, tmp_path, pairs):
    estimated(*files.three, "-o", tmp_path / "out.md", *(["--pairs"] if pairs else []))
    lines = (tmp_path / "out.md").read_text().splitlines()
    names = [cell.strip() for cell in lines[0].strip("|").split("|")]
    systems = ["system", "estimate", "se", "interval", "n", "worth", "rank", "P(best)", "cluster"]
    assert names == (["better", "worse", "difference", "interval", "p", "adjusted", "p full"] if pairs else systems)
    assert set(lines[1]) <= set("|-: ")
    assert len(lines) == 2 + (10 if pairs else 5)
    assert all(line.count("|") == len(names) + 1 for line in lines)


def test_latex_is_a_whole_tabular(estimated, campaign, files, tmp_path):
    save(campaign.rename(systems={"sys1": "GPT_4 & co"}), tmp_path / "named.jsonl")
    estimated(tmp_path / "named.jsonl", "--selection", files.selection, "-o", tmp_path / "out.tex")
    text = (tmp_path / "out.tex").read_text()
    assert text.startswith(r"\begin{tabular}{l")
    assert text.endswith("\\end{tabular}\n")
    assert r"GPT\_4 \& co" in text
    assert "P(best)" in text
    assert text.count(r"\\") == 6
    assert not re.search(r"(?<!\\)[_%#]", text)


@pytest.mark.parametrize("name", [r"a\b", "x^2", "~tilde"])
def test_latex_survives_any_name(estimated, campaign, files, tmp_path, name):
    r"""A backslash, ^ and ~ mean something to TeX: \textbackslash{}, \^{} (or \textasciicircum{}), \~{}."""
    save(campaign.rename(systems={"sys1": name}), tmp_path / "named.jsonl")
    estimated(tmp_path / "named.jsonl", "--selection", files.selection, "-o", tmp_path / "out.tex")
    text = (tmp_path / "out.tex").read_text()
    assert name not in text
    assert name.strip("~").split("\\")[0].split("^")[0] in text


def test_nothing_is_written_when_it_fails(aliquot, files, tmp_path):
    said = aliquot("estimate", files.full, "--level", "2", "-o", tmp_path / "out.csv")
    assert said.code == 2
    assert list(tmp_path.iterdir()) == []


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("--method", "mean"), {"method": "mean"}),
        (
            ("--method", "cv:proxy=several", "--metrics", "metricA,metricB"),
            {"method": "cv:proxy=several", "metrics": ["metricA", "metricB"]},
        ),
        (("--metrics", "metricA"), {"metrics": ["metricA"]}),
        (("--interval", "bootstrap", "--seed", "4"), {"interval": "bootstrap", "seed": 4}),
        (("--interval", "hoeffding", "--range", "-25,0"), {"interval": "hoeffding", "value_range": (-25, 0)}),
        (("--interval", "hoeffding", "--range", "-25:0"), {"interval": "hoeffding", "value_range": (-25, 0)}),
        (("--interval", "sequence", "--range=-25,0"), {"interval": "sequence", "value_range": (-25, 0)}),
        (("--level", "0.8"), {"level": 0.8}),
        (("--test", "wilcoxon"), {"test": "wilcoxon"}),
        (("--rule", "neighbour"), {"rule": "neighbour"}),
        (("--alpha", "0.2"), {"alpha": 0.2}),
        (("--holm",), {"adjust": "holm"}),
    ],
)
def test_options_are_those_of_the_library(estimated, files, campaign, options, given):
    document = estimated(files.full, "--selection", files.selection, *options, "--json").json
    expected = estimate(campaign, selection=select(campaign, "pps", 30, seed=2), **given).to_dict()
    assert document["systems"] == expected["systems"]
    assert document["pairs"] == expected["pairs"]


def test_systems_may_be_chosen(estimated, files):
    kept = estimated(files.full, "--selection", files.selection, "--systems", "sys1,sys3", "--json").json
    assert {row["system"] for row in kept["systems"]} == {"sys1", "sys3"}
    left = estimated(files.full, "--selection", files.selection, "--read", "exclude=sys1", "--json").json
    assert len(left["systems"]) == 4


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--interval", "bootstrp"), "--interval is 'bootstrp'; did you mean 'bootstrap'?"),
        (("--interval", "hoeffding"), "set --range"),
        (("--interval", "hoeffding", "--range", "0"), "--range '0': write LOW,HIGH"),
        (("--interval", "hoeffding", "--range", "a,b"), "--range 'a,b': write LOW,HIGH"),
        (("--interval", "hoeffding", "--range", "1,2,3"), "write LOW,HIGH"),
        (("--interval", "hoeffding", "--range", "0,-25"), "the lower end must be below"),
        (("--interval", "bernstein", "--range", "-25,inf"), "range"),
        (("--method", "gerg"), "unknown estimator 'gerg'; did you mean 'greg'?"),
        (("--method", "greg:metric=metricA"), "greg: no parameter 'metric'; did you mean 'metrics'?"),
        (("--method", "mean", "--metrics", "metricA"), "mean: no parameter 'metrics'"),
        (("--method", "cv:k=three"), "k='three' should be a whole number"),
        (("--method", "cv:proxy=knn,k=0"), "k"),
        (("--method", "stratified:bins=dokument"), "did you mean 'document'?"),
        (("--metrics", "metrica"), "unknown metric 'metrica'; did you mean 'metricA'?"),
        (("--metrics", "human"), "human"),
        (("--human", "humna"), "unknown score 'humna'; did you mean 'human'?"),
        (("--level", "95"), "level is 95"),
        (("--alpha", "0"), "alpha is 0"),
        (("--test", "ttest"), "--test is 'ttest'"),
        (("--rule", "none"), "--rule is 'none'"),
        (("--systems", "sys9"), "unknown system 'sys9'"),
        (("--selection", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--judgments", "nowhere.csv"), "nowhere.csv"),
        (("-o", "{dir}/out.xlsx"), "unknown ending; use .json, .csv"),
        (("--sequential",), "--range LOW,HIGH"),
        (("--intervall", "t"), "--intervall"),
    ],
)
def test_mistakes_are_told_in_one_line(aliquot, files, arguments, message, tmp_path):
    given = [argument.format(dir=tmp_path) if "{dir}" in argument else argument for argument in arguments]
    start = (files.full,) if "--selection" in arguments else (files.full, "--selection", files.selection)
    said = aliquot("estimate", *start, *given)
    assert (said.code, said.out) == (2, "")
    lines = said.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item,system,annotator,value\n", "no rows"),
        ("item,system,annotator,value\n999,sys1,a,3\n", "no judgment fits the data; 1 unknown items (999)"),
        ("item,system,annotator,value\n1,sys1,a,good\n", "good"),
        ("nothing\n1\n", "judgments.csv"),
        ("", "judgments.csv"),
    ],
)
def test_judgments_that_cannot_be_used(aliquot, files, tmp_path, content, message):
    (tmp_path / "judgments.csv").write_text(content)
    said = aliquot("estimate", files.data, "--judgments", tmp_path / "judgments.csv")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert message in said.err


def test_a_selection_of_other_data(aliquot, files, tmp_path):
    select(synthetic(items=300, systems=2, seed=1), "segments", 150).save(tmp_path / "other.jsonl")
    said = aliquot("estimate", files.full, "--selection", tmp_path / "other.jsonl")
    assert said.code == 2
    assert "which is not in the data" in said.err


def test_a_file_that_is_no_selection(aliquot, files):
    said = aliquot("estimate", files.full, "--selection", files.judgments)
    assert said.code == 2
    assert len(said.err.splitlines()) == 1


def test_data_without_human_scores(aliquot, files):
    said = aliquot("estimate", files.data)
    assert said.code == 2
    assert "name the human score with --human" in said.err


def test_a_folder_as_output_is_refused_before_anything_is_read(aliquot, tmp_path):
    said = aliquot("estimate", tmp_path / "missing.jsonl", "-o", tmp_path)
    assert said.code == 1
    assert "is a folder" in said.err


def test_help_names_every_option_and_fits(aliquot):
    said = aliquot("estimate", "--help-all")
    assert said.code == 0
    for option in (
        "--selection",
        "--judgments",
        "--method",
        "--metrics",
        "--interval",
        "--level",
        "--range",
        "--test",
        "--rule",
        "--alpha",
        "--holm",
        "--pairs",
        "--strict",
        "--sequential",
        "--question",
        "--margin",
        "--human",
        "--seed",
        "--json",
        "--output",
    ):
        assert option in said.out
    assert said.fits


def test_long_tables_show_what_matters_and_all_on_request(estimated, tmp_path):
    save(synthetic(items=40, systems=12, seed=3), tmp_path / "many.jsonl")
    short, full = (estimated(tmp_path / "many.jsonl", "--pairs", *more) for more in ((), ("--all-rows",)))
    pairs = 12 * 11 // 2
    assert f"the 30 that matter most of {pairs} rows; --all-rows shows all" in short.words
    assert "⋮" in short.out
    assert "--all-rows" not in full.out
    assert len(full.out.splitlines()) > len(short.out.splitlines()) + pairs - 30 - 25
    closest = max(
        estimate(tmp_path / "many.jsonl").pairs, key=lambda pair: pair.p_sample
    )  # the closest pair is among those shown
    assert any(line.split()[:2] == [closest.a, closest.b] for line in short.out.splitlines())
    assert short.fits


def test_the_verdict_is_in_the_document(estimated, files):
    document = estimated(*files.three, "--json").json
    assert next(iter(document)) == "verdict"
    assert document["verdict"].endswith(".")
