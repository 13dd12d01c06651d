"""Reports: what others need to know about an evaluation, written so that they can read it."""
