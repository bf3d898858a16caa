"""Damaged rows and records: an answer or one line, never a traceback, never a hang.

FAULT_EXAMPLES=1000 make test-faults looks longer than the default; an example's seed is its number.
"""

import json
import os
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.figures import style
from tests.analysis.noisy import twins
from tests.analysis.plausible import declare, few, write
from tests.analysis.records import count, h200, record_files, trace
from tests.analysis.test_hostile import check, words

pytestmark = [pytest.mark.faults, pytest.mark.timeout(60)]
EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "40"))
FILES = ("rows.jsonl", "rows.jsonl", "rows.jsonl", "counters.jsonl", "variants.json")
COMMANDS = ("figures", "tables", "claims", "roofline", "selftest", "compare", "report")
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
DEEP = [a * n + b"0" + z * n for a, z in ((b'{"a":', b"}"), (b"[", b"]")) for n in (2, 5, 50, 900)]
OTHERS = [*(json.dumps(one).encode() for one in (*SCALARS, *WHOLE)), *DEEP]
VALUE = re.compile(rb'(?<=[:\[])\s*("(?:[^"\\]|\\.)*"|[\[{][^][{}]*[\]}]|[-+.\w]+)')
LINES = (b"\n", b"{}\n", b"[]\n", b"\xff\xfe\x00\n", b"[" * 5000 + b"\n", b"{\n")


def mutated(dice: random.Random, line: bytes) -> bytes:
    """A line in which another value stands for one of its own; where it has none, only that."""
    found = [*VALUE.finditer(line)]
    start, end = dice.choice(found).span() if found else (0, len(line))
    return line[:start] + dice.choice(OTHERS) + line[end:]


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
    lines[place] = mutated(dice, lines[place])
    return b"".join(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of every kind, with records and declarations beside them, and nothing else around."""
    monkeypatch.chdir(tmp_path)  # where no record lies in outputs
    monkeypatch.setattr(style, "DPI", 20)
    folder = tmp_path / "rows"
    folder.mkdir()
    rows = few() + few(dtype="float16", timer="graph", cache="warm")
    rows.append(few(gpu="A card without a roof")[0])
    write(folder, rows + twins(rounds=2, times_us=[5.0, 60.0], kernels=["torch"], count=7))
    record_files(
        folder,
        counts=[count("naive"), count("online")],
        traces=[trace("naive"), trace("online")],
        counters=h200(),
    )
    declare(folder)
    return folder


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_damaged_files_are_answered_or_refused_in_one_line(
    seed: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(seed)
    command, path = dice.choice(COMMANDS), folder / dice.choice(FILES)
    data = path.read_bytes()
    for _ in range(dice.randint(1, 4)):
        data = damaged(dice, data)
    path.write_bytes(data)
    with warnings.catch_warnings():
        status = main(words(command, folder, folder.parent / "out"))
    error = capsys.readouterr().err
    assert status in (0, 2) or (status, command) == (1, "compare"), error
    assert "Traceback" not in error
    if status == 2:
        assert error.startswith("error: "), error
        assert error.count("\n") == 1, error
        assert error[:-1].isprintable(), error
    for path in (path for path in (folder.parent / "out").rglob("*") if path.is_file()):
        check(path)
