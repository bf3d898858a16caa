"""ncu is found and called so that it sees the ranges alone; its table is read, summed, weighted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.errors import UserError
from experiments.profile import ncu
from experiments.profile.ncu import (
    BYTES,
    METRICS,
    OCCUPANCY,
    PIPES,
    REQUIRED,
    TIME,
    Launch,
    find_ncu,
    read_launches,
    remarks,
    run_ncu,
    summed,
    unknown_metrics,
    version,
)
from tests.doubles.ncu import executable, table


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


def test_the_command_comes_after_every_option_and_the_version_is_read(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = executable(tmp_path, f"Path({str(seen)!r}).write_text(' '.join(sys.argv[1:]))\n")
    assert version(str(path)) == "2025.3.1.0"
    assert run_ncu(str(path), ["python", "-m", "experiments.profile"], tmp_path / "log") == (0, "")
    options, _, command = seen.read_text().partition(f"--log-file {tmp_path / 'log'} ")
    assert command == "python -m experiments.profile"
    for option in ("--nvtx", "--profile-from-start off", "--clock-control none", "--page raw",
                   "--cache-control all", "--target-processes all", ",".join(METRICS)):  # fmt: skip
        assert option in options


def test_a_required_metric_that_is_unknown_ends_it(tmp_path: Path) -> None:
    complaint = f"==ERROR== Failed to find metric {REQUIRED[1]}"
    path = executable(tmp_path, f"log.write_text({complaint!r})\n")
    with pytest.raises(UserError, match=f"does not know {REQUIRED[1]} on this card"):
        run_ncu(str(path), ["true"], tmp_path / "log")


def test_an_ncu_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "LIMIT_S", 0.5)
    pid = tmp_path / "pid"
    body = f"import os, time\nPath({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(99)\n"
    path = executable(tmp_path, body)
    with pytest.raises(UserError, match="ncu took more than"):
        run_ncu(str(path), ["true"], tmp_path / "log")
    if pid.exists():
        assert subprocess.run(["kill", "-0", pid.read_text()], capture_output=True).returncode


ONLINE = "point 7 online,block_size=1024 4096x131072 float32"

# As ncu 2025 prints it, with two metrics; instances follow a value in brackets where it has some.
RECORDED = """\
==PROF== Connected to process 2291 (/usr/bin/python3.12)
==PROF== Profiling "online_kernel" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 2291
"ID","Process ID","Process Name","Host Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:\
CLR_Type:Color:Msg_Type:Msg","Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:\
Msg","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum"
"","","","","","","","","","","","","","byte","ns"
"0","2291","python3.12","127.0.0.1","2291  ""<default domain>:point 7 online,block_size=1024 \
4096x131072 float32:none:none:none:none:none:none"" ","","_online(float *, float *, int)","1","7",\
"(128, 1, 1)","(4096, 1, 1)","0","9.0","4,294,967,296","1,234,500 (0: 1)"
"""


def launch(**values: float) -> Launch:
    return Launch(ONLINE, dict.fromkeys(METRICS, 0.0) | {TIME: 1.0} | values)


def test_a_recorded_table_is_read() -> None:
    assert list(read_launches(RECORDED)) == [
        Launch(ONLINE, {"dram__bytes_read.sum": 4294967296.0, TIME: 1234.5})
    ]


def test_each_launch_keeps_its_range_and_a_metric_without_a_value_is_absent() -> None:
    text = table([("point 0 a 1x2 float32", {TIME: 2000.0}), ("", {TIME: 3.0, OCCUPANCY: "nan"})])
    assert list(read_launches(text)) == [
        Launch("point 0 a 1x2 float32", {TIME: 2.0}), Launch("", {TIME: 0.003})
    ]  # fmt: skip


def test_units_that_were_scaled_are_scaled_back() -> None:
    text = table([(ONLINE, {TIME: 2.0, "dram__bytes_read.sum": 1.5})])
    text = text.replace('"ns"', '"msecond"').replace('"byte"', '"Mbyte"')
    assert list(read_launches(text)) == [Launch(ONLINE, {TIME: 2e3, "dram__bytes_read.sum": 1.5e6})]
    with pytest.raises(UserError, match="in 'furlong'"):
        list(read_launches(text.replace("Mbyte", "furlong")))


def test_a_table_without_ranges_is_refused_and_text_without_a_table_has_no_launches() -> None:
    with pytest.raises(UserError, match="no Push/Pop_Range column"):
        list(read_launches(table([]).replace("Push/Pop_Range", "something")))
    for text in ("", "==WARNING== No kernels were profiled.\n"):
        assert list(read_launches(text)) == []


sizes = st.integers(min_value=0, max_value=2**45)
times = st.floats(min_value=0.5, max_value=1e6)
shares = st.floats(min_value=0.0, max_value=100.0)


@given(st.lists(st.tuples(sizes, times, shares), min_size=1, max_size=8))
def test_bytes_and_times_add_up_and_shares_are_weighted_by_time(
    seen: list[tuple[int, float, float]],
) -> None:
    calls = [
        launch(**{"dram__bytes_read.sum": float(size), TIME: time, OCCUPANCY: share})
        for size, time, share in seen
    ]
    fields = summed(calls)
    assert fields["launches"] == len(seen)
    assert fields["dram_read_bytes"] == sum(size for size, _, _ in seen)
    assert fields["kernel_us"] == pytest.approx(sum(time for _, time, _ in seen))
    lowest, highest = min(s for *_, s in seen), max(s for *_, s in seen)
    assert lowest - 1e-3 <= fields["occupancy_percent"] <= highest + 1e-3


def test_a_long_launch_weighs_more_than_a_short_one() -> None:
    xu = PIPES["xu"]
    fields = summed([launch(**{TIME: 1.0, xu: 90.0}), launch(**{TIME: 9.0, xu: 10.0})])
    assert fields["pipes_percent"]["xu"] == pytest.approx(18.0)


def test_loads_past_registers_count_and_what_the_card_lacks_is_zero_or_null() -> None:
    plain, tma = BYTES["requested_load_bytes"]
    assert summed([launch(**{plain: 1.0, tma: 4000.0})])["requested_load_bytes"] == 4001
    without = {name: 5.0 for name in METRICS if name not in (tma, *BYTES["l2_to_sm_bytes"])}
    fields = summed([Launch(ONLINE, without | {plain: 7.0})])
    assert fields["requested_load_bytes"] == 7
    assert fields["l2_to_sm_bytes"] is None


def test_a_launch_without_a_required_metric_is_no_record() -> None:
    for name in REQUIRED:
        values = {metric: 1.0 for metric in METRICS if metric != name}
        with pytest.raises(UserError, match=f"ncu gave no {name}"):
            summed([launch(), Launch(ONLINE, values)])


@pytest.mark.parametrize(
    "complaint",
    [
        "Failed to find metric regex:^l1tex__t_bytes_pipe_lsu_mem_local_op_ld\\.(sum|avg|max)$",
        "Failed to find metric l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
        "Failed to find metric regex:^l1tex__t_bytes_pipe_lsu_mem_local_op_ld\\.sum$",
    ],
)
def test_a_metric_unknown_to_the_card_is_recognised(complaint: str) -> None:
    text = f"==PROF== Connected to process 1\n==ERROR== {complaint}\n"
    assert unknown_metrics(text, METRICS) == ["l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum"]
    assert remarks(text) == [complaint]
    assert remarks("==ERROR== The application returned an error code (1).\n") == []  # its own
