"""The highest rate of queries that meets a latency bound."""
