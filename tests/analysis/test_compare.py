"""``compare`` as a user runs it: what is told, written, and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.compared import lines, rounds, run, told
from tests.analysis.latex import sound_latex
from tests.analysis.plausible import row

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")
ROOT = Path(__file__).parents[2]


def test_equal_code_measured_twice_passes_and_everything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, rounds(1), rounds(2)) == 0
    out = told(capsys)
    assert "No regression beyond 2 %." in out
    made = {p.name for p in (tmp_path / "out").iterdir()}
    picture = "compare-nvidia-h200-events-cold"
    assert made == {"compare.csv", "compare.md", "compare.tex", f"{picture}.svg", f"{picture}.png"}
    assert all(str(tmp_path / "out" / name) in out for name in made)
    assert {line["verdict"] for line in lines(tmp_path)} == {"same"}
    sound_latex((tmp_path / "out" / "compare.tex").read_text())


def test_a_slower_kernel_fails_the_gate_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.08})) == 1
    out = told(capsys)
    assert "Regression: 2 points surely slower by more than 2 %." in out
    assert "fused 4096×1024 float32" in out
    slower = [line for line in lines(tmp_path) if line["verdict"] == "slower"]
    assert {line["kernel"] for line in slower} == {"fused"}
    assert all(line["regression"] == "true" for line in slower)
    assert all(float(line["all_low"]) > 1.02 for line in slower)
    assert "fused 4096×1024 float32 | **slower** |" in (tmp_path / "out/compare.md").read_text()


def test_a_higher_threshold_lets_it_pass(tmp_path: Path) -> None:
    for threshold in ("10%", "0.1"):
        assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.05}), "--threshold", threshold) == 0


def test_a_faster_kernel_passes(tmp_path: Path) -> None:
    assert run(tmp_path, rounds(1), rounds(2, {"fused": 0.9})) == 0
    faster = [line["kernel"] for line in lines(tmp_path) if line["verdict"] == "faster"]
    assert faster == ["fused", "fused"]


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for order in (1, -1):
        assert run(tmp_path, rounds(1)[::order], rounds(2, {"fused": 1.08})[::order]) == 1
        files = sorted((tmp_path / "out").iterdir())
        made.append([(path.name, path.read_bytes()) for path in files])
    assert made[0] == made[1]


def test_one_round_is_said_to_be_one_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, [row("fused", 1024)], [row("fused", 1024)]) == 0
    assert "1 point has one round" in told(capsys)
    assert run(tmp_path, rounds(1), rounds(2)) == 0
    assert "one round" not in told(capsys)


def test_the_recorded_noise_is_what_its_command_makes_of_the_recorded_sweeps(
    tmp_path: Path,
) -> None:
    recorded = ROOT / "outputs" / "reference" / "h200"
    subprocess.run(["tar", "xzf", recorded / "again.tar.gz", "-C", tmp_path], check=True)
    command = [sys.executable, "-m", "analysis.comparison.noise", recorded, tmp_path / "again"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "analysis" / "comparison" / "noise.json").read_text()
    # the false alarms of two real sweeps of equal code
    compared = ["compare", str(recorded), str(tmp_path / "again"), "--out", str(tmp_path / "out")]
    assert main(compared) == 0
    verdicts = [line["verdict"] for line in lines(tmp_path)]
    assert len(verdicts) == 1518
    assert not {"slower", "faster", "failed", "fixed"} & set(verdicts)
    assert verdicts.count("same") > 0.8 * len(verdicts)
