"""Leaderboards to look at: one self-contained HTML page, and plots."""
