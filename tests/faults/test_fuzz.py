"""Random command lines and damaged rows: an answer or one line, never a traceback, never a hang.

FAULT_EXAMPLES=1000 make test-faults looks longer than the default. A failing example is printed
whole; it is not made smaller, for every attempt costs seconds.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.figures import page
from analysis.load import load
from experiments.data.files import RowsError
from tests.analysis.compare.twins import probes, twins
from tests.analysis.odd import declare, few
from tests.analysis.plausible import write
from tests.analysis.records import counters, record_files
from tests.conftest import ROOT
from tests.faults.corruption import DAMAGE, Damage
from tests.faults.overrides import COMMAND_LINES

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
    write(folder, rows + twins(rounds=2, times_us=[5.0, 60.0], kernels=["torch"], samples=7))
    record_files(folder, counters=[counters("naive", 4096, 4096, 5, 3)])
    probes(folder, sizes=[1])
    declare(folder)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where no record lies in outputs
    monkeypatch.setattr(page, "DPI", 20)


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


@random_examples(max_examples=EXAMPLES)
@given(asked=COMMAND_LINES)
def test_any_command_line_is_a_plan_or_one_line(asked: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "a" / "b" / "c" / "d"  # what climbs out stays in this test's own
        folder.mkdir(parents=True)
        fixed = ["out=out", "tracker=none", "gpu=cpu", "grid=point", "dry_run=true"]
        given_keys = {argument.partition("=")[0].lstrip("+~") for argument in asked}
        options = [o for o in fixed if o.partition("=")[0] not in given_keys]
        command = [sys.executable, "-m", "experiments.run", *options, *asked]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
            text=True, errors="replace", timeout=2 * LIMIT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert "unforeseen" not in done.stderr, done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode in (0, 1, 2), done.stderr
        assert len(errors) == (1 if done.returncode == 2 else 0), done.stderr
        assert not list(Path(place).rglob("rows.jsonl")), "a dry run measured"
