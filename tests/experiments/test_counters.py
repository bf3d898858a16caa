"""From the command line to profiled.jsonl and counters.jsonl, with a stand-in for ncu."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments import counters
from experiments.counters import METRICS, find_ncu
from experiments.data.errors import SweepFailed, command
from experiments.data.files import read_models
from experiments.data.records import Counters, write_records
from experiments.data.rows import Row, read_rows
from experiments.parent.cards import WorkerPool
from experiments.parent.client import Worker
from experiments.parent.jobs import compose
from experiments.profile import LIST, profile
from experiments.worker import measure
from experiments.worker.machine import choose_device
from experiments.worker.trial import Equipment, Flush
from tests.analysis.plausible import row
from tests.conftest import Command, Composed, Result, shape
from tests.doubles.kernels import Good

TIME, READ, WRITE, _ = METRICS.values()
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
run_process = subprocess.run


def table(*launches: tuple[str, Mapping[str, str]]) -> str:
    """Launches as ``(range, values)`` in the form of ``--csv --page raw``, remarks included."""
    lines = [["ID", RANGES, "Kernel Name", *METRICS.values()], ["", "", "", "ns", *["byte"] * 3]]
    for name, values in launches:
        cell = f'4711  ""<default domain>:{name}:none:none:none:none:none:none"" ' if name else ""
        cells = [values.get(metric, "n/a") for metric in METRICS.values()]
        lines.append(["0", cell, "void kernel<float, 4>(int, float)", *cells])
    text = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    return f"==PROF== Connected to process 4711 (/usr/bin/python3.12)\n{text}"


def point(number: int, kernel: str, status: str = "ok") -> Row:
    about = {"source": "abc", "range": f"point {number} {kernel} 4x8 float32"}
    return row(kernel, 8, rows=4, status=status, model_reads=64, model_writes=32, environment=about)


def range_of(one: Row) -> str:
    return str(one.environment["range"])


def recorded(tmp_path: Path) -> dict[str, Counters]:
    """The records by kernel."""
    return {one.kernel: one for one in read_models(tmp_path / "counters.jsonl", Counters)}


@pytest.fixture
def collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """The command into the test's folder, by an ncu that prints ``text`` and lists ``points``.

    Without points it runs the command that it is given. ``ended`` is that command's exit status.
    """

    def run(*words: str, text: str = "", points: list[Row] | None = None, ended: int = 0) -> Result:
        def ncu(line: list[Any], **how: Any) -> Any:
            if "--version" in line:
                return SimpleNamespace(stdout="NVIDIA (R) Nsight Compute\nVersion 2025.3.1.0 (b)")
            end = line.index("--log-file") + 2
            assert line[end + 4 : -1] == [*words]
            line[end - 1].write_text(text)
            if points is None:
                return run_process(line[end:], **how)
            write_records(tmp_path / LIST, points)
            return SimpleNamespace(returncode=ended)

        if text:
            monkeypatch.setattr(counters, "find_ncu", lambda: "ncu")
            monkeypatch.setattr(subprocess, "run", ncu)
        status = command(lambda: counters.collect_counters([f"out={tmp_path}", *words]))
        return Result(status, *capfd.readouterr(), tmp_path)

    return run


def test_every_call_becomes_a_record_and_a_failure_or_a_complaint_costs_no_other(
    tmp_path: Path, collect: Command
) -> None:
    naive, fused, copy = point(0, "naive"), point(1, "fused_row"), point(2, "copy")
    wide, bad = point(3, "online", "unsupported"), point(4, "naive_script", "out_of_memory")
    values = dict.fromkeys(METRICS.values(), "1.00")
    text = table(
        (range_of(naive), values | {READ: "160.00", TIME: "2,000 (0: 1)"}),  # or with its instances
        (range_of(naive), values | {READ: "96.00", TIME: "1,000.00"}),
        (range_of(fused), values | {READ: "128.00", WRITE: "64.00"}),
        ("", values),
    )
    complaint = 'Failed to profile "k" in process 1\n'
    points = [naive, fused, copy, wide, bad]
    done = collect(text=f"{text}==ERROR== {complaint}", points=points)
    assert (done.status, done.stderr) == (1, f"ncu: {complaint}")
    first, second = recorded(tmp_path).values()
    assert (first.kernel, first.launches, first.dram_read_bytes) == ("naive", 2, 256)
    assert first.kernel_us == pytest.approx(3.0)
    assert (second.dram_read_bytes, second.dram_write_bytes, second.source) == (128, 64, "abc")
    assert second.environment["ncu"] == "2025.3.1.0"
    assert "point 2 copy 4x8 float32: ncu saw no kernel" in done.stdout
    assert "5 points: 2 recorded, 1 without kernels, 1 unsupported, 1 failed -> " in done.stdout
    # of the same point the new record, of others the old
    text = table((range_of(fused), values | {READ: "7"}))
    assert collect(text=text, points=[fused]).status == 0
    assert collect(text=text, points=[fused], ended=2).status == 2  # before its last point
    sizes = {name: one.dram_read_bytes for name, one in recorded(tmp_path).items()}
    assert sizes == {"naive": 256, "fused_row": 7}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ID,Kernel Name\n,\n", "has no Push/Pop_Range column"),
        ("==ERROR== ERR_NVGPUCTRPERM - no", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Cuda driver is old.", "error: ncu: Cuda driver is old."),
        ("==WARNING== No kernels were profiled.", "profiling needs a CUDA device"),
        ("", "install NVIDIA Nsight Compute"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_counters_that_cannot_be_had_are_one_line_saying_what_to_do(
    text: str, said: str, collect: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    done = collect("kernel=torch", *shape(2, 2), text=text, points=None if "WARN" in text else [])
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(find_ncu() is None, reason="needs ncu")
def test_on_a_card_fused_row_moves_at_dram_what_its_model_says(
    tmp_path: Path, collect: Command
) -> None:
    done = collect("kernel=fused_row,naive", *shape(4096, 16384), "dtype=float32")
    assert done.status == 0, done.stderr
    records = recorded(tmp_path)
    assert records["fused_row"].launches == 1
    assert records["naive"].launches >= 5
    for one in records.values():
        assert one.dram_read_bytes == pytest.approx(4 * one.model_reads, rel=0.01)


def test_each_point_is_called_once_in_a_range_of_its_name_with_l2_flushed_and_listed(
    tmp_path: Path, composed: Composed, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The worker says that it is an H200; what it is to profile is called in this process."""
    seen: list[str] = []

    @contextmanager
    def noted(_: str, name: str) -> Iterator[None]:
        seen.append(name)
        yield
        seen.append("end")

    worker, equipment = Worker("cpu", 0, tmp_path / "worker.log"), Equipment(choose_device("cpu"))
    start, ask = worker.start, worker.request

    def disguised() -> dict[str, Any]:
        handshake = start()
        handshake["device"] |= {"kind": "cuda", "name": "NVIDIA H200"}
        return handshake

    def request(message: Mapping[str, Any], **limits_s: float) -> Any:
        if message["do"] == "measure":
            return measure.measure(message["point"], equipment, lambda stage: None)
        return ask(message, **limits_s)

    for place, name, part in (
        (worker, "start", disguised), (worker, "request", request),
        (WorkerPool, "worker", lambda *_: worker), (WorkerPool, "close", lambda _: None),
        (Good, "__call__", lambda _, x: seen.append("call") or x),
        (Flush, "__call__", lambda _: seen.append("flush")),
        (torch.cuda.nvtx, "range", noted), (torch.cuda.profiler, "profile", nullcontext),
        (torch.cuda, "synchronize", lambda: None),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, part)
    words = [*shape(4, [8, 2**21]), "dtype=float32", "rounds=3", f"out={tmp_path}"]
    kernels = ("good", "raise", "fused_row")
    profile([compose([f"kernel={kernel}", *words, "dry_run=true"]) for kernel in kernels])
    planned = capsys.readouterr().out.splitlines()
    assert (seen, (tmp_path / LIST).exists()) == ([], False)
    with pytest.raises(SweepFailed):  # one failed
        profile([compose([f"kernel={kernel}", *words]) for kernel in kernels])
    worker.stop()
    listed = [*read_rows(tmp_path / LIST)]
    assert ([*map(range_of, listed)], len(planned)) == (planned, 3 * 2)  # one round
    names = {range_of(one).split(maxsplit=2)[2]: one for one in listed}
    assert {name: one.status for name, one in names.items()} == {
        f"{kernel} 4x{cols} float32": "launch_error" if kernel == "raise" else "ok"
        for kernel in kernels for cols in (8, 2**21)
    } | {f"fused_row 4x{2**21} float32": "unsupported"}  # fmt: skip
    for name in (one for one in planned if " good " in one):
        place = seen.index(name)
        assert seen[place - 2 : place + 3] == ["call", "flush", name, "call", "end"]
    assert "first line second line" in str(names["raise 4x8 float32"].reason)
    one = names["fused_row 4x8 float32"]
    assert (one.gpu, one.model_reads, one.model_writes) == ("NVIDIA H200", 32, 32)
