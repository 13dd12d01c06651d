"""Members of zip archives, also those packed by Zstandard, which Python's zipfile reads from 3.14 on only."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

from aliquot.errors import FormatError, import_extra
from aliquot.io.files import limit_size

STORED, DEFLATE, ZSTANDARD = 0, 8, 93
_LOCAL_HEADER = 30  # bytes before the name of a member
_REMEDY = "copy or download it again"


def list_members(raw: bytes, path: Path | str) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by name; a name written twice means its last content.

    Raises FormatError if a member does not fit into half of the memory: members are read one after another.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = {member.filename: member for member in archive.infolist()}
    except Exception as error:  # noqa: BLE001  (BadZipFile, but also NotImplementedError, struct.error, ...)
        raise FormatError(f"{path}: a damaged or cut zip archive ({error}); {_REMEDY}") from None
    largest = max(members.values(), key=lambda member: member.file_size, default=None)
    if largest is not None:
        limit_size(largest.file_size, f"{path} {largest.filename}")
    return members


def read_first_name(raw: bytes) -> str:
    """Return the name of the first member, even of an archive that is cut.

    >>> content = io.BytesIO()
    >>> with zipfile.ZipFile(content, "w") as archive:
    ...     archive.writestr("a/b.json", "{}")
    >>> read_first_name(content.getvalue()[:40])
    'a/b.json'
    """
    size = int.from_bytes(raw[26:28], "little")
    return raw[_LOCAL_HEADER : _LOCAL_HEADER + size].decode("utf-8", "ignore")


def read_member(raw: bytes, member: zipfile.ZipInfo, path: Path | str) -> bytes:
    """Return the content of a member; raise FormatError if it is damaged."""
    header = raw[member.header_offset : member.header_offset + _LOCAL_HEADER]
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    start = member.header_offset + _LOCAL_HEADER + lengths
    packed = raw[start : start + member.compress_size]
    try:
        content = _unpack(packed, member, path)
    except (zlib.error, ValueError, EOFError) as error:
        raise FormatError(f"{path}: its member {member.filename} is damaged ({error}); {_REMEDY}") from None
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise FormatError(f"{path}: its member {member.filename} is damaged (wrong checksum); {_REMEDY}")
    return content


def _unpack(packed: bytes, member: zipfile.ZipInfo, path: Path | str) -> bytes:
    """Unpack at most one byte more than the member should have."""
    if member.flag_bits & 1:
        raise FormatError(f"{path}: its member {member.filename} is encrypted; unpack the archive with its password")
    if member.compress_type == STORED:
        return packed
    if member.compress_type == DEFLATE:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size + 1)
    if member.compress_type == ZSTANDARD:
        return _unpack_zstandard(packed, member.file_size + 1, path)
    raise FormatError(
        f"{path}: its member {member.filename} is packed by a method that is not read ({member.compress_type}); pack "
        "it again by deflate"
    )


def _unpack_zstandard(packed: bytes, limit: int, path: Path | str) -> bytes:
    zstandard = import_extra("zstandard", "logs", f"{path}: its members are packed by Zstandard, which")
    try:
        stream = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return bytes(stream.read(limit))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
