"""What a call of a public function costs the host, layer by layer, beside PyTorch's own.

The matrix is so small that its kernel is over before the next call is made; batches are short and
end with a synchronisation outside of the clock, so that no call waits for room in the queue. All
layers take a batch in turn, in an order shuffled anew each round: what slows the host slows all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import torch

from experiments.data.statistics import median
from experiments.worker.place import Place
from kernels.layers import SHAPE, Layer, layers

CALLS, ROUNDS, WARMUP = 50, 300, 20  # calls a batch, batches of each layer, unmeasured ones


def hostcost(place: Place) -> dict[str, Any]:
    """The costs on a card: ``gpu``, ``shape``, ``environment`` and the ``layers``."""
    return {
        "gpu": place.device.name,
        "shape": SHAPE,
        "environment": place.environment,
        "layers": measure(layers(place.torch_device), torch.cuda.synchronize),
    }


def measure(timed: list[Layer], wait: Callable[[], object]) -> list[dict[str, Any]]:
    """Host time of each call, µs, and its ratio: medians over batches with their intervals."""
    taken: dict[str, list[float]] = {name: [] for name, _, _ in timed}
    order, shuffle = list(timed), random.Random(0).shuffle
    for round_ in range(WARMUP + ROUNDS):
        shuffle(order)
        for name, _, call in order:
            wait()
            began = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            spent = (time.perf_counter_ns() - began) / 1e3 / CALLS
            if round_ >= WARMUP:
                taken[name].append(spent)
    wait()
    records = []
    for name, base, _ in timed:
        middle, paired = median(taken[name]), zip(taken[name], taken[base], strict=True)
        ratio = median([mine / theirs for mine, theirs in paired])
        records.append(
            {
                "layer": name,
                "host_us": middle.value,
                "host_low_us": middle.low,
                "host_high_us": middle.high,
                "base": base,
                "ratio": ratio.value,
                "ratio_low": ratio.low,
                "ratio_high": ratio.high,
            }
        )
    return records
