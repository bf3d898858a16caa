"""The parent side of a sweep: jobs, plan, workers and cards, rows, summary."""
