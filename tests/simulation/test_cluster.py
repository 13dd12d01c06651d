"""The same table on a Dask cluster of two workers, and what is said when there is none."""

from __future__ import annotations

import builtins
import socket
from collections.abc import Iterator

import pytest

import aliquot
from aliquot.errors import MissingExtraError, OptionError
from aliquot.simulation.protocols import replay_protocols

METHODS = ["random", "auto", "metric_var:metric=metricA"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Workers are threads that talk over TCP: everything travels as to another machine, and no process can hang."""
    distributed = pytest.importorskip("distributed", reason="dask is an extra: pip install 'aliquot[cluster]'")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        assert len(cluster.workers) == 2
        yield cluster.scheduler_address.removeprefix("tcp://")


def test_the_table_is_that_of_one_process(past, campaign, address, tmp_path):
    sets = [past, campaign(name="other", seed=7)]
    here = aliquot.simulate(sets, METHODS, ["20%", "40%"], repeats=3)
    there = aliquot.simulate(
        sets, METHODS, ["20%", "40%"], repeats=3, engine=f"dask://{address}", journal=tmp_path / "out.parquet"
    )
    assert there.to_frame().equals(here.to_frame())
    assert there.summary_frame().equals(here.summary_frame())
    assert there.signature == here.signature


def test_errors_come_back_from_workers(past, address):
    with pytest.raises(
        aliquot.AliquotError, match="method 'uncertainty:score=metricZ' on past: unknown uncertainty score"
    ):
        aliquot.simulate(past, "uncertainty:score=metricZ", "20%", repeats=2, engine=f"dask://{address}")


def test_the_protocols_too(past, address):
    here, there = replay_protocols(past, runs=3), replay_protocols(past, runs=3, engine=f"dask://{address}")
    assert there.rows == here.rows


@pytest.mark.parametrize(
    "engine", ["dask://", "dask://host", "host:8786", "dask://host:port", "tcp://host:8786", "spark://host:1"]
)
def test_an_address_that_is_none(past, engine):
    with pytest.raises(OptionError, match="give dask://host:port"):
        aliquot.simulate(past, "random", "20%", repeats=2, engine=engine)


def test_nobody_answers(past, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    real = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda at, **options: real(at, **{**options, "timeout": "1s"}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(OptionError, match="no scheduler answers there"):
        aliquot.simulate(past, "random", "20%", repeats=2, engine=f"dask://127.0.0.1:{port}")


def test_without_dask(past, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "distributed" and rest and str(rest[0].get("__name__")).startswith("aliquot"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'aliquot\[cluster\]'"):
        aliquot.simulate(past, "random", "20%", repeats=2, engine="dask://127.0.0.1:8786")
