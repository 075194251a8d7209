"""Pooled hidden states on disk: written item by item, read one pooling and layer at a time.

    states = States.open(folder, spec, items=600, poolings=["mean"], layers=[0, 1], width=576)
    states.write([3, 7], array)         # array: (2, poolings, layers, width)
    states.missing()                    # items that are still to be done
    states.block("mean", 1)             # (600, 576), float32

``states.npy`` is a NumPy array (poolings, layers, items, width) that ``numpy.load(mmap_mode="r")``
reads too. ``done.log`` names the finished items; an item counts once its states are on disk, so a
killed extraction goes on where it was. Several processes may write to one folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..store import write_atomically
from ..types import HarnessError, Json

DATA, META, LOG = "states.npy", "meta.json", "done.log"


@dataclass
class States:
    """The states of one model on one list of items."""

    folder: Path
    items: int
    poolings: list[str]
    layers: list[int]
    width: int
    meta: dict[str, Json]
    done: set[int] = field(default_factory=set)
    offset: int = 0

    @classmethod
    def open(
        cls,
        folder: Path,
        spec: Json,
        items: int,
        poolings: Sequence[str],
        layers: Sequence[int],
        width: int,
    ) -> States:
        """Make the folder, or go on with it. Raises HarnessError where it holds something else."""
        meta = {"spec": spec, "poolings": list(poolings), "layers": list(layers), "width": width}
        meta["items"] = items
        path = folder / META
        if not path.is_file():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _allocate(folder / DATA, (len(poolings), len(layers), items, width))
                (folder / LOG).write_bytes(b"")
                write_atomically(path, orjson.dumps(meta, option=orjson.OPT_INDENT_2))
            except OSError as error:
                raise HarnessError(f"{folder}: cannot be written: {error.strerror}") from None
        elif orjson.loads(path.read_bytes()) != orjson.loads(orjson.dumps(meta)):
            raise HarnessError(f"{folder} holds other states; give another --out")
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> States:
        """The states of a folder, finished or not."""
        try:
            meta = orjson.loads((folder / META).read_bytes())
            states = cls(
                folder, meta["items"], meta["poolings"], meta["layers"], meta["width"], meta
            )
            with (folder / DATA).open("rb") as file:
                np.lib.format.read_magic(file)
                np.lib.format.read_array_header_1_0(file)
                states.offset = file.tell()
            states.refresh()
        except (OSError, ValueError, KeyError) as error:
            raise HarnessError(f"{folder} holds no hidden states: {error}") from None
        return states

    def refresh(self) -> None:
        """Read again which items are done; a line that a crash tore does not count."""
        lines = (self.folder / LOG).read_bytes().split(b"\n")[:-1]
        self.done = {int(n) for line in lines for n in line.partition(b";")[0].split(b",") if n}

    def seconds(self) -> tuple[float, float]:
        """Wall and CPU seconds that all processes together spent on what is done."""
        lines = (self.folder / LOG).read_bytes().split(b"\n")[:-1]
        spent = [[float(n) for n in line.split(b";")[1:3]] for line in lines]
        return sum(s[0] for s in spent), sum(s[1] for s in spent)

    def missing(self) -> list[int]:
        """The items that are not done, in order."""
        return [item for item in range(self.items) if item not in self.done]

    def write(
        self, rows: Sequence[int], values: Any, seconds: float = 0.0, cpu: float = 0.0
    ) -> None:
        """Put the states of some items, (rows, poolings, layers, width), on disk, with the wall
        and CPU seconds that they took.

        Raises HarnessError for values that are not finite, and for a disk that is full.
        """
        values = np.ascontiguousarray(values, dtype=np.float32)
        if not np.isfinite(values).all():
            raise HarnessError("the model's hidden states are not finite; try dtype=float32")
        try:
            file = os.open(self.folder / DATA, os.O_WRONLY)
            try:
                for place, item in enumerate(rows):
                    for pooling in range(len(self.poolings)):
                        for layer in range(len(self.layers)):
                            data = values[place, pooling, layer].tobytes()
                            os.pwrite(file, data, self._at(pooling, layer, item))
                os.fdatasync(file)
            finally:
                os.close(file)
            log = os.open(self.folder / LOG, os.O_WRONLY | os.O_APPEND)
            try:
                names = ",".join(map(str, rows))
                os.write(log, f"{names};{seconds:.3f};{cpu:.3f}\n".encode())
                os.fdatasync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise HarnessError(
                f"{self.folder}: cannot be written: {error.strerror}; what is done is safe: make "
                "room and give the same command again"
            ) from None
        self.done.update(rows)

    def block(self, pooling: str, layer: int) -> Any:
        """The states of all items at one pooling and layer, (items, width), float32."""
        start = self._at(self.poolings.index(pooling), self.layers.index(layer), 0)
        count = self.items * self.width
        values = np.fromfile(self.folder / DATA, np.float32, count, offset=start)
        return values.reshape(self.items, self.width)

    def _at(self, pooling: int, layer: int, item: int) -> int:
        row = (pooling * len(self.layers) + layer) * self.items + item
        return self.offset + 4 * row * self.width


def _allocate(path: Path, shape: tuple[int, ...]) -> None:
    """A NumPy file of this shape, zeros that take no room until they are written."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        size = file.tell() + 4 * int(np.prod(shape))
        file.truncate(size)
