"""What may befall a file of rows: damage as strategies that turn bytes into other bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Damage = Callable[[bytes], bytes]
# What JSON, floats, sizes and names may be, and what no row should hold.
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**62, 10**30, 0.0, 5e-324, 1e308, -1e308, float("nan"), float("inf"), "",
    "nan", "x" * 5000, "\x1b[31m", "\ud800", "a-b", "../..", [], [-1.0], [float("nan")], ["a"],
    [1e308] * 3, {}, {"a": {"b": [1]}}, {"": None},
)  # fmt: skip
INSERTED = (b"\n", b"{}\n", b"[]\n", b"\xff\xfe\x00\n", b"[" * 5000 + b"\n", b"{\n")
# What the model of a row lets through, and analysis has to bear.
TIMES = (1e-9, 0.5, 1e15)
VALID: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("time_us", "time_low_us", "time_high_us"), TIMES),
    **dict.fromkeys(("rows", "cols"), (0, 1, 7, 2**40)),
    **dict.fromkeys(("round", "card"), (1, 2**16 - 1)),
    **dict.fromkeys(("model_bytes", "model_reads"), (None, 0, 2**53)),
    "compulsory_bytes": (None, 0, 10**9), "schema_version": (0, 2, "1", None, 1.0, True),
    "samples_us": (None, [], [0.0], [1e15] * 3, [5e-324] * 3, [1.0, 1e9]),
    "status": ("crashed", "unsupported"), "kernel": ("torch-b", "naive", "copy", "-", ""),
    "timer": (None, "host", "graph"), "cache": (None, "warm"), "dtype": ("float64", "bfloat16"),
    "params": ({}, {"block_size": [1]}), "gpu": ("", "A"), "sweep": ("", "b"),
    "operation": ("copy", "x"), "environment": ({}, {"torch": None}, {"commit": [1]}),
}  # fmt: skip


def _flip(positions: list[int], bits: int) -> Damage:
    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        for position in positions:
            if changed:
                changed[position % len(changed)] ^= bits
        return bytes(changed)

    return damage


def _cut(share: float) -> Damage:
    return lambda data: data[: int(len(data) * share)]


def _inserted(place: int, line: bytes) -> Damage:
    def damage(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        lines.insert(place % (len(lines) + 1), line)
        return b"".join(lines)

    return damage


def _edited(place: int, field: int | str, value: Any) -> Damage:
    """One line's object, a field changed; any other line stays."""

    def damage(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        try:
            row = json.loads(lines[place % len(lines)] if lines else b"")
            row[field if isinstance(field, str) else sorted(row)[field % len(row)]] = value
            lines[place % len(lines)] = json.dumps(row).encode() + b"\n"
        except (ValueError, LookupError, ArithmeticError, TypeError, RecursionError):
            return data
        return b"".join(lines)

    return damage


PLACE = st.integers(0, 40)
NAMED = st.sampled_from([(name, value) for name, values in VALID.items() for value in values])
ODD = st.builds(lambda place, named: _edited(place, *named), PLACE, NAMED)
BAD = st.one_of(
    st.builds(_edited, PLACE, st.integers(0, 100), st.sampled_from(VALUES)),
    st.builds(_flip, st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 255)),
    st.builds(_cut, st.floats(0, 1)),
    st.builds(_inserted, PLACE, st.sampled_from(INSERTED)),
)
DAMAGE = st.lists(ODD, min_size=1, max_size=12) | st.lists(BAD, min_size=1, max_size=4)
