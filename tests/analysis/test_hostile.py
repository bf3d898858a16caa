"""A stranger's folder stays inert: it is read, or refused in one line, and nothing in it acts.

No file content is a traceback, hangs or fills memory; what a text holds stays text wherever it is
written; a command that is interrupted says so in one line.
"""

import csv
import gzip
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest

from analysis import figures
from analysis.__main__ import DRAWING, main
from analysis.published import sources
from experiments.data.files import LINE_BYTES
from experiments.data.rows import Row
from tests.analysis.conftest import Captured
from tests.analysis.noisy import twins
from tests.analysis.plausible import KERNELS, declare, few, row, unsupported, write
from tests.analysis.records import count, h200, record_files

Make = Callable[[Path], object]
COMMANDS = (*DRAWING, "compare", "validate")
JOKE = (
    "=cmd|' /C calc'!A0 \x1b[31mred\x1b[0m \x07 | $&%#_~^ </script><script>alert(1)</script>\n"
    "[a](javascript:b) `c` <img src=x onerror=alert(1)> \u202e ${d} %s {0} \u2028"
)


def packed(rows: list[Row], level: int = 9) -> bytes:
    lines = "".join(one.model_dump_json() + "\n" for one in rows)
    return gzip.compress(lines.encode(), level, mtime=0)


def edited(folder: Path, **changes: Any) -> None:
    """A few rows of a sweep of their own, with changes that the model need not take."""
    lines = [json.dumps(r.model_dump() | {"sweep": " ".join(changes)} | changes) for r in few()]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")


def jokes(folder: Path) -> None:
    """Every text is a joke."""
    texts = {"reason": JOKE, "suspect": [JOKE], "environment": {"commit": JOKE, JOKE: JOKE},
             "stop_reason": JOKE, "throttled": [JOKE], "gpu": JOKE, "sweep": JOKE, "roof": JOKE,
             "key": JOKE, "backend": JOKE, "model_formula": JOKE}  # fmt: skip
    rows = [r.model_dump() | texts for r in few()]
    rows += [r | {"kernel": JOKE + "long" * 30, "params": {JOKE: JOKE}} for r in rows[:2]]
    rows += [r | {"operation": JOKE, "roof": "copy"} for r in rows[:2]]
    rows += [r | {"kernel": "online", "status": "unsupported", "time_us": None} for r in rows[:2]]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    declare(folder, idea=JOKE, reads=JOKE, on_chip="9" * 30 + "N", formula="9**9**9", latex=JOKE)
    record_files(folder, counts=[count("naive", reason=JOKE, method="none", tensors=[])])


def failures(folder: Path) -> None:
    """Every way to fail, some without a reason, beside a card that nobody knows."""
    failed = ("incorrect", "out_of_memory", "compile_error", "launch_error", "timeout", "crashed")
    lost = [row("torch", 4096 + 128 * i, time_us=None, status=s) for i, s in enumerate(failed)]
    write(folder, [*few(), *lost, unsupported("fused_row", 1024), *few(gpu=JOKE)])
    record_files(folder, counters=h200())


# What the schema takes: each command makes what it can of it.
TAKEN: Mapping[str, Make] = {
    "jokes": jokes,
    "failures": failures,
    "no_protocol": lambda folder: edited(folder, timer=None, cache=None),
    "no_bytes": lambda folder: edited(folder, model_bytes=None, compulsory_bytes=None),
    "no_interval": lambda folder: edited(folder, time_low_us=None, time_high_us=None),
    "endless": lambda folder: edited(folder, relative_error=1e308, cols=2**40),
    "odd_names": lambda folder: edited(folder, gpu="", sweep="", params={"a": [{"b": None}]}),
    "upside_down": lambda folder: edited(
        folder, time_low_us=9e9, time_high_us=1e-9, environment={"torch": {"a": []}, "commit": [1]}
    ),
    "same_names": lambda folder: write(folder, few(operation="add", roof="add", key="add")),
    "sizes": lambda folder: write(
        folder, [row(k, n, rows=m) for k in KERNELS for m, n in ((0, 8), (4096, 1), (1, 2**40))]
    ),
    "twins": lambda folder: write(
        folder,
        [
            one.model_copy(update={"gpu": gpu, "samples_us": [-0.3, *one.samples_us[1:]]})
            for gpu in ("NVIDIA H200", JOKE)
            for one in twins(rounds=2, times_us=[5.0], kernels=["torch"], timers=["chain"])
        ],
    ),
}
# A page holds what the other commands make of each, and report/test_report.py fills its texts: here
# it is asked for what a gap does
OF_A_PAGE = ("failures", "no_interval", "odd_names")


