"""Continuous integration: both commits of a change measured in one job, told on its pull request, kept in a history."""
