"""From a line of a table's CSV back to the rows behind it: ``trace FILE.csv LINE``.

Lines are counted from 1, the line of column names left out.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from analysis.format import LONGEST_NAME, number_text, visible
from analysis.load import REFERENCE
from experiments.data.files import RowsError, read_lines
from experiments.data.rows import parse_row, rows_files


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="a table that tables wrote")
    parser.add_argument("line", type=int, metavar="LINE", help="of the table, from 1")
    made_of = "the rows that it was made of (default: outputs/reference)"
    parser.add_argument("--rows", type=Path, default=REFERENCE, metavar="DIR", help=made_of)


def run(options: argparse.Namespace) -> int:
    """Prints the rows behind a line: their file and line, outcome, time, recording and commit."""
    keys, recordings = behind(options.file, options.line)
    found = 0
    for path in rows_files(options.rows):
        for number, line, _ in read_lines(path):
            if not any(key in line for key in keys):
                continue
            try:
                row = parse_row(line)
            except ValueError as error:
                raise RowsError(f"{path}:{number}: {error}") from None
            if row.key.encode() in keys and visible(row.recording, LONGEST_NAME) in recordings:
                found += 1
                time = "" if row.time_us is None else f", {number_text(row.time_us)} µs"
                commit = str(row.environment.get("commit"))[:12]
                text = (
                    f"{path}:{number}  {row.kernel} {row.rows}×{row.cols} {row.dtype}: {row.status}"
                    f"{time} by {row.timer}, round {row.round}, attempt {row.attempt}; "
                    f"{row.recording}, commit {commit}"
                )
                print(visible(text))
    if not found:
        raise RowsError(f"{options.rows}: none of the rows behind that line is here; name --rows")
    return 0


def behind(file: Path, line: int) -> tuple[set[bytes], str]:
    """The keys and the recordings of the rows behind a line.

    Raises:
        RowsError: there is no such file or line, or the table does not name its rows.
    """
    name = visible(str(file))
    if not file.is_file():
        raise RowsError(f"{name}: no such file")
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            lines = list(csv.DictReader(opened))
    except (UnicodeDecodeError, csv.Error) as error:
        raise RowsError(f"{name}: no CSV of ours: {error}") from None
    if not 1 <= line <= len(lines):
        raise RowsError(f"{name}: no line {line}; it has {len(lines)}")
    keys, recordings = (lines[line - 1].get(one) or "" for one in ("keys", "recordings"))
    if not keys:
        raise RowsError(f"{name}: it does not name the rows behind its lines")
    return {key.encode() for key in keys.split(" ")}, recordings
