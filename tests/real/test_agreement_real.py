"""Agreement on the real campaigns: against reference libraries, and what docs/evidence-people.md says of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import krippendorff
import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr
from tests.real.conftest import load_real

from aliquot import agreement
from aliquot.cli.main import run
from aliquot.report.figures import heatmap
from aliquot.stats.alpha import MEASUREMENT_LEVELS, MeasurementLevel
from aliquot.stats.arrays import FloatArray

DATA = Path(__file__).parents[2].parent / "shared" / "data"
EXPERTS = ["a001", "a002", "a003"]
CROWD = ["a004", "a005", "a006", "a007", "a008"]

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the real data are not at {DATA}")


def table_of(name: str, annotators: list[str] | None = None, criterion: str | None = None) -> FloatArray:
    """Outputs (under each criterion) x annotators, first judgments only, made by a pivot."""
    judgments = load_real(name).judgments
    assert judgments is not None
    rows = judgments.table.with_columns(pl.col("criterion").fill_null("-"))
    rows = rows if criterion is None else rows.filter(pl.col("criterion") == criterion)
    rows = rows if annotators is None else rows.filter(pl.col("annotator").is_in(annotators))
    wide = rows.pivot("annotator", index=["item", "system", "criterion"], values="value", aggregate_function="first")
    return wide.drop("item", "system", "criterion").to_numpy().astype(float)


@pytest.mark.parametrize("level", MEASUREMENT_LEVELS)
@pytest.mark.parametrize(
    ("name", "annotators"),
    [("summeval", EXPERTS), ("summeval", CROWD), ("wmt22-calibration-en-cs", None)],
)
def test_alpha_is_the_librarys(name: str, annotators: list[str] | None, level: MeasurementLevel) -> None:
    table = table_of(name, annotators)
    expected = krippendorff.alpha(reliability_data=table.T, level_of_measurement=level)
    result = agreement(
        load_real(name), annotators=annotators, level=level, measures=["alpha"], bootstrap=0, by="none", trust=False
    )
    assert result["alpha"] == pytest.approx(float(expected), abs=1e-9)


def test_mqm_penalties_too() -> None:
    """Three annotators a cell of ten, penalties from -25 to 0."""
    table = table_of("wmt23-mqm3raters-en-de")
    expected = krippendorff.alpha(reliability_data=table.T, level_of_measurement="interval")
    result = agreement(load_real("wmt23-mqm3raters-en-de"), bootstrap=200)
    assert result["alpha"] == pytest.approx(float(expected), abs=1e-9)
    assert result["alpha"] == pytest.approx(0.536, abs=5e-4)
    assert result.repeats.row(0)[:2] == ("all", 312)
    assert result.spans.height == 0  # this file gives the number of errors, not where they are


def test_experts_and_crowd_hardly_agree() -> None:
    result = agreement(
        load_real("summeval"), groups={"experts": EXPERTS, "crowd": CROWD}, measures=["alpha"], bootstrap=0
    )
    values = dict(result.coefficients.select("group", "value").rows())
    assert values["experts"] == pytest.approx(0.714, abs=5e-4)
    assert values["crowd"] == pytest.approx(0.455, abs=5e-4)
    criteria = ("coherence", "consistency", "fluency", "relevance")
    experts, crowd = (
        np.mean([table_of("summeval", who, criterion).mean(axis=1) for criterion in criteria], axis=0)
        for who in (EXPERTS, CROWD)
    )
    row = result.groups.row(0, named=True)
    assert row["criterion"] == "all"
    assert row["pearson"] == pytest.approx(pearsonr(experts, crowd)[0], abs=1e-9)
    assert row["pearson"] == pytest.approx(0.065, abs=5e-4)
    assert (result.groups["pearson"].abs() < 0.07).all()
    assert any("there may be camps" in note for note in result.notes)
    pairs = result.pairs.filter(pl.col("a").is_in(EXPERTS) & pl.col("b").is_in(CROWD))
    assert pairs.filter(pl.col("pearson").abs() >= 0.05).height == 0


def test_criteria_differ() -> None:
    values = agreement(
        load_real("summeval"), annotators=EXPERTS, measures=["alpha"], bootstrap=0, by="none"
    ).coefficients
    found = {group: round(value, 3) for group, value in values.select("group", "value").rows()}
    assert found == {"all": 0.714, "coherence": 0.574, "consistency": 0.815, "fluency": 0.612, "relevance": 0.447}


@pytest.mark.parametrize(
    ("name", "people", "alpha", "mean"),
    [("wmt22-calibration-en-cs", 27, 0.422, 0.952), ("wmt22-calibration-zh-en", 13, 0.224, 0.796)],
)
def test_calibration_sets(name: str, people: int, alpha: float, mean: float) -> None:
    """Many people on the same outputs: single judgments are noisy, means of many are not."""
    result = agreement(load_real(name), bootstrap=200, trust=False)
    assert result.annotators.height == people
    assert result["alpha"] == pytest.approx(alpha, abs=5e-4)
    assert result["icc2k"] == pytest.approx(mean, abs=5e-4)
    row = result.coefficients.row(0, named=True)
    assert row["low"] < alpha < row["high"]


def test_people_agree_with_themselves_better_than_with_others() -> None:
    result = agreement(load_real("wmt22-calibration-en-cs"), bootstrap=0, trust=False)
    assert result.repeats["repeats"][0] == 182
    assert result.repeats["pearson"][0] > 0.65 > result["pearson"]


def test_pairs_on_real_data() -> None:
    table = table_of("wmt22-calibration-zh-en")
    result = agreement(load_real("wmt22-calibration-zh-en"), bootstrap=0, trust=False)
    assert result.pairs.height == 13 * 12 // 2
    for row in result.pairs.head(20).iter_rows(named=True):
        a, b = (table[:, int(row[side][1:]) - 1] for side in ("a", "b"))
        both = np.isfinite(a) & np.isfinite(b)
        assert row["shared"] == both.sum()
        assert row["pearson"] == pytest.approx(pearsonr(a[both], b[both])[0], abs=1e-9)
        assert row["spearman"] == pytest.approx(spearmanr(a[both], b[both])[0], abs=1e-9)


def test_those_who_hardly_use_the_scale_are_not_reliable() -> None:
    """a007 of zh-en stays within a few points: little noise, and nothing to go by."""
    frame = agreement(load_real("wmt22-calibration-zh-en"), bootstrap=0).annotators
    row = frame.filter(pl.col("annotator") == "a007").row(0, named=True)
    assert row["noise"] == pytest.approx(np.nanmin(frame["noise"].to_numpy()))
    assert row["reliability"] < 0.05
    assert frame.filter(pl.col("outlier"))["annotator"].to_list() == ["a011", "a012"]


def test_web_nlg() -> None:
    result = agreement(load_real("webnlg2020-en"), measures=["alpha", "icc2k"], bootstrap=0, by="none")
    values = dict(result.coefficients.filter(pl.col("measure") == "alpha").select("group", "value").rows())
    assert values["all"] == pytest.approx(0.323, abs=5e-4)
    table = table_of("webnlg2020-en", criterion="fluency")
    expected = krippendorff.alpha(reliability_data=table.T, level_of_measurement="interval")  # slow: one criterion
    assert values["fluency"] == pytest.approx(float(expected), abs=1e-9)
    assert min(values, key=lambda name: values[name]) == "textstructure"
    assert max(values, key=lambda name: values[name]) == "correctness"


def test_campaigns_without_overlap_say_so() -> None:
    for name in ("wmt24-esa-en-cs-waves23", "wmt24-esa-en-ja-waves23"):
        result = agreement(load_real(name), bootstrap=0)
        assert np.isnan(result["alpha"])
        assert any("no output was judged by two annotators" in note for note in result.notes)


def test_protocols_are_compared() -> None:
    result = agreement(load_real("wmt23-en-de"), groups="protocol", by="none", bootstrap=0)
    r = {(a, b): value for a, b, value in result.groups.select("a", "b", "pearson").rows()}
    assert r["ESA-1", "ESA-2"] == pytest.approx(0.481, abs=5e-4)
    assert r["ESA-1", "ESA-2"] > r["ESA-1", "MQM-1"] > r["MQM-1", "MQM-IAA"]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_the_verb_works_on_every_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.cells import cell_len

    judged = b'"judgments"' in gzip.decompress(path.read_bytes())
    assert run(["agreement", str(path), "--bootstrap", "0"]) == (0 if judged else 2)
    said = capsys.readouterr()
    assert (said.err == "") == judged
    lines = [line for line in said.out.splitlines() if not line.startswith("aliquot:")]
    assert max((cell_len(line) for line in lines), default=0) <= 100


def test_json_of_the_largest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agreement", str(DATA / "wmt22-da-de-en.jsonl.gz"), "--bootstrap", "100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["annotators"]) == 151
    assert document["repeats"][0]["repeats"] == 2646


def test_a_heat_map_of_real_annotators(tmp_path: Path) -> None:
    heatmap(agreement(load_real("summeval"), bootstrap=0), tmp_path / "summeval.png")
    assert (tmp_path / "summeval.png").stat().st_size > 20_000
