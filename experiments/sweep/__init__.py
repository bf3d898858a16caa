"""The parent's side of a sweep: configuration, jobs, points, schedule, rows, summary."""
