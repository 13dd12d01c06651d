"""One file per outside format: a reader, and a writer where it makes sense."""
