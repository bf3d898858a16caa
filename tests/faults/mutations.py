"""Damage to rows and records: one value changed, at any depth, or the bytes of a file."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**16, 2**31, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 10**18,
    -(10**18), 10**30, 0.0, -0.5, 0.5, 1e-9, 5e-324, 1e15, 1e18, 1e308, -1e308, float("nan"),
    float("inf"), "", " ", "copy", "naive", "ok", "float32", "-", "../..", "é\u202e\x1b[1m",
    "1e5", "x" * 300, "x" * 5000, "$\\frac{a}{", "MN", "9**9**9", "\ud800", "unsupported", "warm",
)  # fmt: skip
WHOLE: tuple[Any, ...] = (
    [], {}, [0], [1e308] * 3, [-1.0], ["a"], [[1]], [None], [1e15] * 100, {"": None}, {"a": [1]},
    {"a": {"b": {"c": 1}}}, {"a": 2**70}, {"a": float("nan")}, dict.fromkeys(map(str, range(2000))),
)  # fmt: skip
LINES = (b"\n", b"{}\n", b"[]\n", b"\xff\xfe\x00\n", b"[" * 5000 + b"\n", b"{\n")


def deep(depth: int, kind: type = dict) -> Any:
    """A mapping or list so deep."""
    value: Any = 0
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value


def mutated(dice: random.Random, value: dict[str, Any]) -> dict[str, Any]:
    """A copy with one value changed, removed or added, anywhere in it."""
    value = copy.deepcopy(value)
    place: Any = value
    inside, key = place, None
    while isinstance(inside, dict | list) and inside and (inside is value or dice.random() < 0.6):
        keys = [*inside] if isinstance(inside, dict) else [*range(len(inside))]
        place, key = inside, dice.choice(keys)
        inside = place[key]
    what = dice.random()
    if what < 0.06:
        del place[key]
    elif what < 0.1 and isinstance(place, dict):
        place[dice.choice(["", "a", "kernel", "x" * 400])] = dice.choice(SCALARS)
    elif what < 0.14:
        place[key] = deep(dice.choice([2, 3, 4, 5, 50, 900]), dice.choice([dict, list]))
    elif what < 0.3:
        place[key] = copy.deepcopy(dice.choice(WHOLE))
    elif what < 0.4 and isinstance(place[key], int | float):
        place[key] = place[key] * dice.choice([-1, 0, 2, 1e-9, 1e9, 10**18, 1e300])
    else:
        place[key] = dice.choice(SCALARS)
    return value


def damaged(dice: random.Random, data: bytes) -> bytes:
    """A file's bytes with a line changed or added, bits flipped, or its end cut off."""
    lines, what = data.splitlines(keepends=True), dice.random()
    place = dice.randrange(len(lines) + 1)
    if what < 0.1:
        return data[: dice.randrange(len(data) + 1)]
    if what < 0.2:
        flipped = bytearray(data)
        for _ in range(dice.randint(1, 8)):
            flipped[dice.randrange(len(data))] ^= dice.randint(1, 255)
        return bytes(flipped)
    if what < 0.3 or place == len(lines):
        return b"".join([*lines[:place], dice.choice(LINES), *lines[place:]])
    try:
        lines[place] = json.dumps(mutated(dice, json.loads(lines[place]))).encode() + b"\n"
    except (ValueError, AttributeError, RecursionError):  # no line of its own, or damaged before
        lines[place] = dice.choice(LINES)
    return b"".join(lines)
