"""``compare`` as a user runs it: what is matched, said, written and refused, and its status."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.compare.noise import main as recorded_anew
from analysis.compare.points import judged, matched
from analysis.load import load
from experiments.data.packed import unpacked
from experiments.data.rows import Row
from tests.analysis.compare.noisy import normal, rows_of
from tests.analysis.latex import sound_latex
from tests.analysis.odd import EITHER, SOUND, declare
from tests.analysis.plausible import ENVIRONMENT, interpreted, row, unsupported, write
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")
Captured = pytest.CaptureFixture[str]


def rounds(seed: int, slow: dict[str, float] | None = None, **changes: Any) -> list[Row]:
    """Three kernels at two widths in eight rounds; ``slow`` makes a kernel slower by a factor."""
    dice, rows = np.random.default_rng(seed), []
    for kernel in ("naive", "fused", "copy"):
        for width in (1024, 4096):
            time = 50 * width / 1024 * (slow or {}).get(kernel, 1.0)
            times = [float(t) for t in time * np.exp(normal(dice, 8))]
            rows += rows_of(kernel, width, times, **changes)
    return rows


def run(tmp_path: Path, base: list[Row], head: list[Row], *arguments: str) -> int:
    """The exit status of ``compare`` with these rows in folders of their own."""
    folders = [str(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head))]
    return main(["compare", *folders, "--out", str(tmp_path / "out"), *arguments])


def lines(tmp_path: Path) -> list[dict[str, str]]:
    """The table it wrote."""
    with (tmp_path / "out" / "compare.csv").open() as file:
        return list(csv.DictReader(file))


def refused(capsys: Captured, *arguments: str) -> str:
    """The one line of a comparison that is refused."""
    with contextlib.suppress(SystemExit):
        assert main(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_of_several_recordings_each_is_one_witness(tmp_path: Path) -> None:
    base, head = (rows_of("naive", 1024, [50.0, 50.1]) for _ in range(2))
    head += rows_of("naive", 1024, [51.0, 51.1], sweep="again")
    frames = (load(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head)))
    [point] = matched(*frames).itertuples()
    assert (point.base_rounds, point.head_rounds, point.head_visits) == (2, 2, 4)
    apart = np.log(51.05 / 50.05)
    assert point.head_squares == pytest.approx(apart**2 / 2, rel=0.01)


def test_equal_code_measured_twice_passes_and_everything_is_written(
    tmp_path: Path, capsys: Captured
) -> None:
    assert run(tmp_path, rounds(1), rounds(2)) == 0
    out = capsys.readouterr().out
    assert "No regression beyond 2 %." in out
    assert "one round" not in out
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    picture = "compare-nvidia-h200-events-cold"
    assert {*made} == {f"compare.{kind}" for kind in ("csv", "md", "tex")} | {
        f"{picture}.svg", f"{picture}.png"
    }  # fmt: skip
    assert all(str(tmp_path / "out" / name) in out for name in made)
    assert {line["verdict"] for line in lines(tmp_path)} == {"same"}
    assert b"Time of HEAD / BASE, by time range" in made["compare.md"]
    sound_latex(made["compare.tex"].decode())
    # rows in another order make the same bytes
    assert run(tmp_path, rounds(1)[::-1], rounds(2)[::-1]) == 0
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_a_slower_kernel_fails_the_gate_and_is_named(tmp_path: Path, capsys: Captured) -> None:
    assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.08, "naive": 0.9})) == 1
    out = capsys.readouterr().out
    assert "Regression: 2 points significantly slower by more than 2 %." in out
    assert "fused 4096×1024 float32" in out
    found = {(line["kernel"], line["verdict"]) for line in lines(tmp_path)}
    assert found == {("fused", "slower"), ("naive", "faster"), ("copy", "same")}
    for line in lines(tmp_path):
        assert (line["regression"] == "true") == (line["kernel"] == "fused")
        assert (line["beyond_floor"] == "true") == (line["kernel"] != "copy")
        assert line["kernel"] != "fused" or float(line["all_low"]) > 1.02
    assert "fused 4096×1024 float32 | **slower** |" in (tmp_path / "out/compare.md").read_text()
    for threshold in ("10%", "0.1"):
        assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.05}), "--threshold", threshold) == 0


def test_points_are_matched_by_identity_whatever_code_versions_and_sweep(
    tmp_path: Path, capsys: Captured
) -> None:
    newer = ENVIRONMENT | {"torch": "2.14.0", "commit": "f" * 40}
    head = [one.model_copy(update={"key": f"{one.kernel}-{one.cols}-of-other-code"})
            for one in rounds(2, sweep="another", environment=newer)]  # fmt: skip
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        declare(tmp_path / name, source=name)
    assert run(tmp_path, rounds(1), head) == 0
    assert len(lines(tmp_path)) == 6
    out = capsys.readouterr().out
    assert "source differs: fused, naive" in out
    assert "torch 2.13.0 → 2.14.0" in out
    assert f"commit 0123456789abcdef0123456789abcdef01234567 → {'f' * 40}" in out
    assert "triton" not in out


def test_other_parameters_dtype_card_or_protocol_is_another_point(
    tmp_path: Path, capsys: Captured
) -> None:
    changes: list[dict[str, Any]] = [
        {"params": {"num_warps": 4}}, {"dtype": "float16"}, {"card": 1}, {"timer": "graph"},
        {"cache": "warm"}, {"rows": 8},
    ]  # fmt: skip
    base = [row("fused", 1024, card=i) for i in range(0, 12, 2)]
    head = [row("fused", 1024, **{"card": 2 * i} | change) for i, change in enumerate(changes)]
    head[2] = row("fused", 1024, card=5)
    assert run(tmp_path, [*base, row("torch", 1024)], [*head, row("torch", 1024)]) == 0
    assert [line["kernel"] for line in lines(tmp_path)] == ["torch"]
    out = capsys.readouterr().out
    assert "Only in BASE: 6 points," in out
    assert "Only in HEAD: 6 points," in out
    assert "1 point has one round" in out


def test_a_point_that_fails_now_is_a_regression_though_it_has_no_protocol(
    tmp_path: Path, capsys: Captured
) -> None:
    gone = row("fused", 1024, time_us=None, status="crashed", reason="lost its worker")
    gone = gone.model_copy(update={"timer": None, "cache": None})
    sides = [[row("fused", 1024), row("copy", 1024)], [gone, row("copy", 1024)]]
    assert run(tmp_path, *sides) == 1
    out = capsys.readouterr().out
    assert "ok → crashed (lost its worker)" in out
    assert "Regression: 1 point no longer ok." in out
    assert run(tmp_path, *reversed(sides)) == 0
    assert "fixed" in capsys.readouterr().out


def test_one_bad_round_of_eight_is_a_failure_too(tmp_path: Path, capsys: Captured) -> None:
    good = rows_of("fused", 1024, [50.0] * 8)
    flaky = [*good[:7], good[7].model_copy(update={"status": "crashed", "time_us": None})]
    assert run(tmp_path, good, flaky) == 1
    assert "ok → crashed (in 1 of 8 rounds)" in capsys.readouterr().out


def test_what_has_no_time_that_means_something_is_not_judged(tmp_path: Path) -> None:
    times = [rows_of("online", 8, [t] * 8, backend="interpreter") for t in (50.0, 99.0)]
    never = [unsupported("fused", 1024), interpreted("naive", 8, gpu="NVIDIA H200")]
    assert run(tmp_path, *([*side, *never] for side in times)) == 0
    assert {line["verdict"] for line in lines(tmp_path)} == {"no time"}
    assert len(lines(tmp_path)) == 3


def test_another_gpu_model_is_refused_unless_asked_for(tmp_path: Path, capsys: Captured) -> None:
    h200, h100 = rounds(1), rounds(2, gpu="NVIDIA H100 80GB HBM3")
    sides = (("a", h200), ("b", h100), ("c", h200 + h100))
    base, head, both = (str(write(tmp_path / name, rows)) for name, rows in sides)
    for found in ("NVIDIA H200", "--across-gpus"):
        assert found in refused(capsys, base, head)
    assert "one GPU model with one" in refused(capsys, base, both, "--across-gpus")
    assert main(["compare", base, head, "--out", str(tmp_path / "out"), "--across-gpus"]) == 0
    assert len(lines(tmp_path)) == 6
    assert {line["GPU"] for line in lines(tmp_path)} == {"NVIDIA H200 → NVIDIA H100 80GB HBM3"}
    assert (tmp_path / "out/compare-nvidia-h200-nvidia-h100-80gb-hbm3-events-cold.svg").exists()


def test_what_cannot_be_compared_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    good = str(write(tmp_path / "a", [row("fused", 1024)]))
    other = str(write(tmp_path / "b", [row("torch", 2048)]))
    for text in ("no point in common", "fused 4096×1024 float32", "torch 4096×2048 float32"):
        assert text in refused(capsys, good, other)
    refused(capsys, good)
    for share in ("much", "0", "nan", "100%"):
        assert "is not a share such as" in refused(capsys, good, good, "--threshold", share)
    assert "absent" in refused(capsys, good, str(tmp_path / "absent"))


@pytest.mark.parametrize("kind", ["hostile", "nothing_worked"])
def test_odd_rows_compared_with_themselves_hold_no_change(
    kind: str, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (SOUND | EITHER)[kind](folder)
    assert main(["compare", str(folder), str(folder), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert not [c for c in out if not c.isprintable() and c != "\n"]
    assert {line["verdict"] for line in lines(tmp_path)} <= {"same", "unclear", "no time"}
    sound_latex((tmp_path / "out" / "compare.tex").read_text())


def test_the_recorded_noise_is_what_its_command_makes_of_the_recorded_sweeps() -> None:
    pair = unpacked(ROOT / "outputs" / "reference" / "h200" / "again.tar.gz")
    once, again = pair / "once", pair / "again"
    made = recorded_anew(once, again)
    assert made == (ROOT / "analysis" / "compare" / "noise.json").read_text()
    # the false alarms of two real sweeps of equal code
    points = judged(matched(load(once), load(again)))
    verdicts = points["verdict"].tolist()
    assert len(verdicts) == 1518
    assert not {"slower", "faster", "failed", "fixed"} & set(verdicts)
    assert verdicts.count("same") > 0.8 * len(verdicts)
