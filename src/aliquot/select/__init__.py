"""Which items should people judge? Utilities, subset searches, designs, budgets and constraints."""
