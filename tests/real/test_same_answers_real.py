"""Two verbs that are asked the same question of a real campaign give the same answer."""

from __future__ import annotations

import pytest
from tests.cli.conftest import caller
from tests.cli.same_answers import differing, gather_answers
from tests.real.conftest import SHARED

pytest.importorskip("jinja2")


@pytest.mark.parametrize("name", ["wmt22-calibration-en-cs", "newstest2021-mqm-en-de", "wmt23-en-de"])
def test_verbs_agree(capsys, name):
    path = SHARED / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    answers = gather_answers(caller(capsys), path)
    assert differing(answers) == []
    assert {"result of estimate", "judged items"} <= answers.keys()
