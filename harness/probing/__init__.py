"""Probing: which concepts a linear probe reads from a model's hidden states, and where.

    harness probe --task gamesolve --model smollm2 --out probes/smollm2

Hidden states are pooled and kept by `extract`, probes fitted by `solver` (many at once) or
`reference` (scikit-learn), chosen on validation and tested once by `nested`, and held against
controls by `controls`. `results` writes and reads probes.json, `heads` has the same probes as a
torch module for an auxiliary loss. docs/probing.md tells the whole.
"""
