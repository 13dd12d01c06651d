"""Named data: local copies, downloads that break off, servers that lie, and a cache that is whole or absent."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aliquot import load, load_all
from aliquot.cli.main import run
from aliquot.errors import AliquotError, DownloadError, NameUnknownError, OperationError, OptionError
from aliquot.io import download as catalog

FOLDER = "mt-metrics-eval-v2"
FILES = {
    "wmt23/sources/en-de.txt": "one\ntwo\n",
    "wmt23/system-outputs/en-de/A.txt": "eins\nzwei\n",
    "wmt23/human-scores/en-de.mqm.seg.score": "A\t-1\nA\tNone\n",
    "wmt22/sources/en-de.txt": "x\n",
    "wmt22/system-outputs/en-de/A.txt": "y\n",
    "wmt22/sources/en-cs.txt": "x\n",
    "wmt22/system-outputs/en-cs/A.txt": "y\n",
}


def archive(files: dict[str, str] | None = None, top: str = f"{FOLDER}/") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in (files or FILES).items():
            member = tarfile.TarInfo(top + name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


ARCHIVE = archive()


class Server(ThreadingHTTPServer):
    """Serves one file, as badly as it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = ARCHIVE
        self.cuts: list[int] = []  # after how many bytes the next answers break off
        self.resumes = True
        self.status = 200
        self.open = threading.Event()  # answers wait for it
        self.open.set()
        self.extra: list[tuple[str, str]] = []
        self.asked: list[str | None] = []  # the Range of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{FOLDER}.tgz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        self.server.open.wait(60)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        whole = self.server.content
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.resumes else 0
        if start >= len(whole):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(whole) - start))
        for name, value in self.server.extra:
            self.send_header(name, value)
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(whole)
        self.wfile.write(whole[start : start + cut])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, request):
    """An empty cache, nothing local, and the archive at the test's server where it has one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("ALIQUOT_DATA", raising=False)
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/x.tgz"
    url = request.getfixturevalue("server").url if "server" in request.fixturenames else nobody
    monkeypatch.setenv("ALIQUOT_ARCHIVE_URL", url)
    return tmp_path / "cache"


def inside(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def unpacked(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# -- downloads that work -------------------------------------------------------------------------------------------


def test_downloaded_once(server, cache):
    data = load("wmt23/en-de")
    assert (data.name, data.n_items, data.systems, data.human) == ("wmt23/en-de", 2, ("A",), "mqm")
    assert load("wmt23", pair="en-de") == data
    assert list(load_all("wmt22")) == ["en-cs", "en-de"]
    assert server.asked == [None]
    assert inside(cache) == [FOLDER]  # no archive, no part, no temporary folder


def test_several_at_once_download_it_once(server, cache):
    """The first downloads, the others wait for it and say so; none blames the network."""
    server.open.clear()
    command = [sys.executable, "-c", "import aliquot; print(aliquot.load('wmt23/en-de').n_items)"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = started()
    while not server.asked and first.poll() is None:
        time.sleep(0.02)
    others = [started(), started()]
    for process in others:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith(f"note: waiting for process {first.pid} on ")
        assert "which downloads the archive since" in said
    server.open.set()
    done = [process.communicate(timeout=300) for process in (first, *others)]
    assert [out for out, _ in done] == ["2\n"] * 3, done
    assert server.asked == [None]
    assert inside(cache) == [FOLDER]


def test_an_archive_without_a_folder_at_the_top(server, cache):
    server.content = archive(top="")
    assert load("wmt23/en-de").n_items == 2
    assert inside(cache) == [FOLDER]


def test_a_cut_connection_is_resumed(server, cache):
    server.cuts = [100, 50]
    assert load("wmt23/en-de").n_items == 2
    assert server.asked == [None, "bytes=100-", "bytes=150-"]
    assert inside(cache) == [FOLDER]


def test_a_connection_cut_again_and_again_is_resumed_by_the_next_run(server, cache):
    server.cuts = [10] * 4
    with pytest.raises(DownloadError, match=r"run again to resume.*ALIQUOT_DATA"):
        load("wmt23/en-de")
    assert inside(cache) == [f"{FOLDER}.tgz.part"]
    assert load("wmt23/en-de").n_items == 2
    assert server.asked[-1] == "bytes=40-"
    assert inside(cache) == [FOLDER]


def test_a_server_that_cannot_resume_begins_anew(server, cache):
    server.cuts, server.resumes = [100], False
    assert load("wmt23/en-de").n_items == 2
    assert server.asked == [None, "bytes=100-"]
    assert inside(cache) == [FOLDER]


@pytest.mark.parametrize("excess", [0, 500])
def test_a_part_that_is_whole_or_too_long_begins_anew(server, cache, excess):
    server.content = ARCHIVE
    cache.mkdir()
    (cache / f"{FOLDER}.tgz.part").write_bytes(ARCHIVE + b"\0" * excess)
    assert load("wmt23/en-de").n_items == 2
    assert inside(cache) == [FOLDER]


# -- downloads that do not -----------------------------------------------------------------------------------------


CORRUPT = {
    "not an archive": b"<html>Service moved</html>",
    "nothing": b"\x1f\x8b",
    "half an archive": ARCHIVE[: len(ARCHIVE) // 2],
    "damaged in the middle": ARCHIVE[:200] + bytes(64) + ARCHIVE[264:],
    "a member outside": archive({"../../evil.txt": "boo"}),
}


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in CORRUPT.items()])
def test_a_corrupt_archive_leaves_nothing(server, cache, content, tmp_path):
    server.content = content
    with pytest.raises(DownloadError, match=r"(?s)damaged.*run again"):
        load("wmt23/en-de")
    assert inside(cache) == []
    assert not (tmp_path / "evil.txt").exists()
    server.content = ARCHIVE
    assert load("wmt23/en-de").n_items == 2


def linked(kind: bytes, target: str) -> bytes:
    """An archive with a file a/b and a link a/c."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        file, link = tarfile.TarInfo("a/b"), tarfile.TarInfo("a/c")
        file.size, link.type, link.linkname = 3, kind, target
        made.addfile(file, io.BytesIO(b"boo"))
        made.addfile(link)
    return out.getvalue()


