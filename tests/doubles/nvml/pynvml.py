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


def nvmlDeviceGetUUID(card: int) -> str:
    """A UUID that begins with the card's index."""
    return f"GPU-{card}aaaaaaa-bbbb-cccc"


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    """A part of the card whose index stands after ``MIG-``."""
    return int(uuid[len("MIG-")])


def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part: int) -> int:
    """The card that a part is of."""
    return part


def nvmlDeviceGetPciInfo(card: int) -> Info:
    """Where it is plugged in."""
    return Info(os.environ["CARDS"].split()[card].encode())
