"""Judgments: cleaning, combining, agreement, preferences and other comparisons."""
