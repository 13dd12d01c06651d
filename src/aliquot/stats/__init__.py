"""Arrays in, arrays out: the mathematics, which knows no file and no name of a column."""
