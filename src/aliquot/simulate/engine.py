"""Where units of a replay run; the engine itself is shared with pools and lives with the data."""

from __future__ import annotations

from aliquot.data.engine import run_tasks

__all__ = ["run_tasks"]
