"""The version, in a file of its own so that signatures need not import the package that they are part of."""

__version__ = "0.3.0"
