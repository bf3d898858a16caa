"""What a sweep shows of its points while it runs and when it ends."""

import re
from pathlib import Path

import pytest

from experiments.api import lines_of
from experiments.data.rows import Row
from experiments.parent.jobs import compose
from experiments.parent.plan import Point
from experiments.parent.summary import Progress, print_summary
from tests.analysis.plausible import row
from tests.conftest import Composed


def cells_of(out: Path) -> list[list[str]]:
    """The table's lines below its head, as cells."""
    _, _, *lines = (out / "table.md").read_text().splitlines()
    return [line.strip("| ").split(" | ") for line in lines]


def test_tables_are_sorted_and_a_time_that_did_not_converge_says_why_sampling_ended(
    tmp_path: Path,
) -> None:
    rows = [
        row("torch", n, rows=m, key=f"{m} {n}", time_us=9.0, stop_reason=reason)
        for m, n, reason in (
            (8, 256, "time_limit"), (4, 1024, "max_samples"), (4, 256, "converged")
        )
    ]  # fmt: skip
    print_summary(rows, {}, tmp_path, "", [])
    assert [(line[1], line[-1]) for line in cells_of(tmp_path)] == [
        ("4×256", "ok"),
        ("8×256", "ok; not converged: time limit"),
        ("4×1024", "ok; not converged: max samples"),
    ]
    lines = lines_of([("", one) for one in rows], ["torch"])
    assert [(line["rows"], line["cols"]) for line in lines] == [(4, 256), (8, 256), (4, 1024)]


def test_a_kernel_stands_beside_torch_and_the_best_other_with_intervals_and_a_verdict(
    tmp_path: Path,
) -> None:
    def timed(kernel: str, us: float) -> Row:
        return row(kernel, 1024, time_us=us, time_low_us=us - 1, time_high_us=us + 1, roof="copy")

    rows = [timed("fused", 10.0), timed("online", 16.0), timed("torch", 20.0)]
    print_summary(rows, {}, tmp_path, "", [])
    heads = (tmp_path / "table.md").read_text().splitlines()[0].strip("| ").split(" | ")
    first = [heads.index(head) for head in ("× torch", "× best other")]
    assert [[line[i].strip() for i in first] for line in cells_of(tmp_path)] == [
        ["2 (1.73–2.33)", "1.6 (1.36–1.89) online"],
        ["1.25 (1.12–1.4)", "0.625 (0.529–0.733) fused"],
        ["", "0.5 (0.429–0.579) fused"],
    ]
    elsewhere = row("torch", 1024, time_us=1.0, sweep="another", key="x")
    rows += [timed("copy", 4.0), elsewhere]
    for us, verdict in ((2.0, "faster"), (9.0, "no difference"), (30.0, "slower")):
        [line] = lines_of([("", one) for one in (*rows, timed("mine", us))], ["mine"])
        assert (line["best_other"], line["verdict"]) == ("fused", verdict)


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


def test_a_narrow_terminal_shows_every_column_and_one_line_of_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    composed: Composed,
) -> None:  # fmt: skip
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    slow = row("fused_multirow", 1024, time_us=76830.4, stop_reason="max_samples")
    print_summary([slow], {}, tmp_path, "", [])
    declared = {"dtype": "float32", "rows": 4096, "cols": 16384, "refusal": None}
    job = compose(["kernel=online", "kernel.block_size=4096", "gpu=cpu"])
    point = Point(job, "key", 0, 0, "a card", "cpu", {}, declared)
    with Progress(75, 0) as progress:
        progress.began(point)
        progress.ended(point, row("online", 16384, time_us=76830.4))
    shown = capsys.readouterr()
    table, live = (
        re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*\w", "", text).strip())
        for text in (shown.out, shown.err)
    )
    assert max(len(line) for line in table if str(tmp_path) not in line) <= 80
    assert "76,830" in "".join(table).replace(" ", "")
    assert re.search(r" 1/75 [\d:-]+ online,block_size=4096 4096×16384 flo", live[-1])
    assert len(live[-1]) <= 80
