"""Named data: "wmt23/en-de" means a pair of WMT's mt-metrics-eval archive, found locally or downloaded once.

Order of search: the folder $ALIQUOT_DATA, the cache ($ALIQUOT_CACHE or ~/.cache/aliquot), then the network.
Invariant: the cache's data folder is complete or absent. An archive is fetched to a `.part` file, which a later try
resumes, is checked, unpacked beside, and only then renamed into place.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from aliquot.data.download import fetch, unpack
from aliquot.errors import DownloadError, unknown_name

_DESCRIPTOR = re.compile(r"^wmt\d\d(\.[a-z]+)?(/[a-z]{2,3}(_[A-Za-z]+)?-[a-z]{2,3}(_[A-Za-z]+)?)?$")
_ARCHIVE_URL = "https://data.statmt.org/wmt26/mt-metrics-eval-v2.tgz"
_FOLDER = "mt-metrics-eval-v2"


def is_descriptor(text: str) -> bool:
    """Tell a descriptor from a path.

    >>> is_descriptor("wmt23/en-de"), is_descriptor("wmt23"), is_descriptor("data/wmt23.jsonl")
    (True, True, False)
    """
    return _DESCRIPTOR.match(text) is not None


def locate(descriptor: str, pair: str | None = None) -> tuple[Path, str | None]:
    """Return the test set's folder and the pair, downloading the archive if it is nowhere on this machine."""
    test_set, _, named = descriptor.partition("/")
    for root in _roots():
        for folder in (root / test_set, root / _FOLDER / test_set):
            if folder.is_dir():
                return folder, named or pair
    if os.environ.get("ALIQUOT_DATA"):
        there = [name for root in _roots() for folder in (root, root / _FOLDER) for name in _test_sets(folder)]
        raise unknown_name("test set", test_set, there, f"ALIQUOT_DATA={os.environ['ALIQUOT_DATA']} does not hold it")
    folder = _download() / test_set
    if not folder.is_dir():
        raise unknown_name("test set", test_set, _test_sets(folder.parent))
    return folder, named or pair


def _test_sets(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/sources"))


def _roots() -> list[Path]:
    data = os.environ.get("ALIQUOT_DATA")
    return [Path(data)] if data else [cache_folder()]


def cache_folder() -> Path:
    """Return where downloads are kept: $ALIQUOT_CACHE, else ~/.cache/aliquot."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ALIQUOT_CACHE") or Path(base) / "aliquot")


def _download() -> Path:
    url = os.environ.get("ALIQUOT_ARCHIVE_URL", _ARCHIVE_URL)
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        archive = fetch(url, cache / f"{_FOLDER}.tgz")
        return unpack(archive, cache / _FOLDER)
    except OSError as error:
        raise DownloadError(
            f"{url}: could not be fetched ({error}); offline, unpack a copy of the archive and set ALIQUOT_DATA to its "
            f"folder, or run again to resume"
        ) from None
