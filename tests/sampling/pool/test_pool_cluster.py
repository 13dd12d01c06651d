"""A Dask cluster gives the selection that one process gives; workers may die."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sampling.pool.conftest import records, same, write_lines

from aliquot.errors import OptionError, WorkerError
from aliquot.io.journal import journal_path
from aliquot.sampling.pool import select_pool

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")

PREDICTORS = """
import os
from pathlib import Path

HERE = Path(__file__).parent


def once(texts):
    flag = HERE / "killed"
    if not flag.exists():
        flag.touch()
        os._exit(9)
    return [len(text) for text in texts]


def always(texts):
    if os.getpid() != int((HERE / "main").read_text()):
        os._exit(9)
    return [len(text) for text in texts]


def length(texts):
    return [len(text) for text in texts]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Two workers that can import the predictors."""
    folder = tmp_path_factory.mktemp("predictors")
    (folder / "dying_models.py").write_text(PREDICTORS)
    (folder / "main").write_text(str(os.getpid()))
    before = Path.cwd()
    os.chdir(folder)
    try:
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as running:
            yield running.scheduler_address.replace("tcp://", "dask://"), folder
    finally:
        os.chdir(before)


def test_two_workers_give_what_one_process_gives(cluster: tuple[str, Path], lines: Path, model: Path) -> None:
    engine, _ = cluster
    for method in ("pps:size=length", f"pps:size=(source:model={model},pair=en-de)", "kmeans"):
        one = select_pool(lines, method, 40, seed=2, partition_bytes=6000)
        two = select_pool(lines, method, 40, seed=2, partition_bytes=6000, engine=engine)
        same(two.selection, one.selection)
        assert two.items.equals(one.items)


def test_a_worker_that_dies_is_replaced(cluster: tuple[str, Path], tmp_path: Path) -> None:
    engine, folder = cluster
    path = write_lines(tmp_path / "a.jsonl", records(100))
    chosen = select_pool(path, "source:predictor=dying_models:once", 10, partition_bytes=4000, engine=engine)
    assert (folder / "killed").exists()
    same_without = select_pool(path, "source:predictor=dying_models:length", 10)
    assert chosen.selection.ids == same_without.selection.ids


def test_work_that_kills_every_worker_is_an_error_and_writes_nothing(cluster: tuple[str, Path], tmp_path: Path) -> None:
    engine, _ = cluster
    path = write_lines(tmp_path / "a.jsonl", records(100))
    output = tmp_path / "chosen.jsonl"
    with pytest.raises(WorkerError, match="died again and again"):
        select_pool(path, "source:predictor=dying_models:always", 10, engine=engine, journal=output)
    assert not output.exists()
    assert not journal_path(output).exists()


def test_a_process_of_this_machine_that_dies_is_an_error(cluster: tuple[str, Path], tmp_path: Path) -> None:
    del cluster  # the predictors lie in the working folder
    path = write_lines(tmp_path / "a.jsonl", records(200))
    with pytest.raises(WorkerError, match="worker process was killed"):
        select_pool(path, "source:predictor=dying_models:always", 10, jobs=2, partition_bytes=4000)


def test_an_engine_that_is_not_there(lines: Path) -> None:
    for engine in ("spark://x", "dask://", "dask://host", "dask://host:port"):
        with pytest.raises(OptionError, match="give dask://host:port"):
            select_pool(lines, "segments", 5, engine=engine)


def test_workers_in_another_folder_find_the_files(
    cluster: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "near.jsonl", records(90))
    chosen = select_pool("near.jsonl", "source_length", 5, engine=cluster[0])
    assert chosen.selection.ids == select_pool("near.jsonl", "source_length", 5).selection.ids


def test_a_scheduler_that_goes_away_is_an_error(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", records(300))
    running = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    engine = running.scheduler_address.replace("tcp://", "dask://")

    def close(what: str, share: float, items: int) -> None:
        del what, share
        if items:
            running.close()

    with pytest.raises(WorkerError, match="went away in the middle"):
        select_pool(path, "source_length", 5, partition_bytes=500, engine=engine, progress=close)
