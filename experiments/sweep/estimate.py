"""A dry run: which points a sweep would measure, and about how many minutes they take."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.sweep.points import Point

# Rough seconds, good for planning a coffee: compiling once a shape, by who compiles; samples
# taken before the interval is narrow; a device's bandwidth; what a point costs besides.
COMPILE_S = {"inductor": 1.5, "cute": 0.6, "torchscript": 0.4, "triton": 0.1}
SAMPLES = 150
BYTES_PER_S = {"cuda": 1.5e12, "cpu": 4e9}
FLUSH_S = {"cuda": 1e-4, "cpu": 1e-2}
INTERPRETER_S_PER_ROW = 2e-3
OVERHEAD_S = 0.05
START_S = 4.0  # a new worker process


def estimate_s(point: Point) -> float:
    """About how long a point takes, in seconds."""
    if point.declared["unsupported"]:
        return 0.0
    backend = point.variant["backend"]
    if backend == "interpreter":
        return OVERHEAD_S + INTERPRETER_S_PER_ROW * float(point.declared["rows"])
    moved = float(point.declared["model_bytes"]) / BYTES_PER_S[point.device]
    samples: int = min(SAMPLES, point.job.config["timing"]["max_samples"])
    sampling = samples * (moved + FLUSH_S[point.device])
    return OVERHEAD_S + COMPILE_S.get(backend, 0.0) + sampling


def print_estimate(points: Sequence[Point]) -> None:
    """Lists the points in the order they would run, then the minutes."""
    for point in points:
        why = point.declared["unsupported"]
        how = f"  {point.job.variation}" if point.job.variation else ""
        print(f"{point}{how}  card {point.card}  round {point.round}{f'  ({why})' if why else ''}")
    by_card: dict[int, float] = {}
    for point in points:
        by_card[point.card] = by_card.get(point.card, 0.0) + estimate_s(point)
    seconds = max(by_card.values(), default=0.0)  # cards work side by side
    rounds = len({point.round for point in points})
    visits = ""
    if rounds > 1:
        visits = f" in {rounds} rounds, one whole round after another"
        if points[0].job.config["fresh"]:
            visits += ", each in new worker processes"
            seconds += START_S * rounds
    on = f" on {len(by_card)} cards" if len(by_card) > 1 else ""
    print(f"{len(points)} points to measure{visits}{on}, about {seconds / 60:.1f} minutes")
