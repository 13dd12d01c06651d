"""Logs as Inspect writes them, with invented content."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

ZSTANDARD = 93


def sample(name: int | str, epoch: int = 1, /, output: str | None = "an answer", **fields: Any) -> dict[str, Any]:
    """A sample with the score `match`; without output the model was not asked."""
    message = {"role": "assistant", "content": output}
    return {
        "id": name,
        "epoch": epoch,
        "input": f"question {name}",
        "target": f"answer {name}",
        "messages": [],
        "output": {"model": "m", "choices": [] if output is None else [{"message": message, "stop_reason": "stop"}]},
        "scores": {"match": {"value": "C", "history": []}},
        "metadata": {},
        "events": [{"event": "state"}],
        **fields,
    }


def log(samples: Sequence[Mapping[str, Any]] | None = None, status: str = "success", **spec: Any) -> dict[str, Any]:
    """A log in one document; `spec` are fields of `eval`."""
    samples = [sample(1), sample(2)] if samples is None else samples
    about = {"task": "sums", "task_id": "t", "model": "org/small", "created": "2026-01-01T00:00:00+00:00"}
    data = {"dataset": {"sample_ids": list(dict.fromkeys(s["id"] for s in samples)), "samples": len(samples)}}
    plan = {"name": "plan", "steps": [{"solver": "generate", "params": {}}]}
    return {
        "version": 2,
        "status": status,
        "eval": about | data | {"config": {"epochs": 1}} | spec,
        "plan": plan,
        "samples": list(samples),
    }


def encode(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def archive(document: Mapping[str, Any], method: int = zipfile.ZIP_DEFLATED, *, finished: bool = True) -> bytes:
    """The log as an archive."""
    header = {name: value for name, value in document.items() if name != "samples"}
    members = {"_journal/start.json": encode(header)}
    members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": encode(s) for s in document["samples"]}
    return pack(members | ({"header.json": encode(header)} if finished else {}), method)


def pack(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive; members are from 1980, so that it is the same on every day."""
    if method == ZSTANDARD:
        return _pack_zstandard(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as target:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            target.writestr(info, content)
    return out.getvalue()


def _pack_zstandard(members: Mapping[str, bytes]) -> bytes:
    """Write the archive by hand: zipfile packs by Zstandard from Python 3.14 on only."""
    import zstandard

    body, directory = b"", b""
    for text, content in members.items():
        name = text.encode()
        half = len(content) // 2  # two frames, as of long members
        packed = b"".join(zstandard.compress(part) for part in (content[:half], content[half:]))
        extra = b"\x99\x99\x04\x00abcd"
        sizes = struct.pack("<III", zlib.crc32(content), len(packed), len(content))
        common = struct.pack("<HHHHH", 63, 0x800, ZSTANDARD, 0, 33) + sizes
        local = b"PK\x03\x04" + common + struct.pack("<HH", len(name), len(extra)) + name + extra + packed
        tail = struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(body)) + name
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common + tail
        body += local
    count = len(members)
    return body + directory + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(body), 0)
