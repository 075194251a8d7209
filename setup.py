"""Puts registry.toml into the built package: a checkout reads the one at the top level."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRegistry(build_py):
    """Copies the registry beside the plugins."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "harness_plugins", "registry.toml")
            self.copy_file("registry.toml", str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs = super().get_outputs(include_bytecode)
        if not self.editable_mode:
            outputs.append(str(Path(self.build_lib, "harness_plugins", "registry.toml")))
        return outputs


setup(cmdclass={"build_py": BuildWithRegistry})
