"""What may befall a file of rows: damage as strategies that turn bytes into other bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Damage = Callable[[bytes], bytes]
# What JSON, floats, sizes and names may be, and what no row should hold.
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**62, 2**63, 10**30, 0.0, -0.0, 5e-324, 1e-9, 1e9, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"), "", " ", "ok", "nan", "x" * 5000, "\x1b[31m",
    "\ud800",
    "cuda", "host", "copy", "a-b", "-", "../..", [], [0], [1.5], [-1.0], [float("nan")], ["a"],
    [1e308] * 3, [5e-324], {}, {"a": {"b": [1]}}, {"": None},
)  # fmt: skip
INSERTED = (
    b"\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b"\xff\xfe\x00\n",
    b"[" * 5000 + b"\n",
    b"{\n",
    b" \n",
)


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


def _repeated(place: int, times: int) -> Damage:
    def damage(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return data + b"".join(lines[place % len(lines) :][:1] * times) if lines else data

    return damage


def _edited(place: int, edit: Callable[[dict[str, Any]], None]) -> Damage:
    """One line's object, changed; a line that is none stays."""

    def damage(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        try:
            row = json.loads(lines[place % len(lines)] if lines else b"")
            edit(row)
            lines[place % len(lines)] = json.dumps(row).encode() + b"\n"
        except (
            ValueError,
            LookupError,
            ArithmeticError,
            AttributeError,
            TypeError,
            RecursionError,
        ):
            return data
        return b"".join(lines)

    return damage


def _set(field: int, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(row: dict[str, Any]) -> None:
        row[sorted(row)[field % len(row)]] = value

    return edit


def _named(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update({name: value})


def _swap(one: int, other: int) -> Callable[[dict[str, Any]], None]:
    def edit(row: dict[str, Any]) -> None:
        names = sorted(row)
        a, b = names[one % len(names)], names[other % len(names)]
        row[a], row[b] = row[b], row[a]

    return edit


def _lost(field: int) -> Callable[[dict[str, Any]], None]:
    def edit(row: dict[str, Any]) -> None:
        del row[sorted(row)[field % len(row)]]

    return edit


def _future(version: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(schema_version=version, later="field")


# What the model of a row lets through, and analysis has to bear.
TIMES = (1e-9, 0.5, 1e9, 1e15)
VALID: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("time_us", "time_low_us", "time_high_us"), TIMES),
    **dict.fromkeys(("rows", "cols"), (0, 1, 7, 2**40)),
    **dict.fromkeys(("round", "card"), (0, 1, 7, 2**16 - 1)),
    **dict.fromkeys(("model_bytes", "model_reads"), (None, 0, 1, 2**53)),
    "compulsory_bytes": (None, 0, 1, 10**9),
    "samples_us": (None, [], [0.0], [1e15] * 3, [5e-324] * 3, [1.0, 1e9]),
    "status": ("crashed", "unsupported"), "kernel": ("torch-b", "naive", "copy", "-", ""),
    "timer": (None, "host", "graph"), "cache": (None, "warm"), "dtype": ("float64", "bfloat16"),
    "params": ({}, {"block_size": [1]}), "gpu": ("", "A"), "sweep": ("", "b"),
    "operation": ("copy", "x"), "environment": ({}, {"torch": None}, {"commit": [1]}),
}  # fmt: skip
NAMED = st.sampled_from([_named(name, value) for name, values in VALID.items() for value in values])
PLACE, FIELD = st.integers(0, 40), st.integers(0, 100)
EDITS = st.one_of(
    st.builds(_set, FIELD, st.sampled_from(VALUES)),
    st.builds(_swap, FIELD, FIELD),
    st.builds(_lost, FIELD),
    st.builds(_future, st.sampled_from([0, 2, 99, "1", None, 1.0, True])),
)
ODD = st.lists(st.builds(_edited, PLACE, NAMED), min_size=1, max_size=12)
DAMAGE = ODD | st.lists(
    st.one_of(
        st.builds(_edited, PLACE, EDITS),
        st.builds(
            _flip, st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 255)
        ),
        st.builds(_cut, st.floats(0, 1)),
        st.builds(_inserted, PLACE, st.sampled_from(INSERTED)),
        st.builds(_repeated, PLACE, st.integers(1, 3)),
    ),
    min_size=1,
    max_size=4,
)
