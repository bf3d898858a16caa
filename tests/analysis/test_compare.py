"""``compare``: what it says of known differences, how often it is wrong, and what it writes."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.__main__ import main
from analysis.compare import NOISE, matched, noise_at, with_verdicts
from analysis.load import load
from experiments.data.rows import Row
from tests.analysis.conftest import Captured, Refused
from tests.analysis.noisy import normal, points
from tests.analysis.plausible import declare, interpreted, row, timed, unsupported, write
from tests.conftest import REFERENCE

RANGES = pd.DataFrame(NOISE["ranges"])


@pytest.mark.parametrize("of_rounds", [0.0005, 0.003])
def test_alarms_are_as_rare_as_said_though_noise_persists_through_a_process(
    of_rounds: float,
) -> None:
    dice, alarms, times = np.random.default_rng(11), 0, np.geomspace(5, 5000, 200)
    scale, shape, _ = noise_at(times)
    for _ in range(10):
        apart = scale * dice.standard_t(shape)
        drawn = of_rounds * dice.standard_normal((2, 200, 8))
        base, head = times[:, None] * np.exp([drawn[0], drawn[1] + apart[:, None]])
        found = with_verdicts(points(*zip(base, head, strict=True)))
        alarms += bool(found["verdict"].isin(["slower", "faster"]).any())
    assert alarms <= 2


def test_the_recorded_noise_is_that_of_two_recorded_sweeps_of_equal_code() -> None:
    points = matched(*(load(REFERENCE / "h200_again" / name) for name in ("once", "again")))
    found = with_verdicts(points)
    assert not found["verdict"].isin(["slower", "faster", "failed", "fixed"]).any()
    timed = found[found["ratio"].notna()]
    logs = np.log(timed["ratio"])
    times = np.exp(timed[["base_log", "head_log"]].mean(axis=1))
    place = np.searchsorted(RANGES["below_us"].dropna(), times, side="right")
    for i, known in RANGES.iterrows():
        mine = logs[place == i]
        assert mine.size == known["points"]
        assert mine.abs().quantile(0.95) == pytest.approx(known["floor"], rel=1e-3)
        *_, scale = stats.t.fit(mine, f0=known["df"], floc=0)
        assert scale == pytest.approx(known["scale"], rel=1e-3)


def rounds(seed: int, slow: dict[str, float] | None = None, **changes: Any) -> list[Row]:
    """Three kernels at two widths in eight rounds; ``slow`` makes a kernel slower by a factor."""
    dice, rows = np.random.default_rng(seed), []
    for kernel in ("naive", "fused", "copy"):
        for width in (1024, 4096):
            time = 50 * width / 1024 * (slow or {}).get(kernel, 1.0)
            rows += timed(kernel, *time * np.exp(normal(dice, 8)), cols=width, **changes)
    return rows


def run(tmp_path: Path, base: list[Row], head: list[Row], *arguments: str) -> int:
    """The exit status of ``compare`` with these rows in folders of their own."""
    folders = [str(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head))]
    return main(["compare", *folders, "--out", str(tmp_path / "out"), *arguments])


def lines(tmp_path: Path, name: str = "compare") -> list[dict[str, str]]:
    with (tmp_path / "out" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_equal_code_measured_twice_passes_and_everything_is_written(
    tmp_path: Path, capsys: Captured
) -> None:
    assert run(tmp_path, rounds(1), rounds(2)) == 0
    out = capsys.readouterr().out
    assert "No regression beyond 2 %." in out
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {*made} == {"compare.csv", "compare.md"}
    assert all(str(tmp_path / "out" / name) in out for name in made)
    assert {line["verdict"] for line in lines(tmp_path)} == {"same"}
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
        assert line["keys"].startswith(line["kernel"])
        low, ratio, high = (float(line[name]) for name in ("low", "ratio", "high"))
        assert low < ratio < high
        assert (low <= 1 <= high) == (line["verdict"] == "same")  # what changed leaves out 1
    assert "fused 4096×1024 float32 | **slower** |" in (tmp_path / "out/compare.md").read_text()
    assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.018})) == 0  # not surely by 2 %
    assert {line["verdict"] for line in lines(tmp_path)} == {"slower", "same"}
    for threshold in ("10%", "0.1"):
        assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.05}), "--threshold", threshold) == 0


def test_points_are_matched_by_identity_whatever_code_versions_and_sweep(
    tmp_path: Path, capsys: Captured
) -> None:
    newer = row("fused", 8).environment | {"torch": "2.14.0", "commit": "f" * 40}
    head = [one.model_copy(update={"key": f"{one.kernel}-{one.cols}-of-other-code"})
            for one in rounds(2, sweep="another", environment=newer)]  # fmt: skip
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        declare(tmp_path / name, source=name)
    assert run(tmp_path, rounds(1), head) == 0
    assert len(lines(tmp_path)) == 6
    out = capsys.readouterr().out
    assert "Differs: the source of fused, naive." in out
    assert "Differs: torch, 2.13.0 → 2.14.0." in out
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
    assert "Only in HEAD: 6 points, such as fused 4096×1024 float16 on card 2." in out
    assert "Of one round on a side: 1 point," in out


def test_a_failure_is_a_regression_in_one_round_of_eight_and_without_a_protocol(
    tmp_path: Path, capsys: Captured
) -> None:
    failure = {"status": "crashed", "time_us": None, "reason": "lost its worker"}
    good = timed("fused", *[50.0] * 8)
    flaky = [*good[:7], good[7].model_copy(update=failure)]
    assert run(tmp_path, good, flaky) == 1
    assert "ok → crashed in 1 of 8: lost its worker" in capsys.readouterr().out
    gone = good[0].model_copy(update=failure | {"timer": None, "cache": None})
    sides = [[good[0], row("copy", 1024)], [gone, row("copy", 1024)]]
    assert run(tmp_path, *sides) == 1
    assert "Regression: 1 point no longer ok." in capsys.readouterr().out
    assert run(tmp_path, *reversed(sides)) == 0
    assert "fixed" in capsys.readouterr().out


def test_a_time_that_means_nothing_is_not_judged(tmp_path: Path) -> None:
    times = [timed("online", *[t] * 8, backend="interpreter") for t in (50.0, 99.0)]
    never = [unsupported("fused", 1024), interpreted("naive", 8, gpu="NVIDIA H200")]
    assert run(tmp_path, *([*side, *never] for side in times)) == 0
    assert {line["verdict"] for line in lines(tmp_path)} == {"no time"}


def test_of_several_recordings_each_is_one_witness(tmp_path: Path) -> None:
    base, head = (timed("naive", 50.0, 50.1) for _ in range(2))
    head += timed("naive", 51.0, 51.1, sweep="again")
    frames = (load(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head)))
    [point] = matched(*frames).itertuples()
    assert (point.base_rounds, point.head_rounds, point.head_visits) == (2, 2, 4)
    assert point.head_squares == pytest.approx(np.log(51.05 / 50.05) ** 2 / 2, rel=0.01)


def test_two_kernels_of_one_sweep_are_paired_within_visits(
    tmp_path: Path, capsys: Captured, refused: Refused
) -> None:
    """A drift that both share leaves their ratio alone, as two sweeps could not."""
    drift = [float(t) for t in np.linspace(50, 100, 8)]
    mine = timed("mine", *drift) + timed("mine", 60.0, cols=4096)
    for one, block in zip(mine, [64] * 8 + [128], strict=True):
        one.params["options"] = {"block": block, "warps": 4}
    rows = mine + timed("auto", *[1.1 * t for t in drift])
    rows = [r.model_copy(update={"samples_us": [r.time_us, r.time_us + 0.032]}) for r in rows]
    folder = str(write(tmp_path / "a", rows + timed("auto", 50.0, cols=4096)))
    arguments = ["compare", folder, "--out", str(tmp_path / "out"), "--kernels"]
    assert main([*arguments, "mine,options.block=64,auto"]) == 0  # as a sweep prints its settings
    [line] = lines(tmp_path, "kernels")
    ratio, low, high = (float(line[name]) for name in ("ratio", "low", "high"))
    assert ratio == pytest.approx(1.1, rel=1e-3)
    assert 1.09 < low < ratio < high < 1.11
    assert "mine options.block=64 is faster at 1 and auto at 0" in capsys.readouterr().out
    error = refused("compare", folder, "--kernels", "auto,mine")
    assert "'mine' is not one timed variant; known are mine options.block=128, mine " in error


def test_what_cannot_be_compared_is_one_line(tmp_path: Path, refused: Refused) -> None:
    good = str(write(tmp_path / "a", [row("fused", 1024)]))
    other = str(write(tmp_path / "b", [row("fused", 1024, gpu="NVIDIA H100 80GB HBM3")]))
    error = refused("compare", good, other)
    assert "of NVIDIA H200 and " in error
    assert "of NVIDIA H100 80GB HBM3 have no point in common" in error
    assert "BASE HEAD" in refused("compare", good)
    assert "absent" in refused("compare", good, str(tmp_path / "absent"))
    for share in ("much", "0", "nan", "100%"):
        assert "invalid share value" in refused("compare", good, good, "--threshold", share)
