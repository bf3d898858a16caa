"""Which cards there are, as CUDA would show them: by NVML, as the parent imports no torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from experiments.errors import UserError


def cards_of(cards: Any) -> list[int]:
    """The launcher's cards: a list of indices, or ``all`` for every visible one.

    Raises:
        UserError: it is no list of different indices, or there is no card.
    """
    if cards == "all":
        found = visible_cards()
        if not found:
            raise UserError(
                "hydra.launcher.cards=all: NVML shows no card here; name them by index, as in [0,1]"
            )
        return list(range(len(found)))
    told = f"hydra.launcher.cards={cards}"
    listed = isinstance(cards, Sequence) and not isinstance(cards, str) and cards
    if not listed or any(not isinstance(c, int) or isinstance(c, bool) or c < 0 for c in cards):
        raise UserError(f"{told}; name cards by index, as in [0,1], or all of them by all")
    if len(set(cards)) != len(cards):
        raise UserError(f"{told} names a card twice")
    return list(cards)


def visible_cards() -> list[str]:
    """The PCI bus ids of the visible cards, by the index that ``card=`` names them with.

    ``CUDA_VISIBLE_DEVICES`` chooses and orders them, by index or UUID; an entry that names no card
    hides those after it, as CUDA has it. Instances of one card (MIG) have one bus id. Empty
    without NVML, without cards, and where all are hidden.
    """
    with _nvml() as nvml:
        if nvml is None:
            return []
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        limited = os.environ.get("CUDA_VISIBLE_DEVICES")
        if limited is None:
            return [_bus_id(nvml, handle) for handle in handles]
        found = []
        for entry in map(str.strip, limited.split(",")):
            handle = _handle(nvml, handles, entry)
            if handle is None:
                break
            found.append(_bus_id(nvml, handle))
        return found


@contextlib.contextmanager
def _nvml() -> Iterator[ModuleType | None]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver or no permission: all mean that it tells nothing
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: ModuleType, handles: list[Any], entry: str) -> Any:
    if entry.isdecimal():
        return handles[int(entry)] if int(entry) < len(handles) else None
    if entry.startswith("MIG-"):
        part = _asked(nvml.nvmlDeviceGetHandleByUUID, entry)
        return part and _asked(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, part)
    if entry.startswith("GPU-"):  # CUDA takes the beginning of a UUID as well
        return next((h for h in handles if _uuid(nvml, h).startswith(entry)), None)
    return None


def _asked(question: Callable[[Any], Any], about: Any) -> Any:
    with contextlib.suppress(Exception):  # NVML raises a class of its own for each refusal
        return question(about)
    return None


def _uuid(nvml: ModuleType, handle: Any) -> str:
    return _text(nvml.nvmlDeviceGetUUID(handle))


def _bus_id(nvml: ModuleType, handle: Any) -> str:
    return _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()


def _text(told: str | bytes) -> str:
    return told.decode() if isinstance(told, bytes) else told  # older bindings give bytes
