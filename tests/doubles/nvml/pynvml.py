"""NVML of a host with the cards that the variable ``CARDS`` lists, by bus id; it may be empty."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Info:
    """What is known of a card's place, in bytes as older bindings do."""

    busId: bytes


def nvmlInit() -> None:
    """Fails where there is no driver."""
    if "CARDS" not in os.environ:
        raise RuntimeError("Driver Not Loaded")


def nvmlShutdown() -> None:
    """Nothing is held."""


def nvmlDeviceGetCount() -> int:
    """How many there are."""
    return len(os.environ["CARDS"].split())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """A card is its index."""
    return index


def nvmlDeviceGetPciInfo(card: int) -> Info:
    """Where it is plugged in."""
    return Info(os.environ["CARDS"].split()[card].encode())
