"""Pools on the sources of real campaigns: what select gives on the loaded file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.real.conftest import load_real

import aliquot

DATA = Path(__file__).parent.parent.parent.parent / "shared" / "data"
FILES = sorted(DATA.glob("wmt23-*.jsonl.gz"))[:3]


@pytest.mark.skipif(not FILES, reason="the shared data are not here")
@pytest.mark.filterwarnings("ignore::aliquot.AliquotWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("method", ["pps:size=length", "segments", "source_length", "stratified", "snippets_fixed"])
def test_a_campaign_in_parts_gives_what_it_gives_in_memory(path: Path, method: str) -> None:
    whole = aliquot.select(load_real(path.name), method, "10%", seed=3)
    parts = aliquot.select_pool(path, method, "10%", seed=3).selection
    assert parts.ids == whole.ids
    assert parts.to_frame().equals(whole.to_frame())
