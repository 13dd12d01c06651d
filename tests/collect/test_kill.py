"""kill -9 of the server while bots judge and connections are cut: every acknowledged answer is there once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import aliquot

pytest.importorskip("uvicorn")
from tests.collect.crowd import ServerProcess, killed_while_judging, lost_or_doubled, make_crowd

from aliquot.collect.campaign import Campaign


def test_nothing_acknowledged_is_lost(tmp_path: Path):
    data = aliquot.synthetic(items=60, systems=4, seed=1)
    path = tmp_path / "c.db"
    with Campaign.create(data, protocol="da", annotators=10, path=path, unit_items=5) as campaign:
        server = ServerProcess(path)
        crowd = make_crowd(campaign, server.port, 10)
        protocol = campaign.protocol.for_page()
    try:
        asyncio.run(killed_while_judging(server, crowd, protocol, kills=3))
    finally:
        server.kill()
    acknowledged, lost, doubled = lost_or_doubled(path, crowd)
    assert acknowledged >= 3
    assert (lost, doubled) == (0, 0)
