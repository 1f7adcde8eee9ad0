"""Watching over the running gateway: its figures, its log, its machine, and whom trouble is told."""
