"""Built-in rewards."""
