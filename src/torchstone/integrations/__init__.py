"""What other frameworks take in: callbacks of trainers, and the plug-in of pytest. Each imports its framework alone."""
