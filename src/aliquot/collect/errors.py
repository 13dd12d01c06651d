"""Errors that the server sends to pages: a code for the program, a message for the person."""

from __future__ import annotations

from aliquot.errors import AliquotError, DamagedError, OperationError

_STATUS = {
    "link_unknown": 404,
    "link_revoked": 403,
    "worker_known": 403,
    "crowd_full": 403,
    "campaign_closed": 403,
    "paused": 403,
    "lease_lost": 409,
    "stale": 409,
    "unit_unknown": 404,
    "bad_answer": 422,
    "too_fast": 429,
    "storage": 503,
}


class CollectError(AliquotError):
    """A request of an annotator that cannot be served; `code` is for the page, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status that goes with the code."""
        return _STATUS.get(self.code, 400)


class StorageError(CollectError, OperationError):
    """The database could not be written; nothing was stored, and the request can be repeated."""

    def __init__(self, message: str) -> None:
        super().__init__("storage", message)


class DamagedStoreError(StorageError, DamagedError):
    """The database is damaged: its content differs from what was written."""
