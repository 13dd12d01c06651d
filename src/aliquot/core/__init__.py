"""Evaluation sets, judgments, selections and results: what they are, without files."""
