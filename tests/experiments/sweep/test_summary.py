"""What a sweep says of its rows when it ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.data.rows import Row
from experiments.sweep.plan import Point
from experiments.sweep.summary import Progress, account, print_summary
from tests.analysis.plausible import row
from tests.conftest import Compose


@pytest.mark.parametrize(
    ("stop_reason", "status"),
    [
        ("converged", "| ok |"),
        ("max_samples", "| ok; not converged: max samples |"),
        ("time_limit", "| ok; not converged: time limit |"),
    ],
)
def test_a_time_that_did_not_converge_says_why_sampling_ended(
    tmp_path: Path, stop_reason: str, status: str
) -> None:
    timed = row("torch", 1024, time_us=10.0, stop_reason=stop_reason)
    print_summary([timed], {}, tmp_path, "", [])
    *_, line = (tmp_path / "table.md").read_text().splitlines()
    assert line.endswith(status)


@pytest.mark.parametrize(("other", "order"), [
    ("softmax", ["copy", "second", "torch"]),  # by time, the roof among them
    ("weighted", ["copy", "torch", "second"]),
])  # fmt: skip
def test_several_operations_are_listed_each_by_itself(
    tmp_path: Path, other: str, order: list[str]
) -> None:
    rows = [
        row("torch", 1024, time_us=12.0, operation="softmax", roof="copy"),
        row("copy", 1024, time_us=9.0, operation="copy", roof="copy"),
        row("second", 1024, time_us=10.0, operation=other, roof="copy"),
    ]
    print_summary(rows, {}, tmp_path, "", [])
    _, _, *lines = (tmp_path / "table.md").read_text().splitlines()
    assert [line.split(" | ")[2] for line in lines] == order


@pytest.fixture
def terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[int], None]:
    """Makes what is printed from now on a terminal's of so many columns."""

    def made(columns: int) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", "40")
        capsys.readouterr()

    return made


def plain(text: str) -> list[str]:
    """The lines of a terminal's output without its control sequences."""
    return [line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*\w", "", text))]


@pytest.mark.parametrize(
    ("columns", "head"),
    [
        (160, "dtype M×N kernel time µs 95 % GB/s × torch × best other status"),
        (80, "M×N kernel time µs status"),
        (60, "M×N kernel time µs status"),
    ],
)
def test_time_kernel_and_status_are_whole_on_a_narrow_terminal(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    columns: int, head: str,
) -> None:  # fmt: skip
    slow = row("fused_multirow", 1024, time_us=76830.4, time_low_us=629.0, time_high_us=74683.0,
               stop_reason="max_samples")  # fmt: skip
    short = row("torch", 1024, time_us=4268.0, time_low_us=4100.0, time_high_us=4300.0)
    terminal(columns)
    print_summary([slow, short], {}, tmp_path, "", [])
    lines = plain(capsys.readouterr().out)
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= columns
    shown = [line.split() for line in lines]
    [first] = [line for line in shown if "76,830" in line]
    assert "fused_multirow" in first
    assert " ".join(first).endswith("ok; not converged: max" + " samples" * (columns >= 80))
    assert columns >= 80 or ["samples"] in shown  # on the next line, and whole
    assert any({"torch", "4,268", "ok"} <= set(line) for line in shown)
    assert head.split() in shown
    assert (["dtype", slow.dtype] in shown) == (columns < 160)  # said once where it is left out


def test_each_kernel_stands_beside_torch_and_the_fastest_other_of_its_card(tmp_path: Path) -> None:
    times = {"torch": 20.0, "online": 10.0, "mine": 8.0}
    rows = [
        row(name, 1024, time_us=us, time_low_us=us - 1, time_high_us=us + 1)
        for name, us in times.items()
    ]
    elsewhere = row("torch", 1024, time_us=1.0, sweep="another", key="x")
    print_summary([*rows, elsewhere], {}, tmp_path, "", [])
    _, _, *lines = (tmp_path / "table.md").read_text().splitlines()
    cells = {line.split(" | ")[2]: line.split(" | ")[7:9] for line in lines[1:]}
    assert cells == {
        "torch": ["", "0.40 (0.33–0.47) mine"],
        "online": ["2.00 (1.73–2.33)", "0.80 (0.64–1.00) mine"],
        "mine": ["2.50 (2.11–3.00)", "1.25 (1.00–1.57) online"],
    }


def test_a_sweep_over_tunables_ends_with_the_best_setting_of_each_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        row("online", cols, time_us=us, key=f"{cols}/{block}")
        for cols, block, us in ((64, 8, 3.0), (64, 16, 4.0), (128, 8, 9.0), (128, 16, 6.0))
    ]
    labels = {one.key: f"online,block_size={one.key.partition('/')[2]}" for one in rows}
    print_summary([*rows, row("torch", 64, time_us=1.0)], labels, tmp_path, "", [])
    best = [line for line in capsys.readouterr().out.splitlines() if line.startswith("best at")]
    assert best == [
        "best at 4096×64 float32: online,block_size=8, 1.33 times as fast as online,block_size=16",
        "best at 4096×128 float32: online,block_size=16, 1.50 times as fast as online,block_size=8",
    ]


def test_progress_shows_bar_count_time_left_and_the_point_on_one_line(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], compose_job: Compose
) -> None:
    declared = {"dtype": "float32", "rows": 4096, "cols": 16384, "unsupported": None}
    job = compose_job(["kernel=online", "kernel.block_size=4096", "gpu=cpu"])
    point = Point(job, "key", 0, 0, "a card", "cpu", {}, declared)
    terminal(80)
    with Progress(75, 0) as progress:
        progress.begins(point)
        progress.ends(point, row("online", 16384, time_us=76830.4))
    line = [line for line in plain(capsys.readouterr().err) if line][-1]
    assert re.search(r" 1/75 [\d:-]+ online,block_size=4096 4096×16384 flo", line)
    assert len(line) <= 80


def test_the_seconds_of_a_run_add_up_to_its_wall_time_on_each_card() -> None:
    def timed(number: int, card: int) -> Row:
        changes = {"sampling_s": 0.5 + card, "compile_s": 0.2, "wall_s": 0.8}
        return row("torch", 1024, key=str(number), time_us=10.0, card=card, **changes)

    text = account([timed(i, 0) for i in range(4)], 4.0)
    assert text == "4 points in 4.0 s: sampling 2.0 s, compiling 0.8 s, the rest 1.2 s"
    first, *cards = account([timed(i, i % 2) for i in range(10)], 12.0).splitlines()
    assert first == "10 points in 12.0 s on 2 cards"
    seconds = [[float(s) for s in re.findall(r"([-\d.]+) s", line)] for line in cards]
    assert [round(sum(one), 1) for one in seconds] == [12.0, 12.0]
    assert [one[0] for one in seconds] == [2.5, 7.5]
