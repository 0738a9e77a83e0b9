"""The instrument: clock, stopwatch, feed, warm-up, stopping, loop. Knows no torch; a fake clock tests it exactly."""
