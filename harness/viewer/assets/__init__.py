"""The page: HTML, styles and scripts, handed out by `harness.viewer.files`."""
