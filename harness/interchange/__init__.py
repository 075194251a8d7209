"""Runs in the formats of other tools: Inspect's log, and lm-eval's results."""
