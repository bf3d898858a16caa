"""A worker's equipment, kept from point to point."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from experiments.worker.flush import Flush
from experiments.worker.machine import Monitor
from experiments.worker.place import Place


@dataclass
class Bench:
    """What a worker keeps between points: its place, the flush buffer and the card's monitor."""

    place: Place
    monitor: Monitor
    flush: Flush

    @classmethod
    def at(cls, place: Place) -> Bench:
        """Sets up at a place."""
        uuid = None
        if place.device.kind == "cuda":
            uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        return cls(
            place, Monitor(uuid), Flush(place.torch_device, place.device.l2_bytes or 32 << 20)
        )
