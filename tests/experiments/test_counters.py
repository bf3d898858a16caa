"""The whole way from the command line to counters.jsonl, with a stand-in for ncu on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from experiments.counters import main
from experiments.data.records import Counters, read_records, write_records
from experiments.errors import UserError
from experiments.profile import ncu
from experiments.profile.ncu import (
    BYTES,
    METRICS,
    OCCUPANCY,
    PIPES,
    REQUIRED,
    TIME,
    find_ncu,
    read_launches,
    run_ncu,
    summed,
)  # fmt: skip
from experiments.profile.profiling import LIST, Profiled
from tests.conftest import Result
from tests.doubles.ncu import executable, table

READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"


def point(number: int, kernel: str, status: str = "profiled", **changes: object) -> Profiled:
    fields = {
        "range": f"point {number} {kernel} 4x8 float32", "status": status, "gpu": "NVIDIA H200",
        "reason": None, "kernel": kernel, "operation": "softmax", "params": {}, "source": "abc",
        "rows": 4, "cols": 8, "dtype": "float32", "model_reads": 64, "model_writes": 32,
        "environment": {"torch": "2.11"},
    }  # fmt: skip
    return Profiled.model_validate(fields | changes)


def prepared(tmp_path: Path, points: list[Profiled], text: str, body: str = "") -> None:
    """A stand-in that leaves this list of points and prints this table."""
    write_records(tmp_path / LIST, points)
    (tmp_path / "table.csv").write_text(text)
    executable(
        tmp_path,
        f"{body}\n"
        "out = Path(next(a for a in command if a.startswith('out='))[4:])\n"
        f"(out / {LIST!r}).write_text(Path({str(tmp_path / LIST)!r}).read_text())\n"
        f"log.write_text(Path({str(tmp_path / 'table.csv')!r}).read_text())\n",
    )


def recorded(tmp_path: Path) -> list[Counters]:
    return list(read_records(tmp_path / "out" / "counters.jsonl", Counters))


Collect = Callable[..., Result]


@pytest.fixture
def collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Collect:
    """The command into ``out`` below the test's folder, with the folder's ncu on PATH."""

    def run(*arguments: str) -> Result:
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(sys, "argv", ["counters", f"out={tmp_path / 'out'}", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(int(ended.value.code or 0), *capfd.readouterr(), tmp_path / "out")

    return run


def test_every_call_becomes_a_record_summed_over_its_launches(
    tmp_path: Path, collect: Collect
) -> None:
    naive, fused, copy = point(0, "naive"), point(1, "fused_row"), point(2, "copy")
    wide = point(3, "online", "unsupported", reason="too wide")
    values = dict.fromkeys(METRICS, 1.0)
    launches = [
        (naive.range, values | {READ: 160.0, TIME: 2000.0}),
        (naive.range, values | {READ: 96.0, TIME: 1000.0}),
        (fused.range, values | {READ: 128.0, WRITE: 64.0}),
        ("", values),
    ]
    prepared(tmp_path, [naive, fused, copy, wide], table(launches))
    done = collect()
    assert done.status == 0, done.stderr
    first, second = recorded(tmp_path)
    assert (first.kernel, first.launches, first.dram_read_bytes) == ("naive", 2, 256)
    assert first.kernel_us == pytest.approx(3.0)
    assert (second.kernel, second.dram_read_bytes, second.dram_write_bytes) == (
        "fused_row", 128, 64,
    )  # fmt: skip
    assert (second.source, second.model_reads, second.model_writes) == ("abc", 64, 32)
    assert second.environment["ncu"] == "2025.3.1.0"
    assert "point 2 copy 4x8 float32: ncu saw no kernel" in done.stdout
    assert "4 points: 2 recorded, 1 without kernels, 1 unsupported, 0 failed" in done.stdout


def test_counters_of_other_points_are_kept_and_of_the_same_replaced(
    tmp_path: Path, collect: Collect
) -> None:
    values = dict.fromkeys(METRICS, 1.0)
    for size, points in ((1.0, [point(0, "a"), point(1, "b")]), (2.0, [point(0, "b")])):
        prepared(tmp_path, points, table([(p.range, values | {READ: size}) for p in points]))
        assert collect().status == 0
    assert [(r.kernel, r.dram_read_bytes) for r in recorded(tmp_path)] == [("a", 1), ("b", 2)]


def test_a_metric_the_card_lacks_a_failed_point_and_a_complaint_cost_no_other_record(
    tmp_path: Path, collect: Collect
) -> None:
    lacking = "l1tex__m_xbar2l1tex_read_bytes.sum"
    unknown = f"==ERROR== Failed to find metric regex:^{lacking}$\n"
    good, bad = point(0, "fused"), point(1, "naive", "failed", reason="OutOfMemoryError")
    known = tuple(name for name in METRICS if name != lacking)
    text = table([(good.range, dict.fromkeys(known, 3.0))], known)
    prepared(
        tmp_path,
        [good, bad],
        text + '==ERROR== Failed to profile "k" in process 1\n',
        f"if {lacking!r} in metrics:\n    log.write_text({unknown!r})\n    sys.exit(1)",
    )
    done = collect()
    assert done.status == 1
    assert f"this card has no {lacking}" in done.stdout
    assert 'ncu: Failed to profile "k" in process 1' in done.stderr
    [record] = recorded(tmp_path)
    assert (record.dram_read_bytes, record.l2_to_sm_bytes) == (3, None)


FORBIDDEN = (
    "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0."
)


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        (FORBIDDEN, ("ERR_NVGPUCTRPERM", "as root", "NVreg_RestrictProfilingToAdminUsers=0")),
        ("Cuda driver is not compatible.", ("error: ncu: Cuda driver is not compatible.",)),
    ],
)
def test_an_ncu_that_fails_is_one_line_saying_what_to_do(
    complaint: str, said: tuple[str, ...], tmp_path: Path, collect: Collect
) -> None:
    executable(tmp_path, f'log.write_text("==ERROR== {complaint}\\n")\nsys.exit(1)\n')
    done = collect()
    assert done.status == 2
    assert done.stderr.count("\n") == 1
    assert [words for words in said if words not in done.stderr] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_the_profiled_command_says_so_in_one_line(
    tmp_path: Path, collect: Collect
) -> None:
    executable(
        tmp_path,
        "import subprocess\n"
        'log.write_text("==WARNING== No kernels were profiled.\\n")\n'
        "sys.exit(subprocess.call(command))\n",
    )
    done = collect("kernel=torch", "grid=point", "grid.rows=2", "grid.cols=2")
    assert done.status == 2
    assert done.stderr == "error: profiling needs a CUDA device, and there is none here\n"


def test_the_newest_installed_ncu_is_taken_and_without_any_the_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="install NVIDIA Nsight Compute"):
        find_ncu(places=())
    for number in ("2024.3.2", "2025.10.0", "2025.3.1"):
        (tmp_path / number).mkdir()
        executable(tmp_path / number, "")
    assert find_ncu([f"{tmp_path}/*/ncu"]) == f"{tmp_path}/2025.10.0/ncu"


def test_the_command_comes_after_every_option(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    written = "str(os.environ) + ' '.join(sys.argv[1:])"
    path = executable(tmp_path, f"import os\nPath({str(seen)!r}).write_text({written})\n")
    assert run_ncu(str(path), ["python", "-m", "experiments.profile"], tmp_path / "log") == (0, "")
    options, _, command = seen.read_text().partition(f"--log-file {tmp_path / 'log'} ")
    assert command == "python -m experiments.profile"
    for option in ("--nvtx", "--profile-from-start off", "--clock-control none", "--page raw",
                   "--cache-control none", "--replay-mode application",
                   "--target-processes all", ",".join(METRICS),
                   # or what compiles may launch other kernels in another pass
                   "'TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK': '0'",
                   "'TRITON_CACHE_AUTOTUNING': '1'"):  # fmt: skip
        assert option in options


ONLINE = "point 7 online,block_size=1024 4096x131072 float32"


def test_a_table_is_read_and_a_strange_one_refused() -> None:
    values = {READ: 4294967296.0, TIME: "1,234,500 (0: 1)"}  # instances may follow in brackets
    (launch,) = read_launches(table([(ONLINE, values)])).dropna(axis="columns").to_dict("records")
    assert launch == {"range": ONLINE, READ: 4294967296.0, TIME: 1234.5}
    with pytest.raises(UserError, match="no Push/Pop_Range column"):
        read_launches(table([]).replace("Push/Pop_Range", "something"))
    with pytest.raises(UserError, match="in 'furlong'"):
        read_launches(table([(ONLINE, {READ: 1.5})]).replace('"byte"', '"furlong"'))
    assert read_launches("==WARNING== No kernels were profiled.\n").empty


def launches(*values: dict[str, float]) -> pd.DataFrame:
    zeros: dict[str, float] = dict.fromkeys(METRICS, 0.0)
    return pd.DataFrame([zeros | {TIME: 1.0} | one for one in values])


def test_shares_are_weighted_by_time_and_a_path_the_card_lacks_moves_nothing() -> None:
    xu, (plain, tma) = PIPES["xu"], BYTES["requested_load_bytes"]
    fields = summed(
        launches({TIME: 1.0, xu: 90.0, READ: 2.0**45, plain: 1.0, tma: 4000.0},
                 {TIME: 9.0, xu: 10.0, READ: 1.0, OCCUPANCY: 50.0})
    )  # fmt: skip
    assert (fields["dram_read_bytes"], fields["requested_load_bytes"]) == (2**45 + 1, 4001)
    assert (fields["pipes_percent"]["xu"], fields["occupancy_percent"]) == (18.0, 45.0)
    lacking = dict.fromkeys((tma, *BYTES["l2_to_sm_bytes"], PIPES["xu"]), float("nan"))
    fields = summed(launches(lacking))
    assert (fields["requested_load_bytes"], fields["l2_to_sm_bytes"]) == (0, None)
    assert "xu" not in fields["pipes_percent"]
    with pytest.raises(UserError, match=f"ncu gave no {REQUIRED[2]}"):
        summed(launches({}, {REQUIRED[2]: float("nan")}))


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("ncu") is None, reason="needs ncu")
def test_on_a_card_fused_row_moves_at_dram_what_its_model_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, collect: Collect
) -> None:
    monkeypatch.setattr(ncu, "METRICS", REQUIRED)  # few enough for one pass
    shape = ["grid=point", "grid.rows=4096", "grid.cols=16384", "dtype=float32"]
    done = collect("kernel=fused_row,naive", *shape)
    assert done.status == 0, done.stderr
    records = {record.kernel: record for record in recorded(tmp_path)}
    assert records["fused_row"].launches == 1
    assert records["naive"].launches >= 5
    for name in ("fused_row", "naive"):
        assert records[name].dram_read_bytes == pytest.approx(
            4 * records[name].model_reads, rel=0.01
        )
