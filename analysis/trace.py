"""``trace FILE.csv LINE`` prints the rows behind a line of a table's CSV.

Lines are counted from 1, without the line of column names, or called as their first column says.
"""

import argparse
from pathlib import Path

import pandas as pd

from analysis.format import LONGEST_NAME, number_text, visible
from analysis.load import REFERENCE
from experiments.data.files import RowsError
from experiments.data.rows import read_rows, rows_files


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``trace``."""
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="a table that tables wrote")
    parser.add_argument("line", metavar="LINE", help="a line, from 1, or its name, such as B3")
    made_of = "the rows that it was made of (default: outputs/reference)"
    parser.add_argument("--rows", type=Path, default=REFERENCE, metavar="DIR", help=made_of)


def run(options: argparse.Namespace) -> int:
    """Prints the rows behind a line: their file and line, outcome, time, recording and commit.

    Raises:
        RowsError: there is no such file, line or row, or the table does not name its rows.
    """
    name, line = visible(str(options.file)), visible(options.line)
    if not options.file.is_file():
        raise RowsError(f"{name}: no such file")
    try:
        table = pd.read_csv(options.file, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise RowsError(f"{name}: no CSV of ours: {visible(str(error))}") from None
    names = (str(i) if line.isdigit() else one[0] for i, one in enumerate(table.to_numpy(), 1))
    own = [line == one for one in names]
    if not any(own):
        raise RowsError(f"{name}: no line {line}; it has {len(table)}")
    known, recordings = (" ".join(table[own].get(k, ())).split() for k in ("keys", "recordings"))
    if not known:
        raise RowsError(f"{name}: line {line} names no rows; counts are in **/count*.jsonl")
    lines = [
        f"{path}:{number}  {row.kernel} {row.rows}×{row.cols} {row.dtype}: {row.status}, "
        f"{number_text(row.time_us)} µs by {row.timer}, round {row.round}, attempt {row.attempt}; "
        f"{row.recording}, commit {str(row.environment.get('commit'))[:12]}"
        for path in rows_files(options.rows)
        for number, row in enumerate(read_rows(path), start=1)
        if row.key in known and visible(row.recording, LONGEST_NAME) in recordings
    ]
    if not lines:
        raise RowsError(f"{options.rows}: none of the rows behind that line is here; name --rows")
    print(*map(visible, lines), sep="\n")
    return 0
