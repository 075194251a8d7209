"""SFT rows as verl's trainer wants them: token ids, positions, and a loss on the reply only.

The ids were made before the job began (`harness.training.tokens`), so that they are those of
evaluation: prompt, reply, one end token. Nothing is cut here; rows that are too long never arrive.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset


class TokenRows(Dataset[dict[str, torch.Tensor]]):
    """Rows of a Parquet file with the columns ``ids``, ``prompt`` (its length in tokens), and with
    a probe ``labels``."""

    def __init__(
        self, parquet_files: Any, tokenizer: Any, config: Any, processor: Any = None,
        max_samples: int = -1,
    ) -> None:  # fmt: skip
        names = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        tables = [pq.read_table(name) for name in names]
        self.rows = [row for table in tables for row in table.to_pylist()]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        ids = torch.tensor(self.rows[place]["ids"], dtype=torch.long)
        mask = torch.ones_like(ids)
        size = self.rows[place]["prompt"]
        mask[:size] = 0
        row = {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": mask}
        if "labels" not in self.rows[place]:
            return row
        labels = torch.tensor(self.rows[place]["labels"], dtype=torch.long)
        return {**row, "prompts": ids[:size], "probe_labels": labels}
