"""The further nodes of an allocation: what starts trials' ranks there, and hears how they ended."""
