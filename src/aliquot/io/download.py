"""Download a large archive over HTTP: resumed after interruption, checked, unpacked whole or not at all."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import IO, Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from aliquot.errors import DownloadError, unknown_name
from aliquot.io.locks import hold_lock
from aliquot.io.writing import make_temporary

_BLOCK_SIZE = 1 << 20
_TIMEOUT = 30.0
_MAX_TRIES = 4


class _Readable(Protocol):
    headers: http.client.HTTPMessage
    status: int

    def read(self, amount: int) -> bytes: ...


def download_file(url: str, target: Path) -> Path:
    """Download `url` to `target`; an interrupted download leaves `target.part` and is resumed."""
    if target.exists():
        return target
    part = target.with_name(target.name + ".part")
    checksum = _download_with_resume(url, part)
    with part.open("rb") as file:
        is_intact = checksum is None or hashlib.file_digest(file, "md5").hexdigest() == checksum
    if not is_intact:
        part.unlink()
        raise DownloadError(f"{url}: the checksum differs from the server's; the download was removed, run again")
    part.replace(target)
    return target


def _download_with_resume(url: str, part: Path) -> str | None:
    """Download with retries that resume; return the server's checksum, if any."""
    for last in [False] * (_MAX_TRIES - 1) + [True]:
        try:
            return _download_once(url, part)
        except urllib.error.HTTPError as error:
            raise DownloadError(f"{url}: the server answered {error.code} {error.reason}; see ALIQUOT_DATA") from None
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if last or (isinstance(error, urllib.error.URLError) and not part.exists()):
                raise DownloadError(
                    f"{url}: the connection failed ({error}); run again to resume, or, offline, unpack a copy of the "
                    "archive anywhere and set ALIQUOT_DATA to its folder"
                ) from None
    raise AssertionError  # the last try returns or raises


def _download_once(url: str, part: Path) -> str | None:
    start = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (http(s) address chosen by us or the user)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310  (likewise)
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # the part is already whole, or stale: begin anew
            part.unlink()
            return _download_once(url, part)
        raise
    with response:
        if response.status != 206:  # the server does not resume
            start = 0
        length = int(response.headers["Content-Length"]) if response.headers.get("Content-Length") else None
        with part.open("ab" if start else "wb") as sink:
            received = _copy_response(response, sink, start, length)
        if length is not None and received < length:
            raise http.client.IncompleteRead(b"", length - received)
        return _read_checksum(response.headers)


def _copy_response(response: _Readable, sink: IO[bytes], start: int, length: int | None) -> int:
    received = 0
    total = None if length is None else start + length
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, TimeRemainingColumn(), transient=True, console=Console(stderr=True, force_jupyter=False)
    ) as progress:
        task = progress.add_task("downloading", total=total, completed=start)
        while block := response.read(_BLOCK_SIZE):
            sink.write(block)
            received += len(block)
            progress.advance(task, len(block))
    return received


def _read_checksum(headers: http.client.HTTPMessage) -> str | None:
    """Return the MD5 from the header `x-goog-hash` or `Content-MD5` in hexadecimal; None without one."""
    for field in ",".join(headers.get_all("x-goog-hash") or ()).split(","):
        name, _, value = field.strip().partition("=")
        if name == "md5":
            return base64.b64decode(value).hex()
    standard = headers.get("Content-MD5")
    return base64.b64decode(standard).hex() if standard else None


def unpack_archive(archive: Path, target: Path) -> Path:
    """Unpack a .tgz archive to the folder `target`, whole or not at all."""
    beside = make_temporary(target, folder=True)
    try:
        with gzip.open(archive) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            _extract_members(tar, beside)
            while plain.read(_BLOCK_SIZE):  # the checksum stands at the very end
                pass
        inner = beside / target.name
        (inner if inner.is_dir() else beside).replace(target)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        archive.unlink(missing_ok=True)
        raise DownloadError(
            f"{archive.name}: the archive is damaged ({error}); it was removed, run again to fetch it anew"
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    archive.unlink(missing_ok=True)  # the unpacked folder is what is used; the archive would double the space
    return target


def _extract_members(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract files, folders and links; raise for members outside the folder."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    root = folder.resolve()  # Python 3.11.0 to 3.11.3, such as that of Debian 12
    for member in tar:
        place = root / member.name
        target = (place.parent if member.issym() else root) / member.linkname
        if member.isdev() or not all(path.resolve().is_relative_to(root) for path in (place, target)):
            raise tarfile.ExtractError(f"'{member.name}' would be extracted outside the folder, or is a device")
        tar.extract(member, folder)


# -- Named data: "wmt23/en-de" means a pair of WMT's mt-metrics-eval archive, found locally or downloaded once -------


_DESCRIPTOR = re.compile(r"^wmt\d\d(\.[a-z]+)?(/[a-z]{2,3}(_[A-Za-z]+)?-[a-z]{2,3}(_[A-Za-z]+)?)?$")
_ARCHIVE_URL = "https://data.statmt.org/wmt26/mt-metrics-eval-v2.tgz"
_ARCHIVE_FOLDER = "mt-metrics-eval-v2"


def is_descriptor(text: str) -> bool:
    """Return whether a text is a descriptor, not a path.

    >>> is_descriptor("wmt23/en-de"), is_descriptor("wmt23"), is_descriptor("data/wmt23.jsonl")
    (True, True, False)
    """
    return _DESCRIPTOR.match(text) is not None


def locate_data(descriptor: str, pair: str | None = None) -> tuple[Path, str | None]:
    """Return the test set's folder and the pair; download the archive if it is not on this machine."""
    test_set, _, named = descriptor.partition("/")
    for root in _list_data_folders():
        for folder in (root / test_set, root / _ARCHIVE_FOLDER / test_set):
            if folder.is_dir():
                return folder, named or pair
    if os.environ.get("ALIQUOT_DATA"):
        available = [
            name
            for root in _list_data_folders()
            for folder in (root, root / _ARCHIVE_FOLDER)
            for name in _list_test_sets(folder)
        ]
        raise unknown_name(
            "test set", test_set, available, f"ALIQUOT_DATA={os.environ['ALIQUOT_DATA']} does not hold it"
        )
    folder = _download_archive() / test_set
    if not folder.is_dir():
        raise unknown_name("test set", test_set, _list_test_sets(folder.parent))
    return folder, named or pair


def _list_test_sets(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/sources"))


def _list_data_folders() -> list[Path]:
    data = os.environ.get("ALIQUOT_DATA")
    return [Path(data)] if data else [cache_folder()]


def cache_folder() -> Path:
    """Return where downloads are kept: $ALIQUOT_CACHE, else ~/.cache/aliquot."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ALIQUOT_CACHE") or Path(base) / "aliquot")


def _download_archive() -> Path:
    url = os.environ.get("ALIQUOT_ARCHIVE_URL", _ARCHIVE_URL)
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with hold_lock(cache / f".{_ARCHIVE_FOLDER}.lock", "downloads the archive"):
            if (cache / _ARCHIVE_FOLDER).is_dir():  # by the process that was waited for
                return cache / _ARCHIVE_FOLDER
            archive = download_file(url, cache / f"{_ARCHIVE_FOLDER}.tgz")
            return unpack_archive(archive, cache / _ARCHIVE_FOLDER)
    except OSError as error:
        raise DownloadError(
            f"{url}: could not be fetched ({error}); offline, unpack a copy of the archive and set ALIQUOT_DATA to its "
            f"folder, or run again to resume"
        ) from None
