"""Files that promptfoo made: JSON and JSON lines are one data set, whose means are promptfoo's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import aliquot
from aliquot.errors import AliquotWarning
from aliquot.io.formats import promptfoo
from aliquot.io.formats.promptfoo_files import PromptfooTest
from aliquot.io.formats.samples import LogFile

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "harness" / "promptfoo"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the real data are not at {DATA}")


def test_scores_have_the_sums_that_promptfoo_reports() -> None:
    data = aliquot.load(DATA / "out.json")
    assert data.systems == ("alpha (prompt 1)", "alpha (prompt 2)", "beta (prompt 1)", "beta (prompt 2)")
    prompts = json.loads((DATA / "out.json").read_bytes())["results"]["prompts"]
    for column, prompt in enumerate(prompts):
        totals = prompt["metrics"]
        assert data.scores["pass"][:, column].sum() == totals["testPassCount"]
        assert data.scores["score"][:, column].sum() == pytest.approx(totals["score"])
        assert data.scores["brevity"][:, column].sum() == pytest.approx(totals["namedScores"]["brevity"])
        assert data.usage["cost"][:, column].sum() == pytest.approx(totals["cost"])
        assert data.usage["tokens"][:, column].sum() == totals["tokenUsage"]["total"]


def test_json_lines_and_the_folder_are_the_same_data() -> None:
    data = aliquot.load(DATA / "out.json")
    assert aliquot.load(DATA / "out.jsonl") == data
    with pytest.warns(AliquotWarning, match="100 results occur in another file too"):
        folder = aliquot.load(DATA)
    np.testing.assert_array_equal(folder.scores["pass"], data.scores["pass"])


def test_grades_are_computed_as_promptfoo_does() -> None:
    """What is computed for outputs that people rated, on outputs that nobody did."""
    for result in json.loads((DATA / "out.json").read_bytes())["results"]["results"]:
        components = result["gradingResult"]["componentResults"]
        passed, score = promptfoo._regrade(components, PromptfooTest())
        assert passed == result["success"]
        assert score == pytest.approx(result["score"])
    assert len(list(promptfoo.read_samples([LogFile(DATA / "out.json")]))) == 100
