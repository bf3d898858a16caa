"""ncu is found and called so that it sees the ranges alone; its table is read, summed, weighted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.errors import UserError
from experiments.profile.ncu import (
    BYTES,
    METRICS,
    OCCUPANCY,
    PIPES,
    REQUIRED,
    TIME,
    find_ncu,
    read_launches,
    remarks,
    run_ncu,
    summed,
    unknown_metrics,
    version,
)
from tests.doubles.ncu import executable, table

ONLINE = "point 7 online,block_size=1024 4096x131072 float32"
READ = "dram__bytes_read.sum"


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
    written = "str(os.environ) + ' '.join(sys.argv[1:])"
    path = executable(tmp_path, f"import os\nPath({str(seen)!r}).write_text({written})\n")
    assert version(str(path)) == "2025.3.1.0"
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


def test_a_required_metric_that_is_unknown_ends_it(tmp_path: Path) -> None:
    complaint = f"==ERROR== Failed to find metric {REQUIRED[1]}"
    path = executable(tmp_path, f"log.write_text({complaint!r})\n")
    with pytest.raises(UserError, match=f"does not know {REQUIRED[1]} on this card"):
        run_ncu(str(path), ["true"], tmp_path / "log")


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


def test_a_recorded_table_is_read() -> None:
    launch, *more = read_launches(RECORDED).dropna(axis="columns").to_dict("records")
    assert launch == {"range": ONLINE, READ: 4294967296.0, TIME: 1234.5}
    assert more == []


def test_a_table_without_ranges_or_with_strange_units_is_refused() -> None:
    with pytest.raises(UserError, match="no Push/Pop_Range column"):
        read_launches(table([]).replace("Push/Pop_Range", "something"))
    with pytest.raises(UserError, match="in 'furlong'"):
        read_launches(table([(ONLINE, {READ: 1.5})]).replace('"byte"', '"furlong"'))
    assert read_launches("==WARNING== No kernels were profiled.\n").empty


def launches(*values: dict[str, float]) -> pd.DataFrame:
    zeros: dict[str, float] = dict.fromkeys(METRICS, 0.0)
    return pd.DataFrame([zeros | {TIME: 1.0} | one for one in values])


def test_bytes_and_times_add_up_and_shares_are_weighted_by_time() -> None:
    xu, (plain, tma) = PIPES["xu"], BYTES["requested_load_bytes"]
    fields = summed(
        launches({TIME: 1.0, xu: 90.0, READ: 2.0**45, plain: 1.0, tma: 4000.0},
                 {TIME: 9.0, xu: 10.0, READ: 1.0, OCCUPANCY: 50.0})
    )  # fmt: skip
    assert (fields["launches"], fields["kernel_us"]) == (2, 10.0)
    assert (fields["dram_read_bytes"], fields["requested_load_bytes"]) == (2**45 + 1, 4001)
    assert (fields["pipes_percent"]["xu"], fields["occupancy_percent"]) == (18.0, 45.0)


def test_what_the_card_lacks_is_zero_or_null_and_what_is_required_makes_no_record() -> None:
    _, tma = BYTES["requested_load_bytes"]
    nan = float("nan")
    fields = summed(launches(dict.fromkeys((tma, *BYTES["l2_to_sm_bytes"], PIPES["xu"]), nan)))
    assert fields["requested_load_bytes"] == 0
    assert fields["l2_to_sm_bytes"] is None
    assert "xu" not in fields["pipes_percent"]
    for name in REQUIRED:
        with pytest.raises(UserError, match=f"ncu gave no {name}"):
            summed(launches({}, {name: nan}))


@pytest.mark.parametrize(
    "complaint",
    [
        "Failed to find metric regex:^l1tex__m_xbar2l1tex_read_bytes\\.(sum|avg|max)$",
        "Failed to find metric l1tex__m_xbar2l1tex_read_bytes.sum",
    ],
)
def test_a_metric_unknown_to_the_card_is_recognised(complaint: str) -> None:
    text = f"==PROF== Connected to process 1\n==ERROR== {complaint}\n"
    assert unknown_metrics(text, METRICS) == ["l1tex__m_xbar2l1tex_read_bytes.sum"]
    assert remarks(text) == [complaint]
    assert remarks("==ERROR== The application returned an error code (1).\n") == []  # its own
