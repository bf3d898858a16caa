"""``compare`` as a user runs it: what is matched, told, written, and its exit status."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import plate
from analysis.__main__ import main
from experiments.rows import Row
from tests.analysis.latex import sound_latex
from tests.analysis.odd import EITHER, REFUSED, SOUND
from tests.analysis.plausible import ENVIRONMENT, row, unsupported, write
from tests.analysis.rounded import normal, rounded_rows

KERNELS = ("naive", "fused", "copy")
WIDTHS = (1024, 4096)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plate, "DPI", 30)


def rounds(seed: int, slow: dict[str, float] | None = None, **changes: Any) -> list[Row]:
    """Three kernels at two widths in eight rounds; ``slow`` makes a kernel slower by a factor."""
    dice, rows = np.random.default_rng(seed), []
    for kernel in KERNELS:
        for width in WIDTHS:
            time = 50 * width / 1024 * (slow or {}).get(kernel, 1.0)
            times = [float(t) for t in time * np.exp(normal(dice, 8))]
            rows += rounded_rows(kernel, width, times, **changes)
    return rows


def run(tmp_path: Path, base: list[Row], head: list[Row], *arguments: str) -> int:
    folders = [str(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head))]
    return main(["compare", *folders, "--out", str(tmp_path / "out"), *arguments])


def lines(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "out" / "compare.csv").open() as file:
        return list(csv.DictReader(file))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def refused(status: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert status == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


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


def test_points_are_matched_by_identity_whatever_code_versions_and_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = ENVIRONMENT | {"torch": "2.14.0", "commit": "f" * 40}
    other = rounds(2, key="another", sweep="another", environment=newer)
    other.reverse()
    assert run(tmp_path, rounds(1), [r.model_copy(update={"key": f"{r.key}-{r.kernel}{r.cols}"})
                                     for r in other]) == 0  # fmt: skip
    assert len(lines(tmp_path)) == 6
    out = told(capsys)
    assert "torch 2.13.0 → 2.14.0" in out
    assert "commit 0123456789ab → ffffffffffff" in out
    assert "triton" not in out


def test_other_parameters_dtype_card_or_protocol_is_another_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: list[dict[str, Any]] = [
        {"params": {"num_warps": 4}}, {"dtype": "float16"}, {"card": 1}, {"timer": "graph"},
        {"cache": "warm"}, {"rows": 8},
    ]  # fmt: skip
    base = [row("fused", 1024), row("torch", 1024)]
    for change in changes:
        head = [row("fused", 1024, **change), row("torch", 1024)]
        assert run(tmp_path, base, head) == 0
        assert [line["kernel"] for line in lines(tmp_path)] == ["torch"]
        out = told(capsys)
        assert "Only in BASE: 1 point," in out
        assert "Only in HEAD: 1 point," in out


def test_a_point_that_fails_now_is_a_regression_though_it_has_no_protocol(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = row("fused", 1024, time_us=None, status="crashed", reason="lost its worker")
    gone = gone.model_copy(update={"timer": None, "cache": None})
    assert run(tmp_path, [row("fused", 1024), row("copy", 1024)], [gone, row("copy", 1024)]) == 1
    out = told(capsys)
    assert "ok → crashed (lost its worker)" in out
    assert "Regression: 1 point ok no more." in out
    assert run(tmp_path, [gone, row("copy", 1024)], [row("fused", 1024), row("copy", 1024)]) == 0
    assert "fixed" in told(capsys)


def test_what_never_ran_is_no_regression(tmp_path: Path) -> None:
    rows = [unsupported("fused", 1024), *rounded_rows("copy", 1024, [50.0] * 8)]
    assert run(tmp_path, rows, rows) == 0
    assert {line["kernel"]: line["verdict"] for line in lines(tmp_path)} == {
        "copy": "same", "fused": "no time"
    }  # fmt: skip


def test_times_of_an_interpreter_are_not_compared(tmp_path: Path) -> None:
    sides = [rounded_rows("online", 8, [t] * 8, backend="interpreter") for t in (50.0, 99.0)]
    assert run(tmp_path, *sides) == 0
    assert [line["verdict"] for line in lines(tmp_path)] == ["no time"]


def test_another_gpu_model_is_refused_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rounds(2, gpu="NVIDIA H100 80GB HBM3")
    error = refused(run(tmp_path, rounds(1), other), capsys)
    assert "NVIDIA H200" in error
    assert "--across-gpus" in error
    assert run(tmp_path, rounds(1), other, "--across-gpus") == 0
    assert len(lines(tmp_path)) == 6
    assert {line["GPU"] for line in lines(tmp_path)} == {"NVIDIA H200 → NVIDIA H100 80GB HBM3"}
    assert (tmp_path / "out/compare-nvidia-h200-nvidia-h100-80gb-hbm3-events-cold.svg").exists()
    both = other + rounds(3)
    assert "one GPU model with one" in refused(
        run(tmp_path, rounds(1), both, "--across-gpus"), capsys
    )


def test_disjoint_sets_are_one_line_with_an_example_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(tmp_path, [row("fused", 1024)], [row("torch", 2048)])
    error = refused(status, capsys)
    assert "no point in common" in error
    assert "fused 4096×1024 float32" in error
    assert "torch 4096×2048 float32" in error


@pytest.mark.parametrize("kind", [*REFUSED])
def test_broken_rows_on_either_side_are_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = write(tmp_path / "good", rounds(1)), tmp_path / "bad"
    bad.mkdir()
    REFUSED[kind](bad)
    for sides in ((good, bad), (bad, good)):
        refused(main(["compare", *map(str, sides), "--out", str(tmp_path / "out")]), capsys)


@pytest.mark.parametrize("kind", [*SOUND, *EITHER])
def test_odd_rows_compared_with_themselves_hold_no_change(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (SOUND | EITHER)[kind](folder)
    assert main(["compare", str(folder), str(folder), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert not [c for c in out if not c.isprintable() and c != "\n"]
    assert {line["verdict"] for line in lines(tmp_path)} <= {"same", "unclear", "no time"}
    sound_latex((tmp_path / "out" / "compare.tex").read_text())


def test_a_project_in_wandb_is_fetched_as_either_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slower = rounds(2, {"fused": 1.08})
    kept = {"wandb:me/main": write(tmp_path / "main", rounds(1)),
            "wandb:me/mine/group": write(tmp_path / "mine", slower)}  # fmt: skip
    monkeypatch.setattr("analysis.material.fetch", lambda text, outputs: (kept[text], []))
    assert main(["compare", *kept]) == 1
    assert (tmp_path / "mine" / "compare" / "compare.md").exists()
    assert main(["compare", *reversed(kept), "--out", str(tmp_path / "out")]) == 0
    assert "faster" in told(capsys)


def test_bad_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(write(tmp_path / "good", rounds(1)))
    for arguments in ([good], [good, good, "--threshold", "much"], [good, good, "--threshold", "0"],
                      [good, good, "--alpha", "2"], [good, good, "--alpha", "nan"]):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main(["compare", *arguments])
        refused(int(str(stopped.value.code)), capsys)
    absent = main(["compare", good, str(tmp_path / "absent")])
    assert "absent" in refused(absent, capsys)


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
