"""Random command lines and damaged rows: an answer or one line, never a traceback, never a hang.

FAULT_EXAMPLES=1000 make test-faults looks longer than the default. A failing example is printed
whole; it is not made smaller, for every attempt costs seconds.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import re
import signal
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from analysis.__main__ import main
from analysis.figures import style
from analysis.load import load
from experiments.data.files import RowsError, parse_json, validated
from experiments.data.records import KINDS, PROBES, write_records
from experiments.data.rows import Row
from tests.analysis.noisy import probe, twins
from tests.analysis.plausible import declare, few, write
from tests.analysis.records import count, counters, record_files, trace
from tests.faults.corruption import DAMAGE, Damage
from tests.faults.mutations import mutated

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]  # an example has a limit of its own
EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "40"))
LIMIT_S = 60
FILES = ("rows.jsonl", "rows.jsonl", "rows.jsonl", "counters.jsonl", "variants.json", "probe.jsonl")
COMMANDS = ("figures", "tables", "claims", "roofline", "selftest", "compare")
random_examples = functools.partial(
    settings,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Ends what hangs, and says so."""

    def late(*_: object) -> None:
        raise AssertionError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def analyse(*arguments: str) -> tuple[int, str]:
    """Status and standard error of ``python -m analysis``, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), within(LIMIT_S):
        status = main(arguments)
    return status, err.getvalue()


def sound(folder: Path) -> None:
    """Rows of every kind, with records and declarations beside them."""
    rows = few() + few(dtype="float16", timer="graph", cache="warm")
    rows.append(few(gpu="A card without a roof")[0])
    write(folder, rows + twins(rounds=2, times_us=[5.0, 60.0], kernels=["torch"], count=7))
    record_files(
        folder,
        counts=[count("naive"), count("online")],
        traces=[trace("naive"), trace("online")],
        counters=[counters("naive", 4096, 4096, 5, 3)],
    )
    write_records(folder / PROBES, [probe("cold", 8.0), probe("warm", 5.0)])
    declare(folder)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where no record lies in outputs
    monkeypatch.setattr(style, "DPI", 20)


@random_examples(max_examples=EXAMPLES)
@given(command=st.sampled_from(COMMANDS), name=st.sampled_from(FILES), damages=DAMAGE)
def test_damaged_files_are_answered_or_refused_in_one_line(
    command: str, name: str, damages: Sequence[Damage]
) -> None:
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        folder = Path(place) / "rows"
        folder.mkdir()
        sound(folder)
        data = (folder / name).read_bytes()
        for damage in damages:
            data = damage(data)
        (folder / name).write_bytes(data)
        rows = [str(folder), str(folder)] if command == "compare" else ["--rows", str(folder)]
        status, error = analyse(command, *rows, "--out", f"{place}/out")
        assert status in (0, 2) or (status, command) == (1, "compare"), error
        assert "Traceback" not in error
        if status == 2:
            assert error.startswith("error: "), error
            assert error.count("\n") == 1, error
            assert error[:-1].isprintable(), error


@random_examples(max_examples=20 * EXAMPLES)
@given(damages=DAMAGE)
def test_damaged_rows_are_read_or_refused_with_file_and_line(damages: Sequence[Damage]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = write(Path(place), few()) / "rows.jsonl"
        data = path.read_bytes()
        for damage in damages:
            data = damage(data)
        path.write_bytes(data)
        with within(LIMIT_S):
            try:
                frame = load(Path(place))
            except RowsError as error:
                message = str(error)
            else:
                points = frame[["sweep", "key", "card", "round"]].astype(str)
                assert not points.duplicated().any(), "a point is counted twice"
                return
        assert place in message
        assert "\n" not in message


def taken(dice: random.Random, line: str, kind: type[BaseModel], attempts: int = 20) -> str:
    """A line with a value changed to one that the schema takes, or as it was."""
    for _ in range(attempts):
        changed = json.dumps(mutated(dice, json.loads(line)))
        with contextlib.suppress(ValueError):
            validated(kind, parse_json(changed))
            return changed
    return line


@pytest.mark.parametrize("seed", range(max(EXAMPLES // 40, 1)))
def test_what_the_schema_takes_every_command_reads(seed: int, tmp_path: Path) -> None:
    dice, folder = random.Random(seed), tmp_path / "rows"
    folder.mkdir()
    sound(folder)
    lines = (folder / "rows.jsonl").read_text().splitlines()
    for i in range(60):  # a sweep for each: what is changed has its neighbours
        ours = [r.model_copy(update={"sweep": f"sweep {i}"}).model_dump_json() for r in few()]
        place = dice.randrange(len(ours))
        ours[place] = taken(dice, ours[place], Row)
        lines += ours
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for name, kind in KINDS.items():
        known = (folder / name).read_text().splitlines()
        known += [taken(dice, line, kind) for line in known]
        (folder / name).write_text("".join(f"{line}\n" for line in known))
    for command in (*COMMANDS, "report"):
        rows = [str(folder), str(folder)] if command == "compare" else ["--rows", str(folder)]
        status, error = analyse(command, *rows, "--out", str(tmp_path / command))
        assert (status, "Traceback" in error) == (0, False), error
    tables = [path for path in tmp_path.rglob("*") if path.suffix in (".md", ".csv", ".tex")]
    assert len(tables) > 20
    for path in tables:
        if path.parent.name == "claims":  # a claim's lack may name an open range: (65536, None)
            continue
        assert not re.search(r"(?<!-)\b(nan|inf|NaN|NaT|None)\b", path.read_text()), path
