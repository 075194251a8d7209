"""Sweeps: many trainings with their tests, as one file and one command.

    sweep = read_sweep(Path("configs/sweeps/tiny-cpu.toml"), Registry.load())
    sweep.cells[0].name                      # 'grpo--seed0'

A *cell* is one training and its tests: `harness train`, the checkpoint that validation chooses, and
`harness run` on the test split. Cells run in slots of this machine (`local`) or as Slurm jobs
(`slurm`), each as a process of its own (`worker`), so that none can take another down. What is on
disk decides what is left to do: the same file again goes on.
"""
