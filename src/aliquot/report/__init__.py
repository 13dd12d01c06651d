"""Reports: pages, datasheets, figures and verdicts for readers of an evaluation."""
