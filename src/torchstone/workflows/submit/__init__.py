"""Runs on clusters: planned here, carried out by jobs in shares, merged by content."""