LINKS = {
    "symbolic": (tarfile.SYMTYPE, "b", True),
    "symbolic, up and down": (tarfile.SYMTYPE, "../a/b", True),
    "hard": (tarfile.LNKTYPE, "a/b", True),
    "symbolic outside": (tarfile.SYMTYPE, "../../b", False),
    "symbolic at the root": (tarfile.SYMTYPE, "/etc/passwd", False),
    "hard outside": (tarfile.LNKTYPE, "../b", False),
    "a device": (tarfile.CHRTYPE, "", False),
}


@pytest.mark.parametrize("filters", [True, False])
@pytest.mark.parametrize("name", LINKS)
def test_links_stay_inside_with_any_python(tmp_path, monkeypatch, name, filters):
    """Python before 3.11.4, such as that of Debian 12, has no filters of archives."""
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    kind, target, good = LINKS[name]
    (tmp_path / "a.tgz").write_bytes(linked(kind, target))
    if good:
        assert (catalog.unpack_archive(tmp_path / "a.tgz", tmp_path / "whole") / "a" / "c").read_bytes() == b"boo"
    else:
        with pytest.raises(DownloadError, match="damaged"):
            catalog.unpack_archive(tmp_path / "a.tgz", tmp_path / "whole")
        assert inside(tmp_path) == []


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in CORRUPT.items()])
def test_a_python_without_filters_leaves_nothing_either(server, cache, content, tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    test_a_corrupt_archive_leaves_nothing(server, cache, content, tmp_path)


def md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


CHECKSUMS = {
    "one field": lambda value: [("x-goog-hash", f"crc32c=abcd==,md5={value}")],
    "two fields": lambda value: [("x-goog-hash", "crc32c=abcd=="), ("x-goog-hash", f"md5={value}")],  # as Google does
    "the standard field": lambda value: [("Content-MD5", value)],
}


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in CHECKSUMS.items()])
def test_the_servers_checksum_is_checked(server, cache, fields):
    server.extra = fields(md5(b"something else"))
    with pytest.raises(DownloadError, match=r"checksum differs.*run again"):
        load("wmt23/en-de")
    assert inside(cache) == []
    server.extra = fields(md5(ARCHIVE))
    assert load("wmt23/en-de").n_items == 2


