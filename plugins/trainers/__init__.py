"""Trainers: SFT and GRPO on verl."""
