"""People's answers: made sound, measured, combined into scores."""
