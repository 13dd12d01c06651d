"""How many judgments a question needs, and what a budget buys."""
