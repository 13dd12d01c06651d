"""Evaluation sets, judgments and selections: what they are, and how they come from and go to files."""
