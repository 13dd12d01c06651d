"""The command line: one file per verb, which parses, calls the library and prints."""
