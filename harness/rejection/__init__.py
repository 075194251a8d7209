"""Rejection sampling: candidates of a model, gated by a reward, become training data.

harness sample --task T --model M          a run with many completions of each train prompt
harness rft score RUN                      which of them pass every gate, and why not
harness rft build RUN --out DATA           a data set of accepted replies, never of gold text
"""
