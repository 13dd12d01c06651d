"""Which items should people judge? Utilities, designs, constraints, pools, learned source utilities."""
