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
    """Of a card: its usual name, its peak memory bandwidth (1e9 B/s) and its L2 in bytes."""

    name: str
    peak_gbps: float | None = None
    l2_bytes: float | None = None


def datasheet_of(gpu: str) -> Datasheet:
    """Of the card that the driver calls ``gpu``; only its name is set if no file describes it."""
    return _datasheet(description_of(gpu) or {"name": gpu})


def description_of(gpu: str) -> dict[str, Any] | None:
    """The file in conf/gpu whose ``match`` fits the driver's name ``gpu``; None if none does."""
    files = read_yaml(CONF / "gpu").values()
    return next((d for d in files if d.get("match") and re.search(d["match"], gpu)), None)


def datasheets() -> list[Datasheet]:
    """Of the cards that conf/gpu describes."""
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

    None if the library, the driver or the permission is missing, or the card does not report it.
    """
    with contextlib.suppress(Exception):
        return getattr(_nvml(), f"nvml{query}")(*arguments)
    return None
