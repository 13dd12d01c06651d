"""The command line: one file per verb, which parses, calls the library and prints."""

ALL_ROWS: list[bool] = []
"""Holds True where this run shows every row of long tables (--all-rows)."""
NOTES: list[str] = []
"""The warnings of this run, as they were told on standard error; JSON documents hold them among their notes."""
