"""The built-in plugins. Each is registered in ``registry.toml`` like anyone else's."""
