"""Parquet files of ours carry a checksum: flipped bits are noticed; files of others are read as they are."""

from __future__ import annotations

import os
import random
import warnings
from contextlib import suppress

import polars as pl
import pytest

from aliquot import load, load_judgments, save, synthetic
from aliquot.cli.main import run
from aliquot.errors import AliquotError, FormatError
from aliquot.io.formats import tables
from aliquot.io.parquet_seal import BLANK_CHECKSUM, CHECKSUM_KEY, silence_panics
from aliquot.sampling.pool import select_pool

DATA = synthetic(items=40, systems=3, seed=1)


def test_flipped_bits_are_noticed(tmp_path):
    path = tmp_path / "d.parquet"
    save(DATA, path)
    raw = path.read_bytes()
    rng = random.Random(2)
    for _ in range(150):
        flipped = bytearray(raw)
        at = rng.randrange(4, len(raw))  # the first four bytes say that it is Parquet
        flipped[at] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            assert load(path) == DATA, "a changed number was read"
            seal = raw.rfind(CHECKSUM_KEY.encode())
            assert seal <= at < seal + len(CHECKSUM_KEY) + 2 + len("blake2b:"), f"byte {at} is not checked"
        except AliquotError:
            pass


def test_tables_and_judgments_are_sealed_too(tmp_path):
    path = tmp_path / "j.parquet"
    assert DATA.judgments is not None
    tables.write(DATA.judgments.table, path)
    assert len(load_judgments(path)) == len(DATA.judgments)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 4
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"j\.parquet: the Parquet file is damaged .its checksum does not fit"):
        load_judgments(path)


def test_the_command_line_tells(tmp_path, capsys):
    save(DATA, tmp_path / "d.parquet")
    raw = bytearray((tmp_path / "d.parquet").read_bytes())
    raw[100] ^= 1
    (tmp_path / "d.parquet").write_bytes(raw)
    assert run(["inspect", str(tmp_path / "d.parquet")]) == 2
    assert "checksum" in capsys.readouterr().err


def test_the_same_data_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save(DATA, tmp_path / f"{name}.parquet")
    raw = (tmp_path / "a.parquet").read_bytes()
    assert raw == (tmp_path / "b.parquet").read_bytes()
    assert BLANK_CHECKSUM.encode() not in raw


def test_files_of_others_are_read(tmp_path):
    table = pl.DataFrame(
        {"item": [1, 2], "system": ["A", CHECKSUM_KEY + "\x18\x18" + BLANK_CHECKSUM], "value": [1.0, 2.0]}
    )
    table.write_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet", score_name="s").n_items == 2


def test_our_files_written_by_others_again_are_read(tmp_path):
    """Polars writes no metadata of the file it read."""
    save(DATA, tmp_path / "d.parquet")
    pl.read_parquet(tmp_path / "d.parquet").write_parquet(tmp_path / "again.parquet")
    assert load(tmp_path / "again.parquet").n_items == 40


def test_pools_notice_flipped_bits(tmp_path):
    """Pools are scanned, not loaded: the checksum is compared once, before the first scan."""
    path = tmp_path / "pool.parquet"
    save(DATA, path)
    before = select_pool(path, "segments", 5).selection.ids
    raw = path.read_bytes()
    other = raw.replace(b"the ", b"teh ", 1) if b"the " in raw else raw[:200] + bytes([raw[200] ^ 1]) + raw[201:]
    path.write_bytes(other)
    with pytest.raises(FormatError, match=r"pool\.parquet: the Parquet file is damaged"):
        select_pool(path, "segments", 5)
    path.write_bytes(raw)
    assert select_pool(path, "segments", 5).selection.ids == before


def test_panics_of_polars_print_nothing(tmp_path, capfd):
    """Damage that makes Polars panic: an error or a table, and never lines of Rust on standard error."""
    path = tmp_path / "t.parquet"
    assert DATA.judgments is not None
    DATA.judgments.table.write_parquet(path)
    raw, rng = path.read_bytes(), random.Random(1)
    for _ in range(60):
        broken = bytearray(raw)
        for _ in range(3):
            broken[rng.randrange(4, len(raw) - 8)] = rng.randrange(256)
        path.write_bytes(broken)
        for read in (load, lambda name: select_pool(name, "segments", 5, columns={"source": "annotator"})):
            with suppress(AliquotError, OSError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(path)
    assert "panicked" not in capfd.readouterr().err


def test_standard_error_comes_back(capfd):
    with silence_panics(), silence_panics():
        os.write(2, b"lost\n")
    os.write(2, b"kept\n")
    assert capfd.readouterr().err == "kept\n"
