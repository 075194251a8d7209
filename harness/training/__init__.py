"""What training needs from the core, whatever library trains: data, lengths, checkpoints, curves.

    items = training_items(task, Selection(order="size-first"))
    write_verl(items, task, Path("train.parquet"))

Nothing in here imports a training library; trainers are plugins (`harness.trainer`).
"""
