"""Why a Case is slow, with the evidence, and what would help, measured before it is said."""
