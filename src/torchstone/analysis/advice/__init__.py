"""What measured Cases say to somebody who must choose: which settings, why, and what to change."""
