import re
import subprocess
import sys
from pathlib import Path

from experiments.cost import spending
from experiments.data.rows import Row
from experiments.sweep.record import append_row
from experiments.sweep.summary import account
from tests.conftest import ROOT
from tests.experiments.test_rows import row


def timed(time_us: float, **changes: object) -> Row:
    parts = {"time_us": time_us, "sampling_s": 0.06, "compile_s": 0.03, "wall_s": 0.1}
    return row(**parts | changes)


def test_the_account_is_the_rows_own() -> None:
    rows = [timed(10, key=str(i)) for i in range(10)] + [row(key="x", status="unsupported")]
    text = spending(rows, [{"points": 6, "elapsed_s": 1.0}, {"points": 5, "elapsed_s": 0.3}])
    assert "11, 10 of them timed, in 2 run(s)" in text
    assert "1.3 s: sampling 0.6 s, compiling 0.3 s, the rest 0.4 s" in text
    assert "69% is sampling or compiling" in text
    assert "10.0 ms a point (median)" in text
    assert "unknown: a run was killed" in spending(rows, [{"points": 5, "elapsed_s": 1.0}])


def test_seconds_of_cards_side_by_side_are_not_added_up() -> None:
    rows = [timed(10, key=str(i), card=i % 2, sampling_s=0.5 + i % 2, compile_s=0.2)
            for i in range(10)]  # fmt: skip
    rows.append(rows[-1].model_copy(update={"attempt": 2}))  # measured once more
    text = spending(rows, [{"points": 11, "elapsed_s": 12.0}])
    assert "10, 10 of them timed" in text
    parts = [[float(s) for s in re.findall(r"([-\d.]+) s", line)] for line in text.splitlines()
             if line.startswith("card ")]  # fmt: skip
    assert [round(sum(seconds), 1) for seconds in parts] == [12.0, 12.0]
    assert [seconds[0] for seconds in parts] == [2.5, 9.0]
    assert "57% of the cards' time is" in text
    last = account(rows, 12.0)
    assert last.startswith("11 points in 12.0 s on 2 cards\n  card 0: sampling 2.5 s, ")
    assert all(line.partition(": ")[2] in text for line in last.splitlines()[1:])


def test_a_folder_without_rows_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments.cost", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path} holds no rows\n"
    append_row(tmp_path / "rows.jsonl", timed(3))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "1, 1 of them timed" in done.stdout
