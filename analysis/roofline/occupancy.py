"""How many programs a card holds at once, from a row's launch and the card's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.format import number
from experiments.data.cards import Card

# CUDA C++ Programming Guide, technical specifications per compute capability, 8.0 to 9.0.
REGISTERS_PER_SM = 65536
WARPS_PER_SM = 64  # of 8.0 and 9.0; cards of 8.6 and 8.9 hold 48, and there it is an upper bound
PROGRAMS_PER_SM = 32  # likewise
WARP = 32
RESERVED_SHARED = 1024  # bytes the driver takes of each program's shared memory


def rows_in_flight(row: Mapping[str, Any], card: Card) -> int | None:
    """Rows under way at once where a program works on one.

    An SM holds programs up to its warps, registers and shared memory, whichever ends first. None
    where the launch is unknown, as that of a library's kernel is.
    """
    warps, programs = number(row, "warps"), number(row, "programs")
    sms = card.facts.get("sms")
    if not warps or not programs or not sms:
        return None
    limits = [WARPS_PER_SM // int(warps), PROGRAMS_PER_SM]
    if registers := number(row, "registers"):
        limits.append(int(REGISTERS_PER_SM // (registers * WARP * warps)))
    shared, room = number(row, "shared_bytes"), card.facts.get("shared_kib_per_sm")
    if shared is not None and room:
        limits.append(int(room * 1024 // (shared + RESERVED_SHARED)))
    return int(min(programs, max(1, min(limits)) * sms))


def occupancy(row: Mapping[str, Any], card: Card) -> float | None:
    """Resident warps of the first wave as a share of what the whole card could hold, 0 to 1."""
    flying = rows_in_flight(row, card)
    if flying is None:
        return None
    return flying * float(row["warps"]) / (card.facts["sms"] * WARPS_PER_SM)
