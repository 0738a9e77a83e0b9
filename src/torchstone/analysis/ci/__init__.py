"""What a change does to the benchmarks of a repository: verdicts, what would decide, and whether it may be merged."""
