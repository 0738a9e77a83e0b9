"""What measuring in the user's own process would change, kept beforehand and put back afterwards."""
