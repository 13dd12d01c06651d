"""Loading and saving: whatever people have, and what aliquot writes."""
