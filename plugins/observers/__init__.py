"""Loggers on the observing hooks: TensorBoard, Weights & Biases."""
