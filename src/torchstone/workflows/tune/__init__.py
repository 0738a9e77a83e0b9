"""The search for the best settings: proposing trials, the final round, and the result."""
