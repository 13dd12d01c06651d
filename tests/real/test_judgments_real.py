"""Cleaning and combining real judgments: published z-scores, speeders, what outlier filters do, labels per item."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.cli.main import run
from aliquot.stats.arrays import FloatArray

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt22-da-de-en.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")


def loaded(name: str) -> EvalSet:
    return load_real(name)


def system_means(scores: FloatArray) -> FloatArray:
    present = np.isfinite(scores)
    count = present.sum(axis=0)
    return np.where(count > 0, np.where(present, scores, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)


# -- z-scores of WMT22 ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def raw() -> EvalSet:
    """WMT22 de-en with the raw judgments, which the data hold only as published z-scores.

    A published z is (judgment - m) / s with the annotator's own m and s; the raw score of a cell is the mean of its
    judgments. That is a linear equation for each of 17,139 cells in 2 x 151 unknowns, and it has one solution.
    """
    data = loaded("wmt22-da-de-en")
    assert data.judgments is not None
    table = data.judgments.table
    people = table["annotator"].unique(maintain_order=True).to_list()
    person = table["annotator"].replace_strict(people, list(range(len(people))), return_dtype=pl.Int64).to_numpy()
    rows, columns = data.cell_index(table["item"], table["system"])
    cells, cell = np.unique(rows * data.n_systems + columns, return_inverse=True)
    z = table["value"].to_numpy()
    left = np.zeros((len(cells), 2 * len(people)))
    np.add.at(left, (cell, person), 1.0)
    np.add.at(left, (cell, len(people) + person), z)
    right = data.scores["human"].ravel()[cells] * np.bincount(cell)
    solution, _, rank, _ = np.linalg.lstsq(left, right, rcond=None)
    assert rank == 2 * len(people) == 302
    answers = solution[person] + solution[len(people) + person] * z
    assert np.abs(answers - answers.round()).max() < 1e-6  # people gave whole points
    judgments = table.with_columns(pl.Series("value", answers.round()))
    return EvalSet(
        items=data.items,
        systems=data.systems,
        judgments=aliquot.Judgments(judgments),
        human="human",
        scores={name: data.scores[name] for name in ("human", "human_z")},
    )


def test_the_raw_answers_are_recovered(raw):
    values = raw.judgments.table["value"]
    assert values.min() == 0
    assert values.max() == 100
    assert np.nanmax(np.abs(raw.aggregate(name="again").scores["again"] - raw.scores["human"])) < 1e-6


def test_annotator_z_scores_reproduce_the_published_ranking(raw):
    """The published m and s include control items that are not in the data, so values differ a little.

    Pairs of systems further apart than 0.02 (about one standard error) keep their order; raw scores do not.
    """
    ours = aliquot.combine(raw, normalise="z", name="z").evalset.scores["z"]
    published = raw.scores["human_z"]
    both = np.isfinite(ours) & np.isfinite(published)
    assert both.sum() > 0.99 * np.isfinite(published).sum()  # 65 cells have scores, but no judgments
    assert np.corrcoef(ours[both], published[both])[0, 1] > 0.99
    judged = np.isfinite(system_means(published))
    wanted, found = system_means(published)[judged], system_means(ours)[judged]
    plain = system_means(raw.scores["human"])[judged]
    assert np.corrcoef(found, wanted)[0, 1] > 0.96
    assert np.corrcoef(plain, wanted)[0, 1] < 0.75
    assert stats.kendalltau(found, wanted).statistic > stats.kendalltau(plain, wanted).statistic + 0.1
    apart = wanted[:, None] - wanted[None, :] > 0.02
    assert (found[:, None] > found[None, :])[apart].all()
    assert not (plain[:, None] > plain[None, :])[apart].all()


def test_the_published_z_are_the_means_of_the_judgments():
    data = loaded("wmt22-da-de-en")
    again = data.aggregate(name="again").scores["again"]
    assert np.nanmax(np.abs(again - data.scores["human_z"])) < 1e-12


def test_z_scores_cost_more_than_they_mend_where_documents_differ():
    """Two annotators for each document of a calibration set, against the mean of all 27: r of outputs, ten draws."""
    data = loaded("wmt22-calibration-en-cs")
    assert data.judgments is not None
    table = data.judgments.table.join(data.items.select(pl.col("id").alias("item"), "document"), on="item")
    truth = table.group_by("item", "system").agg(pl.col("value").mean().alias("truth"))
    pairs = table.select("document", "annotator").unique().sort("document", "annotator")
    rng = np.random.default_rng(0)
    found: dict[str | None, list[float]] = {None: [], "z": [], "crossed": []}
    for _ in range(10):
        shuffled = pairs[rng.permutation(pairs.height)]
        drawn = table.join(shuffled.group_by("document", maintain_order=True).head(2), on=["document", "annotator"])
        for how, values in found.items():
            cells = aliquot.combine(drawn.drop("document"), normalise=how).cells
            both = cells.join(truth, on=["item", "system"])
            values.append(float(np.corrcoef(both["value"], both["truth"])[0, 1]))
    raw, z, fair = (float(np.mean(found[how])) for how in (None, "z", "crossed"))
    assert z + 0.05 < fair < raw


def test_crossed_effects_say_nearly_the_same_on_the_raw_scale(raw):
    combined = aliquot.combine(raw, normalise="crossed", name="fair")
    published = system_means(raw.scores["human_z"])
    judged = np.isfinite(published)
    fair = system_means(combined.evalset.scores["fair"])
    assert np.corrcoef(fair[judged], published[judged])[0, 1] > 0.95
    assert combined.annotators.height == 151
    assert combined.annotators["severity"].to_numpy().std() > 10  # people differ by more than a tenth of the scale


# -- times and outliers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "speeders"),
    [("wmt24-esa-en-cs-waves23", ["a004"]), ("wmt24-esa-en-ja-waves23", ["a001", "a006", "a007", "a009"])],
)
def test_times_show_speeders(name, speeders):
    cleaned = aliquot.clean(loaded(name), steps="speeders:share=0.4", scale=(0, 100))
    gone = cleaned.annotators.filter(pl.col("speeders") > 0)
    assert sorted(gone["annotator"]) == speeders
    assert (gone["median_seconds"] < 10).all()
    others = cleaned.annotators.filter(pl.col("speeders") == 0)
    assert (others["median_seconds"] > 12).all()
    assert cleaned.steps[0].marked == 0  # everything is on the scale


@pytest.mark.parametrize("name", ["wmt24-esa-en-cs-waves23", "wmt24-esa-en-ja-waves23", "webnlg2020-en"])
def test_outlier_filters_flatter_the_weakest(name):
    """Ratings are skewed: what lies 1.5 interquartile ranges out is a bad output, not a bad judgment."""
    cleaned = aliquot.clean(loaded(name), steps="outliers:k=1.5")
    systems = cleaned.systems.drop_nulls("before").sort("before")
    assert stats.spearmanr(systems["before"], systems["change"]).statistic < -0.7
    assert (systems["change"] > 0).all()


def test_marks_from_the_command_line(tmp_path, capsys):
    cleaned, scored = tmp_path / "cleaned.jsonl.gz", tmp_path / "scored.parquet"
    source = str(SHARED / "wmt24-esa-en-cs-waves23.jsonl.gz")
    assert run(["clean", source, "--steps", "speeders:share=0.4", "-o", str(cleaned), "--json"]) == 0
    audit = json.loads(capsys.readouterr().out)
    assert audit["counts"]["marked"] == 1019
    assert run(["combine", str(cleaned), "--normalise", "z", "-o", str(scored), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "1019 marked judgments left out" in document["notes"]
    assert "a004" not in [row["annotator"] for row in document["annotators"]]
    assert run(["estimate", str(scored), "--json"]) == 0


# -- combining -----------------------------------------------------------------------------------------------------


def test_more_answers_are_less_wrong():
    curve = aliquot.combine(loaded("wmt22-calibration-zh-en"), curve=True, repeats=5).curve
    assert curve is not None
    errors = dict(curve.table.select("k", "rms_error").iter_rows())
    assert errors[1] > 1.3 * errors[2] > 1.6 * errors[4]
    assert curve.outputs == {"all": 100}


def test_no_number_of_crowd_answers_replaces_summeval_experts():
    data = loaded("summeval")
    combined = aliquot.combine(data, criterion="coherence", experts=["a001", "a002", "a003"], curve=True, repeats=3)
    assert combined.curve is not None
    errors = dict(combined.curve.table.select("k", "mean_error").iter_rows())
    assert errors[5] > 0.8 * errors[1] > 0.8


def test_joint_scores_of_summeval_are_of_outputs():
    data = loaded("summeval")
    names = ("coherence", "consistency", "fluency", "relevance")
    combined = aliquot.combine(data, formula=" * ".join(names))
    scores = combined.evalset.scores
    product = np.prod([scores[f"human_{name}"] for name in names], axis=0)
    assert np.allclose(scores["human_joint"], product, equal_nan=True)
    of_means = np.prod([system_means(scores[f"human_{name}"]) for name in names], axis=0)
    judged = np.isfinite(of_means)
    assert np.abs(system_means(product) - of_means)[judged].max() > 1


def test_scores_of_criteria_are_made_anew():
    data = loaded("webnlg2020-en")
    cleaned = aliquot.clean(data, steps="straight_liners:share=0.8")
    (note,) = [note for note in cleaned.notes if "made again" in note]
    assert "human_Correctness" in note
    assert cleaned.steps[0].annotators == 7
    assert cleaned.evalset.judgments == cleaned.judgments


@pytest.mark.parametrize("name", ["biomqm-de-en", "dialsummeval", "wmt22-calibration-en-cs", "wmt23-mqm3raters-en-de"])
def test_campaigns_of_every_kind_can_be_cleaned_and_combined(name):
    cleaned = aliquot.clean(loaded(name), "da_wmt", steps="speeders+straight_liners+repeats+duplicates")
    assert cleaned.counts["marked"] == cleaned.judgments.table["marked"].count()
    for how in (None, "z", "crossed"):
        combined = aliquot.combine(cleaned.evalset, normalise=how, name="new")
        assert np.isfinite(combined.evalset.scores["new"]).any()
