import re
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.load import Records, load, load_records
from analysis.selftest.cold import probes_of
from analysis.selftest.timers import PROFILER, agreements
from experiments.data.records import PROBES
from tests.analysis.evidence import counters, write_evidence
from tests.analysis.plausible import row, write
from tests.analysis.selftest.twins import TIMES_US, probes, twins

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")


def test_events_and_graph_agree_but_for_their_offset(tmp_path: Path) -> None:
    rows = twins(rounds=3, timers=("events", "graph"), offset_us=2.5)
    found = agreements(load(write(tmp_path / "rows", rows)), Records())
    assert {(one.first, one.second) for one in found} == {("events", "graph")}
    assert sum(len(one.times_us) for one in found) == len(TIMES_US) * 3  # twins are one point
    for one in found:
        assert one.offset_us[0] == pytest.approx(2.5, abs=0.5)
    assert found[0].ratio[0] > 1.2
    assert found[-1].ratio[0] == pytest.approx(1, abs=0.01)


def test_the_profilers_kernel_time_is_held_against_the_timers(tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", [row("naive-a", 4096, time_us=30.0), row("naive-b", 4096)])
    counted = counters("naive", 4096, 4096, 5, 3).model_copy(update={"kernel_us": 25.0})
    write_evidence(folder, counters=[counted])
    [one] = agreements(load(folder), load_records(folder))
    assert (one.first, one.second) == ("events", PROFILER)
    assert one.times_us[0][1] == 25.0


def test_a_cold_read_that_is_no_slower_proves_nothing(tmp_path: Path) -> None:
    assert all(probe.proven for probe in probes_of(probes(tmp_path, cold=1.5)))
    found = probes_of(probes(tmp_path, cold=1.005))
    assert len(found) == 6
    assert not any(probe.proven for probe in found)


def test_the_command_writes_tables_figure_and_the_paragraph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = probes(write(tmp_path / "rows", twins(rounds=3, timers=("events", "graph"))))
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 0
    told = (tmp_path / "out" / "noise_floor.md").read_text()
    assert told in capsys.readouterr().out
    assert re.search(r"Of 66 comparisons .* over 3 rounds, \d+ were called different", told)
    assert "of 66 points are called faster or slower" in told
    assert "1.60 times as long to read cold as warm, every one beyond both intervals" in told
    made = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {
        f"{stem}.{kind}" for stem in ("floor", "timers", "cold") for kind in ("md", "csv", "tex")
    }
    pictures = {f"selftest_floor-nvidia-h200.{kind}" for kind in ("png", "svg")}
    assert made == tables | pictures | {"noise_floor.md", "selftest.manifest.json"}


def test_what_lacks_is_said_and_the_rest_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "rows", twins(rounds=1, times_us=[50.0]))
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 0
    error = capsys.readouterr().err
    assert "skipped: timers needs" in error
    assert "skipped: cold needs probe.jsonl" in error
    assert "read cold" not in (tmp_path / "out" / "noise_floor.md").read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 2}', "[" * 10**5, "\x00"])
def test_a_probe_that_is_none_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    folder = write(tmp_path / "rows", twins(rounds=1, times_us=[50.0]))
    (folder / PROBES).write_text(text + "\n")
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 2
    assert re.fullmatch(rf"error: .*{PROBES}:1: .*\n", capsys.readouterr().err)


def test_rows_without_twins_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "rows", [row("torch", 1024)])
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: .*no variant stands against itself.*experiment=selftest\n", error)
    assert not (tmp_path / "out").exists()
