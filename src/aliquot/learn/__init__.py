"""What past campaigns teach about sources: models that say, before any output exists, which items to judge."""
