"""Datasheets of cards, looked up by the driver's name of a card, and queries to NVML."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.data.jobs import CONF, read_yaml


@dataclass(frozen=True)
class Datasheet:
    """A card's usual name, peak memory bandwidth (GB/s, 1e9 B/s) and L2 size (bytes)."""

    name: str
    peak_gbps: float | None = None
    l2_bytes: float | None = None


def datasheet_of(gpu: str) -> Datasheet:
    """The datasheet of the card that the driver calls ``gpu``; the name alone if it has no file."""
    return _datasheet(description_of(gpu) or {"name": gpu})


def description_of(gpu: str) -> dict[str, Any] | None:
    """The contents of the conf/gpu file whose ``match`` fits the driver's name; None if none."""
    files = read_yaml(CONF / "gpu").values()
    return next((d for d in files if d.get("match") and re.search(d["match"], gpu)), None)


def datasheets() -> list[Datasheet]:
    """The datasheets of all cards in conf/gpu."""
    return [*map(_datasheet, read_yaml(CONF / "gpu").values())]


def _datasheet(described: Mapping[str, Any]) -> Datasheet:
    facts = {name: fact["value"] for name, fact in (described.get("facts") or {}).items()}
    l2_mib = facts.get("l2_mib")
    l2_bytes = None if l2_mib is None else l2_mib * 2**20
    return Datasheet(described.get("name", ""), facts.get("memory_gbps"), l2_bytes)


@cache
def _nvml() -> Any:
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        return pynvml


def ask_nvml(query: str, *arguments: Any) -> Any:
    """The answer of NVIDIA's management library to a query such as ``DeviceGetCount``.

    None without the library, the driver or the permission, or if the card does not report it.
    """
    with contextlib.suppress(Exception):
        return getattr(_nvml(), f"nvml{query}")(*arguments)
    return None
