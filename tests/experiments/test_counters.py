"""From the command line to profiled.jsonl and counters.jsonl, with a stand-in for ncu on PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import counters
from experiments.counters import METRICS, find_ncu
from experiments.data.errors import SweepFailed, command
from experiments.data.records import Counters, read_records, write_records
from experiments.data.rows import Row, read_rows
from experiments.profile import LIST, profile
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from experiments.sweep.jobs import compose
from experiments.worker import measure
from experiments.worker.place import take_place
from experiments.worker.trial import Bench, Flush
from tests.conftest import Composed, Result, shape
from tests.doubles.kernels import Good
from tests.experiments.test_data import row

TIME, READ, WRITE, _ = METRICS.values()
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


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
    name = f"point {number} {kernel} 4x8 float32"
    return row(
        kernel=kernel, status=status, gpu="NVIDIA H200", model_reads=64, model_writes=32,
        environment={"torch": "2.11", "source": "abc", "range": name},
    )  # fmt: skip


def range_of(one: Row) -> str:
    return str(one.environment["range"])


def executable(folder: Path, body: str) -> None:
    """An ncu that runs this; ``log`` and ``command`` are those it is given."""
    path = folder / "ncu"
    path.write_text(
        # the shell reads two lines, for no path with a space may stand after #!
        f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n"
        "import sys, subprocess\n"
        "from pathlib import Path\n"
        "if '--version' in sys.argv:\n"
        "    sys.exit(print('NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0 (build 1)'))\n"
        "end = sys.argv.index('--log-file') + 2\n"
        "log, command = Path(sys.argv[end - 1]), sys.argv[end:]\n" + body
    )
    path.chmod(0o755)


def recorded(tmp_path: Path) -> dict[str, Counters]:
    """The records by kernel."""
    path = tmp_path / "out" / "counters.jsonl"
    return {record.kernel: record for record in read_records(path, Counters)}


Collect = Callable[..., Result]


@pytest.fixture
def collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Collect:
    """The command into ``out`` below the test's folder, with the folder's ncu on PATH."""

    def run(*arguments: str, path: str = f"{tmp_path}:{os.environ['PATH']}") -> Result:
        monkeypatch.setenv("PATH", path)
        status = command(lambda: counters.collect([f"out={tmp_path / 'out'}", *arguments]))
        return Result(status, *capfd.readouterr(), tmp_path / "out")

    return run


def test_every_call_becomes_a_record_and_a_failure_or_a_complaint_costs_no_other(
    tmp_path: Path, collect: Collect
) -> None:
    def collected(points: list[Row], text: str) -> Result:
        """By an ncu that leaves this list of points and prints this table."""
        write_records(tmp_path / "points", points)
        listed = f"Path({str(tmp_path / 'points')!r}).read_bytes()"
        body = f"(log.parent / {LIST!r}).write_bytes({listed})\nlog.write_text({text!r})\n"
        executable(tmp_path, body)
        return collect()

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
    done = collected([naive, fused, copy, wide, bad], f"{text}==ERROR== {complaint}")
    assert (done.status, done.stderr) == (1, f"ncu: {complaint}")
    first, second = recorded(tmp_path).values()
    assert (first.kernel, first.launches, first.dram_read_bytes) == ("naive", 2, 256)
    assert first.kernel_us == pytest.approx(3.0)
    assert (second.dram_read_bytes, second.dram_write_bytes, second.source) == (128, 64, "abc")
    assert second.environment["ncu"] == "2025.3.1.0"
    assert "point 2 copy 4x8 float32: ncu saw no kernel" in done.stdout
    counted = "5 points: 2 recorded, 1 without kernels, 1 unsupported, 1 failed -> "
    assert counted in done.stdout
    # of the same point the new record, of others the old
    assert collected([fused], table((range_of(fused), values | {READ: "7"}))).status == 0
    sizes = {name: one.dram_read_bytes for name, one in recorded(tmp_path).items()}
    assert sizes == {"naive": 256, "fused_row": 7}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("log.write_text('ID,Kernel Name\\n,\\n')", "has no Push/Pop_Range column"),
        ("log.write_text('==ERROR== ERR_NVGPUCTRPERM - no permission')\nsys.exit(1)",
         "NVreg_RestrictProfilingToAdminUsers=0"),
        ("log.write_text('==ERROR== Cuda driver is not compatible.')\nsys.exit(1)",
         "error: ncu: Cuda driver is not compatible."),
        ("log.write_text('==WARNING== No kernels were profiled.')\n"
         "sys.exit(subprocess.call(command))", "profiling needs a CUDA device"),
        (None, "install NVIDIA Nsight Compute"),
    ],
)  # fmt: skip
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_counters_that_cannot_be_had_are_one_line_saying_what_to_do(
    body: str | None, said: str, tmp_path: Path, collect: Collect
) -> None:
    if body is not None:
        executable(tmp_path, body)
    words = ["kernel=torch", *shape(2, 2)]
    done = collect(*words) if body else collect(*words, path="")
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(find_ncu() is None, reason="needs ncu")
def test_on_a_card_fused_row_moves_at_dram_what_its_model_says(
    tmp_path: Path, collect: Collect
) -> None:
    done = collect("kernel=fused_row,naive", *shape(4096, 16384), "dtype=float32")
    assert done.status == 0, done.stderr
    records = recorded(tmp_path)
    assert records["fused_row"].launches == 1
    assert records["naive"].launches >= 5
    for one in records.values():
        assert one.dram_read_bytes == pytest.approx(4 * one.model_reads, rel=0.01)


def test_each_point_is_called_once_in_a_range_of_its_name_and_listed(
    tmp_path: Path, composed: Composed, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The worker is real and on a CPU, but says that it is an H200, and pretends to profile."""
    ranges: list[str] = []
    worker = Worker("cpu", 0, tmp_path / "worker.log")
    start, ask = worker.start, worker.request

    def disguised() -> dict[str, Any]:
        handshake = start()
        handshake["device"] |= {"kind": "cuda", "name": "NVIDIA H200"}
        return handshake

    def request(message: Mapping[str, Any], **limits_s: float) -> Any:
        if message["do"] != "profile":
            return ask(message, **limits_s)
        ranges.append(message["point"]["range"])
        failed = "Naive" in message["point"]["kernel"]["_target_"]
        return {"status": "out_of_memory" if failed else "ok", "reason": "too much" * failed}

    monkeypatch.setattr(worker, "start", disguised)
    monkeypatch.setattr(worker, "request", request)
    monkeypatch.setattr(WorkerPool, "worker", lambda *_: worker)
    monkeypatch.setattr(WorkerPool, "close", lambda _: None)
    words = [*shape(4, [8, 2**21]), "dtype=float32", "rounds=3", f"out={tmp_path}"]
    kernels = ("torch", "naive", "fused_row")
    profile([compose([f"kernel={kernel}", *words, "dry_run=true"]) for kernel in kernels])
    planned = capsys.readouterr().out.splitlines()
    assert (ranges, (tmp_path / LIST).exists()) == ([], False)
    with pytest.raises(SweepFailed):  # naive failed
        profile([compose([f"kernel={kernel}", *words]) for kernel in kernels])
    worker.stop()
    listed = [*read_rows(tmp_path / LIST)]
    assert ([*map(range_of, listed)], len(planned)) == (planned, 3 * 2)  # one round
    names = {range_of(one).split(maxsplit=2)[2]: one for one in listed}
    assert {name: one.status for name, one in names.items()} == {
        f"{kernel} 4x{cols} float32": "out_of_memory" if kernel == "naive" else "ok"
        for kernel in kernels for cols in (8, 2**21)
    } | {f"fused_row 4x{2**21} float32": "unsupported"}  # fmt: skip
    assert sorted(ranges) == sorted(range_of(r) for r in listed if r.status != "unsupported")
    assert names["naive 4x8 float32"].reason == "too much"
    one = names["fused_row 4x8 float32"]
    assert (one.gpu, one.model_reads, one.model_writes) == ("NVIDIA H200", 32, 32)


def test_a_call_warms_up_l2_is_flushed_one_is_inside_the_range_and_a_failure_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    @contextmanager
    def noted(_: str, name: str) -> Iterator[None]:
        seen.append(f"begin {name}")
        yield
        seen.append("end")

    def profiled(double: str) -> dict[str, Any]:
        kernel = {"_target_": f"tests.doubles.kernels.{double}"}
        asked = {"kernel": kernel, "rows": 2, "cols": 4, "dtype": "float32", "seed": 0}
        return measure.profile(asked | {"range": "point 0"}, Bench(take_place("cpu")))

    monkeypatch.setattr(Good, "__call__", lambda self, x: seen.append("call") or x)
    monkeypatch.setattr(torch.cuda.nvtx, "range", noted)
    monkeypatch.setattr(torch.cuda.profiler, "profile", nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(Flush, "__call__", lambda self: seen.append("flush"))
    assert profiled("Good") == {"status": "ok", "reason": None}
    assert seen == ["call", "flush", "begin point 0", "call", "end"]
    failed = profiled("Raise")
    assert (failed["status"], "first line second" in failed["reason"]) == ("launch_error", True)
