"""Links: random, signed, revocable. The database holds only their hashes.

A token is HMAC-SHA256 of the campaign's secret over who it is for and its number; a link that is withdrawn gets the
next number. The secret is in a file of its own beside the database (`campaign.db.key`, readable by its owner only):
whoever gets a copy of the database cannot judge in anybody's name. Without that file old links go on working, and new
ones need `aliquot collect links --new`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from aliquot.collect.schema import is_url
from aliquot.errors import DataError, OutputError

ORGANISER = "organiser"
CROWD = "crowd"
_BYTES = 24  # of the token: 192 bits


@dataclass(frozen=True)
class Links:
    """The links of a campaign: the organiser's, annotator -> link, and provider of a crowd -> shared link."""

    organiser: str
    annotators: dict[str, str]
    crowd: dict[str, str] = field(default_factory=dict)


def secret_path(place: str | Path, campaign: str) -> Path:
    """Return where the secret is kept: beside the file; in the working folder for a database by URL."""
    return Path(f"aliquot-{campaign}.key") if is_url(place) else Path(f"{place}.key")


def new_secret(path: Path) -> bytes:
    """Write a new secret that only its owner can read, whole or not at all."""
    secret = secrets.token_bytes(32)
    temporary = Path(f"{path}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(secret) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or error}); free space, or give yourself the "
            "right to write there; nothing was changed"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
    return secret


def read_secret(path: Path) -> bytes:
    """Read the secret, or say what to do without it."""
    try:
        return base64.b64decode(path.read_bytes().strip(), validate=True)
    except FileNotFoundError:
        raise DataError(
            f"{path}: the file with the campaign's secret is missing, so that links cannot be printed; put "
            "it back, or make new links: aliquot collect links CAMPAIGN --new"
        ) from None
    except ValueError:
        raise DataError(
            f"{path}: is no secret of a campaign; put the right file back, or make new links: aliquot "
            "collect links CAMPAIGN --new"
        ) from None


def make_token(secret: bytes, campaign: str, who: str, number: int) -> str:
    """Return the token of an annotator's id (or of the organiser).

    >>> len(make_token(b"secret", "c1", "a1", 1))
    32
    """
    signed = hmac.new(secret, f"{campaign}/{who}/{number}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(signed[:_BYTES]).decode().rstrip("=")


def token_hash(token: str) -> str:
    """Return what the database keeps of a token: 192 random bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
