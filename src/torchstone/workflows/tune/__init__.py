"""The search for the best settings: who proposes the next trial, the final duel, and the answer."""
