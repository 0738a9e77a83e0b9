"""What a device can do at best: measured on it, and by its vendor's table; and how far a case is from that."""
