"""The parts of leaderboards: stored runs, arenas and columns, cells, ranks, formats."""