def holding(name: str, data: bytes) -> Make:
    return lambda folder: write(folder, few()) and (folder / name).write_bytes(data)


def instead(name: str, make: Make) -> Make:
    return lambda folder: write(folder, few()) and make(folder / name)


SOUND = packed(few())
STORED = packed(few(), level=0)  # a changed byte shows in the checksum at its end alone
REFUSED: Mapping[str, Make] = {
    "empty": holding("rows.jsonl", b""),
    "another_field": lambda folder: edited(folder, colour="\x1b[31m"),
    "nested": holding("rows.jsonl", b"[" * 200_000 + b"\n"),
    "nested_declarations": holding("variants.json", b"[" * 200_000),
    "a_folder": lambda folder: (folder / "rows.jsonl").mkdir(),
    "a_long_line": lambda folder: os.truncate(write(folder, few()) / "rows.jsonl", 10**9),
    "a_pipe": instead("rows.jsonl.gz", os.mkfifo),
    "a_device_beside": instead("variants.json", lambda path: path.symlink_to("/dev/zero")),
    "truncated": holding("rows.jsonl.gz", SOUND[:-20]),
    "no_gzip": holding("rows.jsonl.gz", b"PK\x03\x04" * 100),
    "another_number": holding("rows.jsonl.gz", STORED.replace(b'"card":0', b'"card":1')),
    "a_bomb_of_lines": holding("rows.jsonl.gz", gzip.compress(b"\n" * (16 * LINE_BYTES), 9)),
}


def made(folder: Path, make: Make) -> Path:
    folder.mkdir(parents=True)
    make(folder)
    return folder


def words(command: str, folder: Path, out: Path) -> list[str]:
    rows = [str(folder), str(folder)] if command == "compare" else ["--rows", str(folder)]
    return [command, *rows, "--out", str(out)]


def check(path: Path) -> None:
    """A file that was made is sound, and what rows hold is text in it."""
    if path.suffix in (".png", ".gz", ".jsonl", ".json"):
        return
    text = path.read_text(encoding="utf-8")
    assert not set(text) & set("\x1b\x07\u202e\u2028"), path
    if path.suffix == ".svg":
        ElementTree.fromstring(text)
    elif path.suffix == ".csv":
        cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
        assert not [cell for cell in cells if re.match(r"\s*[=@]|\s*[-+][^\d.–]", cell)], path
        assert not {"nan", "inf", "NaN", "NaT", "None"} & {*cells}, path
    elif path.suffix == ".md":
        assert "<" not in text.replace("&lt;", ""), path
        for ours in ("\\](", *(f"]({source.url})" for source in sources().values())):
            text = text.replace(ours, "")
        assert not re.search(r"\]\((?!\.|[\w/-]+\.)", text), path
        assert not re.search(r"\b(nan|inf|NaN|NaT)\b", text), path


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_makes_what_it_can_of_rows_that_the_schema_takes(
    command: str, tmp_path: Path, capsys: Captured
) -> None:
    for name, make in TAKEN.items():
        if command != "report" or name in OF_A_PAGE:
            made(tmp_path / "rows" / name, make)
    status = main(words(command, tmp_path / "rows", tmp_path / "out"))
    assert status == (1 if command == "validate" else 0)
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        hidden = [letter for letter in text if not letter.isprintable() and letter != "\n"]
        assert not hidden, f"letters that a terminal obeys: {hidden}"
    for path in (path for path in (tmp_path / "out").rglob("*") if path.is_file()):
        check(path)


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_holds_something_else_is_refused_in_one_line_that_names_it(
    case: str, tmp_path: Path, capsys: Captured
) -> None:
    folder = made(tmp_path / "rows", REFUSED[case])
    assert main(words("tables", folder, tmp_path / "out")) == 2
    error = capsys.readouterr().err
    status = main(words("validate", folder, tmp_path / "out"))
    assert re.fullmatch(rf"error: .*{re.escape(str(folder))}.*\n", error), error
    assert len(error) < 400
    assert status == (2 if case in ("empty", "a_folder") else 1)
    assert not (tmp_path / "out").exists()


def test_an_interrupted_command_says_so_in_one_line(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "rows", TAKEN["failures"])
    monkeypatch.setattr(figures, "pictures", Mock(side_effect=KeyboardInterrupt))
    assert main(words("figures", folder, tmp_path / "out")) == 130
    assert capsys.readouterr().err == "interrupted\n"