def test_a_resumed_download_is_checked_as_a_whole(server, cache):
    server.extra, server.cuts = [("x-goog-hash", f"md5={md5(ARCHIVE)}")], [100]
    assert load("wmt23/en-de").n_items == 2
    assert inside(cache) == [FOLDER]


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_refusing_server(server, cache, status):
    server.status = status
    with pytest.raises(DownloadError, match=f"{status}.*ALIQUOT_DATA"):
        load("wmt23/en-de")
    assert inside(cache) == []


def test_offline(cache):
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1.*offline.*ALIQUOT_DATA") as caught:
        load("wmt23/en-de")
    assert isinstance(caught.value, OperationError)
    assert inside(cache) == []


def test_a_full_disk_while_unpacking(server, cache, monkeypatch):
    def full(_: tarfile.TarFile, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(catalog, "_extract_members", full)
    with pytest.raises(DownloadError, match="No space left"):
        load("wmt23/en-de")
    assert FOLDER not in inside(cache)
    assert not [name for name in inside(cache) if name.startswith(".")]
    monkeypatch.undo()
    monkeypatch.setenv("ALIQUOT_CACHE", str(cache))
    monkeypatch.setenv("ALIQUOT_ARCHIVE_URL", server.url)
    monkeypatch.setenv("no_proxy", "*")
    assert load("wmt23/en-de").n_items == 2


# -- on the command line -------------------------------------------------------------------------------------------


def test_the_command_line_downloads_and_prints_json_only(server, cache, capsys):
    assert run(["inspect", "wmt23/en-de", "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("{")  # the progress bar belongs on standard error
    assert json.loads(printed)["items"] == 2
    assert len(server.asked) == 1
    assert inside(cache) == [FOLDER]


def test_the_command_line_offline(capsys):
    assert run(["inspect", "wmt23/en-de"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert "ALIQUOT_DATA" in said.err
    assert said.out == ""


# -- local copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", FOLDER])
def test_a_local_copy_is_used_without_the_network(tmp_path, monkeypatch, below, cache):
    unpacked(tmp_path / "copy" / below)
    monkeypatch.setenv("ALIQUOT_DATA", str(tmp_path / "copy"))
    assert load("wmt23/en-de").n_items == 2
    assert inside(cache) == []


def test_a_local_copy_that_lacks_the_test_set_says_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_DATA", str(unpacked(tmp_path / "copy")))
    with pytest.raises(NameUnknownError, match=r"'wmt24'.*'wmt22', 'wmt23'.*ALIQUOT_DATA"):
        load("wmt24/en-de")


def test_a_local_copy_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(AliquotError, match=r"ALIQUOT_DATA=.*nowhere"):
        load("wmt23/en-de")


@pytest.mark.usefixtures("server")
def test_an_unknown_test_set_or_pair_after_the_download():
    with pytest.raises(NameUnknownError, match=r"unknown test set 'wmt19'.*'wmt22', 'wmt23'"):
        load("wmt19/en-de")
    with pytest.raises(NameUnknownError, match=r"unknown language pair 'en-fr'.*'en-de'"):
        load("wmt23/en-fr")
    with pytest.raises(OptionError, match=r"'en-cs', 'en-de'.*`pair`"):
        load("wmt22")


def test_a_folder_of_that_name_comes_first(tmp_path):
    unpacked(tmp_path)
    assert load("wmt23").n_items == 2


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert catalog.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ALIQUOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert catalog.cache_folder() == tmp_path / "xdg" / "aliquot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert catalog.cache_folder() == tmp_path / "home" / ".cache" / "aliquot"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wmt23", True),
        ("wmt23/en-de", True),
        ("wmt23.sent/en-de", True),
        ("wmt24/en-pt_BR", True),
        ("wmt23/en-de.jsonl", False),
        ("data/wmt23", False),
        ("../wmt23", False),
        ("WMT23", False),
    ],
)
def test_descriptors_and_paths(text, expected):
    assert catalog.is_descriptor(text) is expected
