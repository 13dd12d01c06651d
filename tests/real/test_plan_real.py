"""Plans on real campaigns: a pilot of a tenth foresees what replays find at three tenths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from tests.real.conftest import load_real

import aliquot
from aliquot import AliquotWarning
from aliquot.cli.main import run
from aliquot.planning.pilot import Pilot, take_pilot
from aliquot.planning.result import CampaignPlan
from aliquot.simulation.setup import keep_complete, resolve_method

SHARED = Path(__file__).parents[3] / "shared" / "data"
if not (SHARED / "wmt23-en-de.jsonl.gz").exists():
    pytest.skip(f"no real data in {SHARED}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(f"ignore::{AliquotWarning.__module__}.AliquotWarning")

CAMPAIGNS = {
    "wmt23-he-en": ("refA", "refB"),
    "biomqm-en-de": (),
    "wmt24-esa-en-ja-waves23": (),
    "dialsummeval": (),
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_pilot_foresees_the_campaign(name):
    """Mean over 6 pilots of 10%: widths at 30% within 15% of simulate's, accuracy within 6 points."""
    data, _ = keep_complete(load_real(name).drop(systems=list(CAMPAIGNS[name])))
    simulated = aliquot.simulate(
        data, ["random", "auto"], ["30%"], repeats=20, measures=["width", "accuracy"], seed=1, parity=False
    )
    found = {(cell.method, cell.measure): cell.value for cell in simulated.cells if cell.asked}
    widths: dict[str, list[float]] = {"random": [], "auto": []}
    accuracies: list[float] = []
    for seed in range(6):
        chosen = aliquot.select(data, "segments", "10%", seed=seed)
        judged = np.isin(data.ids, chosen.ids)
        part = data.with_score(str(data.human), np.where(judged[:, None], data.human_score(), np.nan))
        plan = aliquot.plan(part, selection=chosen, budgets="30%", target="given")
        assert isinstance(plan, CampaignPlan)
        accuracies.append(plan.curve("auto")[-1].accuracy - found["auto", "accuracy"])
        pilot = Pilot(take_pilot(part, None, chosen)[0])
        for method, seen in widths.items():
            future, _ = pilot.forecast_units(resolve_method(method, data), round(0.3 * data.n_items))
            width = 2 * stdtrit(future.freedom(), 0.975) * np.sqrt(np.diag(future.covariance)).mean()
            seen.append(width / found[method, "width"])
    for seen in widths.values():
        assert np.mean(seen) == pytest.approx(1.0, abs=0.15)
    assert np.mean(accuracies) == pytest.approx(0.0, abs=0.06)


def test_the_command_on_a_file_judged_in_part(capsys, tmp_path):
    """557 items, 460 judged: planned for all 557, in items, hours and money."""
    data, picture = str(SHARED / "wmt23-en-de.jsonl.gz"), tmp_path / "plan.svg"
    options = ["--exclude", "refA,synthetic_ref", "--hourly", "20", "--cost", "esa_time"]
    code = run(["plan", data, *options, "--json", "--plot", str(picture)])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    document = json.loads(printed.out)
    assert (document["judged"], document["population"], len(document["pairs"])) == (460, 557, 66)
    advice = document["recommendation"]
    assert advice["reached"]
    assert (advice["judged"], advice["more"]) == (460, advice["point"]["items"] - 460)
    assert 460 <= advice["point"]["items"] <= advice["random_items"]
    assert advice["point"]["money"] == pytest.approx(20 * advice["point"]["hours"])
    assert picture.stat().st_size > 10_000
    assert run(["plan", data, *options, "--pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 for line in lines if not line.startswith("aliquot:"))


def test_repeated_judgments_of_real_people(capsys):
    """Three people judged every output: their noise is known, and an expensive item is worth several judgments."""
    data = str(SHARED / "wmt23-mqm3raters-en-de.jsonl.gz")
    arguments = ["--exclude", "refA", "--replays", "10", "--budgets", "20%,40%", "--seconds-per-new-item", "900"]
    code = run(["plan", data, *arguments, "--json", "--jobs", "1"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    document = json.loads(printed.out)
    assert document["judgments_per_output"] == 3.0
    assert document["repeats"]["formula"] > 0.5
    assert "recorded" in document["seconds"]
