"""The Python API: measuring in the user's own process, into the same records as the command line."""
