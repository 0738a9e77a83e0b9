"""What fits a card that need not be here: predicted peaks, and the largest batch."""
