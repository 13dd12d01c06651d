"""aliquot: human evaluation of generated text on a budget."""

__version__ = "0.1.0"
