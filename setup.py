"""Two things that pyproject.toml cannot say.

The packages are found below harness/ and below plugins/, which is imported as harness_plugins; and
registry.toml goes into the built package (a checkout reads the one at the top level).
"""

from pathlib import Path

from setuptools import find_packages, setup
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


def packages(name: str, folder: str) -> list[str]:
    """An import package and all below it."""
    return [name, *(f"{name}.{below}" for below in find_packages(folder))]


setup(
    packages=packages("harness", "harness") + packages("harness_plugins", "plugins"),
    cmdclass={"build_py": BuildWithRegistry},
)
