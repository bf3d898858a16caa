"""A copy is never stale, never misread, and nobody is in another's way."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.load import load
from experiments.data.rows import RowsError
from tests.analysis.columns.kept import as_json, copies, same, settle, sweep, times
from tests.analysis.plausible import paper, row
from tests.conftest import ROOT

READ = """
import sys
if len(sys.argv) > 2:
    sys.modules["pyarrow"] = None
from pathlib import Path
from analysis import columns
from analysis.load import load
columns.LARGE_BYTES = 0
print(len(load(Path(sys.argv[1]))))
"""


def reader(folder: Path, *without: str) -> subprocess.Popen[str]:
    """A process that loads a folder by its copies."""
    command = [sys.executable, "-c", READ, str(folder), *without]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


def night(folder: Path, widths: list[int]) -> Path:
    """A sweep named after its folder, with samples."""
    told = {"sweep": folder.name, "samples_us": [7.25, 7.5]}
    return sweep(folder, [one.model_copy(update=told) for one in paper(widths)])


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        night(tmp_path / name, [256, 1024])
    load(tmp_path)
    return tmp_path


def test_a_night_that_is_added_leaves_the_copies_of_the_others_alone(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = times(nights)
    night(nights / "c", [256])
    same(load(nights), as_json(nights, monkeypatch))
    assert times(nights)[: len(before)] == before
    assert len(times(nights)) == len(before) + 3


@pytest.mark.parametrize("change", ["appended", "in place", "removed", "job added"])
def test_a_change_of_rows_shows_at_once(
    nights: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = nights / "b" / "job" / "rows.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    match change:
        case "appended":
            lines.append(row("online", 4096, sweep="b").model_dump_json() + "\n")
        case "in place":
            lines[0] = lines[0].replace('"card":0', '"card":5')
        case "removed":
            lines.pop()
        case "job added":
            sweep(nights / "b", [row("online", 512, sweep="b")], "more")
    old = file.stat()
    file.write_text("".join(lines))
    if change == "in place":  # of the same size, by someone who puts the time back as well
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    told = as_json(nights, monkeypatch)
    same(load(nights), told)
    settle(file)
    same(load(nights), told)
    assert len(copies(nights)) == 6


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_copy_is_made_again(
    nights: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    path = dice.choice(copies(nights))
    data = bytearray(path.read_bytes())
    for _ in range(dice.randint(1, 3)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(dice.choice([data, data[: dice.randrange(len(data))], b""]))
    told = as_json(nights, monkeypatch)
    with contextlib.suppress(RowsError):  # of samples, which are looked at last
        same(load(nights), told)
    for _ in range(2):
        same(load(nights), told)


@pytest.mark.parametrize("change", ["damaged", "gone"])
def test_samples_that_changed_since_are_refused_in_one_line_and_made_again(
    nights: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = load(nights)
    assert [len(samples) for samples in frame["samples_us"]] == [2] * len(frame)
    for path in copies(nights):
        if b"samples_us" in path.read_bytes() and b"kernel" not in path.read_bytes():
            path.unlink() if change == "gone" else path.write_bytes(b"PAR1")
    with pytest.raises(RowsError, match=r"^[^\n]*run it again$"):
        list(frame["samples_us"][0])
    told = as_json(nights, monkeypatch)
    with contextlib.suppress(RowsError):
        same(load(nights), told)
    same(load(nights), told)


def test_readers_that_start_together_all_read_right(nights: Path) -> None:
    shutil.rmtree(nights / "a" / ".rows")
    for one in [reader(nights) for _ in range(3)]:
        out, err = one.communicate(timeout=120)
        assert (one.returncode, out.strip()) == (0, str(len(load(nights)))), err
    assert len(copies(nights)) == 6


def test_a_folder_that_takes_no_copy_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(tmp_path, paper([256]))
    (tmp_path / ".rows").write_text("")  # where root may write everywhere
    same(load(tmp_path), as_json(tmp_path, monkeypatch))
    assert copies(tmp_path) == []


def test_rows_that_were_just_written_are_not_kept_yet(tmp_path: Path) -> None:
    sweep(tmp_path, paper([256])).touch()
    assert len(load(tmp_path)) == len(paper([256]))
    assert copies(tmp_path) == []


def test_without_pyarrow_rows_are_read_and_one_line_says_so(nights: Path) -> None:
    out, err = (one := reader(nights, "without")).communicate(timeout=120)
    assert (one.returncode, out.strip(), err.count("\n")) == (0, str(len(load(nights))), 1)
    assert err.startswith("no pyarrow: ")
