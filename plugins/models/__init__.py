"""Built-in model back ends."""
