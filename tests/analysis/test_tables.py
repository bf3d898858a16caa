"""The tables: what each says of rows whose answer is known, and what it needs where it cannot."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest

from analysis.format import Cell, NamedTable, Table
from analysis.load import Inputs, Records, load
from analysis.tables import TABLES, tables_of
from analysis.tables.environment import trimmed_mean
from experiments.data.jobs import Declaration
from experiments.data.rows import Row
from tests.analysis.limit_rows import limits
from tests.analysis.loss_rows import SHAPES, loss
from tests.analysis.plausible import PASSES, interpreted, paper, row, unsupported, write
from tests.analysis.records import count

Lines = dict[tuple[str, ...], dict[str, str]]
SLOWER = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.04}  # card 3 takes 4 % more
EVENTS = "CUDA events, cold cache"


def declared(kernel: str, reads: str, writes: str, total: str, **more: Any) -> Declaration:
    fields = {"kernel": kernel, "target": "x", "operation": "softmax", "backend": "triton",
              "params": {}, "source": "0123456789abcdef", "idea": "", "latex": "",
              "on_chip": "1", "reads": reads, "writes": writes, "formula": total}  # fmt: skip
    return Declaration.model_validate(fields | more)


NAIVE = declared("naive", "2M + 5MN", "3MN + 2M", "8MN + 4M")
FUSED = declared("fused", "MN", "MN", "2MN", on_chip="N")
ONLINE = declared("online", "2MN", "MN", "3MN", on_chip="1024", params={"block_size": 1024})
HYBRID = declared("hybrid", "MN if N ≤ 64 else 3MN", "MN", "2MN if N ≤ 64 else 4MN",
                  on_chip="N if N ≤ 64 else 64", params={"block_size": 64})  # fmt: skip


def make(
    name: str, folder: Path, rows: list[Row], *variants: Declaration, counts: tuple[Any, ...] = ()
) -> list[NamedTable]:
    """The tables of one maker."""
    declarations = {one.kernel: one for one in variants}
    frame = load(write(folder, rows))
    inputs = Inputs(folder, folder, frame, Records(counts), declarations)
    return tables_of(inputs, [name])[0]


def lines_of(table: Table, *columns: int) -> Lines:
    """A table's cells by their heads, by the cells of these columns of a line."""
    return {
        tuple(line[column] for column in columns): dict(zip(table.heads, line, strict=True))
        for line in table.lines
    }


def test_memory_and_flops_have_lines_where_they_say_something(tmp_path: Path) -> None:
    most = row("naive", 256, time_us=10.0, peak_bytes=30_000_000, flops=40_000_000)
    least = row("fused", 256, time_us=10.0, peak_bytes=15_000_000)
    (named,) = make("main", tmp_path / "several", [most, least, row("copy", 256)])
    found = {line[1]: list(line[2:]) for line in named.table.lines}
    assert (found["memory MB"], found["Tflop/s"]) == (["30.0", "15.0", ""], ["4.00", "", ""])
    assert any(note.startswith("Memory: ") for note in named.table.notes)
    alike = [
        row(name, 256, peak_bytes=8_000_000 + size) for name, size in (("naive", 0), ("fused", 9))
    ]
    (named,) = make("main", tmp_path / "alike", alike)
    assert {line[1] for line in named.table.lines} == {"time µs", "95 %", "GB/s", "of roof"}


def test_peak_memory_is_told_in_matrices_or_where_it_is_little_in_bytes(tmp_path: Path) -> None:
    matrix = 8192 * 32000 * 2
    rows = loss({"ce_auto": 0.25, "read": 0.24}, SHAPES[:2])
    rows += loss({"ce_naive": 2.0}, SHAPES[:1], peak_bytes=3 * matrix)
    rows += loss({"ce_quack": 0.26}, SHAPES[:1], peak_bytes=0)
    (named,) = make("memory", tmp_path, rows)
    assert named.stem == "memory-cross-entropy-nvidia-h200-bfloat16"
    assert named.table.heads == ["M×N", "ce_naive", "ce_auto", "ce_quack"]
    assert named.table.lines == [
        ["8192×32000", "3.00", "32.8 KB", "0"],
        ["8192×50257", "–", "32.8 KB", "–"],
    ]
    assert make("memory", tmp_path / "older", paper()) == []


def test_main_says_what_each_operation_moves_and_what_its_roof_is(tmp_path: Path) -> None:
    rows = [*loss({"ce_auto": 0.25, "read": 0.24}), *paper(), *other_rows()]
    notes = {named.table.title.split(", ")[1]: named.table.notes[0]
             for named in make("main", tmp_path, rows)}  # fmt: skip
    assert "(MN of cross_entropy)" in notes["cross_entropy"]
    assert "the fastest read of" in notes["cross_entropy"]
    assert "(2MN of softmax)" in notes["float32"]
    assert "the fastest copy of" in notes["float32"]
    assert "must move over the time" in notes["odd"], "no number of passes over M×N elements"


def other_rows() -> list[Row]:
    """An operation that moves neither one pass nor two."""
    fields = {"operation": "odd", "roof": "read", "compulsory_bytes": 8192 * 32000 * 3}
    return loss({"odd_auto": 1.0}, SHAPES[:1], **fields)


def test_where_answers_are_not_the_same_bits_is_said(tmp_path: Path) -> None:
    def judged(kernel: str, cols: int, call: bool | None, batch: bool | None, **more: Any) -> Row:
        return row(kernel, cols, deterministic=call, batch_invariant=batch, **more)

    rows = [
        *(judged("fused", n, True, True) for n in (256, 512)),
        *(judged("online", n, True, n != 512) for n in (256, 512, 1024)),
        judged("online", 256, True, False, round=1),  # of several visits the worst
        *(judged("naive", 2**k, False, False) for k in range(8, 14)),
        judged("three_pass", 256, True, None),
        row("torch", 256),  # nobody asked
    ]
    (named,) = make("determinism", tmp_path, rows)
    m = rows[0].rows
    assert [line[1:] for line in named.table.lines] == [
        ["naive", "no", "no", "6"],
        ["three_pass", "yes", "–", "1"],
        ["online", "yes", f"not at {m}×256 float32, {m}×512 float32", "3"],
        ["fused", "yes", "yes", "2"],
    ]


def strong(line: dict[str, str]) -> set[str]:
    return {head for head, cell in line.items() if isinstance(cell, Cell) and cell.strong}


def machine(named: NamedTable) -> list[dict[str, str]]:
    """The lines of a table's CSV for machines."""
    assert named.data is not None
    return list(csv.DictReader(io.StringIO(named.data.csv())))


def test_a_table_that_cannot_be_made_says_what_it_needs(tmp_path: Path) -> None:
    rows = [row("fused", 256, time_us=None, status="crashed", model_bytes=None)]
    inputs = Inputs(tmp_path, tmp_path, load(write(tmp_path, rows)), Records(), {})
    made, missing = tables_of(inputs)
    assert [one.stem for one in made] == ["environment"]
    names = {text.partition(" needs ")[0] for text in missing}
    assert names == TABLES.keys() - {"environment"}
    assert all(text.partition(" needs ")[2] and "\n" not in text for text in missing)


def test_main_aggregates_bytes_over_time_and_ratios_by_their_geometric_mean(
    tmp_path: Path,
) -> None:
    times = {("naive", 256): 10.0, ("naive", 4096): 1000.0, ("fused", 256): 5.0,
             ("fused", 4096): 100.0, ("copy", 256): 4.0, ("copy", 4096): 90.0}  # fmt: skip
    [one] = make("main", tmp_path, [row(k, n, time_us=t) for (k, n), t in times.items()])
    lines = lines_of(one.table, 0, 1)
    speed = lines["2 shapes", "Σ bytes / Σ time, GB/s"]["fused"]
    size = 2 * 4096 * (256 + 4096) * 4
    assert float(speed.replace(",", "")) == pytest.approx(size / 105 / 1e3, rel=0.01)
    ratio = lines["", "times as fast as naive"]["fused"]
    assert float(ratio.removesuffix("×")) == pytest.approx(math.sqrt(2 * 10), rel=0.01)
    # the ends of an interval are what both times' intervals, ± 1 %, allow
    low, high = map(float, one.table.lines[-1][one.table.heads.index("fused")].split("–"))
    wide = pytest.approx((math.sqrt(20) * 0.99 / 1.01, math.sqrt(20) * 1.01 / 0.99), abs=0.01)
    assert (low, high) == wide
    [at_256, _] = [line for line in machine(one) if line["variant"] == "naive"]
    assert (at_256["cols"], at_256["time_us"], at_256["above_roof"]) == ("256", "10", "false")
    assert at_256["speedup_over_naive"] == "1"


def test_main_marks_what_is_above_the_roof_and_never_calls_it_best(tmp_path: Path) -> None:
    rows = [row("copy", 1024, time_us=40.0), row("torch", 1024, time_us=20.0)]
    rows += [row("fused", 1024, time_us=50.0), unsupported("online", 1024)]
    rows += [row("fused", 1024, gpu="Nonesuch"), interpreted("fused", 1024)]
    h200, other = make("main", tmp_path, rows)
    assert (h200.stem, other.stem) == ("main-nvidia-h200-float32", "main-nonesuch-float32")
    text = h200.table.markdown()
    assert "200.0 %!" in text
    assert "! above the roof" in text
    time = lines_of(h200.table, 1)["time µs",]
    assert strong(time) == {"fused"}
    assert time["online"] == "unsupported (a)"
    assert "(a) the row does not fit on chip" in text
    [online] = [line for line in machine(h200) if line["variant"] == "online"]
    assert (online["status"], online["time_us"], online["above_roof"]) == (
        "unsupported", "", "false"
    )  # fmt: skip


def test_main_is_of_one_operation_and_says_why_sampling_ended(tmp_path: Path) -> None:
    rows = [row(k, n, stop_reason="time_limit" if k == "naive" else "converged")
            for k in ("naive", "fused", "copy") for n in (256, 1024)]  # fmt: skip
    gradient = {"operation": "softmax_backward", "roof": "copy"}
    rows += [row("backward", n, **gradient) for n in (256, 1024)]
    softmax, backward = make("main", tmp_path, rows)
    assert backward.stem == "main-softmax-backward-nvidia-h200-float32"
    assert softmax.table.heads[2:] == ["naive", "fused", "copy"]
    assert backward.table.heads[2:] == ["backward", "copy"]
    assert ["(a)" in cell for cell in softmax.table.lines[0][2:]] == [True, False, False]
    assert "(a) not converged: time limit" in softmax.table.notes


def test_d_test_shows_the_worst_visit_to_its_shape(tmp_path: Path) -> None:
    place: dict[str, Any] = {"rows": 1823, "relative_error": 1e-7}
    rows = [
        row("fused", 781, round=i, max_abs_error=e, **place) for i, e in enumerate((1e-9, 4e-9))
    ]
    rows += [row("online", 781, time_us=None, status="incorrect", reason="row 3", **place)]
    rows += [row("online", 781, round=1, max_abs_error=1.0, **place)]
    [one] = make("d_test", tmp_path, rows)
    assert [line[2:5] for line in one.table.lines] == [
        ["online", "incorrect: row 3", "–"], ["fused", "ok", "4.00e-09"]
    ]  # fmt: skip


def test_a_tab1_compares_declared_polynomials_with_printed_ones_and_counts(tmp_path: Path) -> None:
    rows, counts = [row("naive", 256)], (count("naive"), count("online", source="older"))
    wrong = FUSED.model_copy(update={"reads": "2MN"})
    [one] = make("a_tab1", tmp_path, rows, NAIVE, wrong, ONLINE, counts=counts)
    lines = lines_of(one.table, 0)
    assert {k: (line["equal"], line["A: total"]) for (k,), line in lines.items()} == {
        "naive": ("yes", "8MN + 4M"), "fused": ("no", "2MN"), "online": ("–", "–")
    }  # fmt: skip
    assert lines["naive",]["counted"].startswith("nominal, int64 indices")
    assert lines["online",]["counted"] == "other code was counted"
    [refuted] = make("a_tab1", tmp_path, rows, FUSED)
    assert lines_of(refuted.table, 0)["naive",]["equal"] == "not declared"


def test_b_tab1_derives_orders_from_declarations_and_widths_from_rows(tmp_path: Path) -> None:
    rows = [row("naive", 1024), row("fused", 1024), row("online", 65536, dtype="float16")]
    rows += [unsupported("fused", 65536), unsupported("fused", 99999)]
    rows += [unsupported("online", 512, dtype="float16", gpu="NVIDIA L4")]
    [one] = make("b_tab1", tmp_path, rows, NAIVE, FUSED, ONLINE, HYBRID)
    lines = lines_of(one.table, 0)
    assert {k: (line["on chip per row"], line["any N"]) for (k,), line in lines.items()} == {
        "naive": ("O(1)", "yes"), "fused": ("O(N)", "no"), "online": ("O(B)", "yes"),
        "hybrid": ("O(B)", "yes"),
    }  # fmt: skip
    assert {lines[name,]["equal"] for name in ("naive", "fused", "online")} == {"yes"}
    seen = "widths in rows, float32"
    assert lines["fused",][seen].startswith("ran to N = 1,024; unsupported at 65,536: the row does")
    assert lines["online",][seen].startswith(
        "float16: NVIDIA H200: ran to N = 65,536, the widest tried; NVIDIA L4: ran nowhere; unsup"
    )
    [other] = make("b_tab1", tmp_path, rows, FUSED.model_copy(update={"on_chip": "1"}))
    assert lines_of(other.table, 0)["fused",]["equal"] == "no"


def point(own: float, peer: float, copy: float, cols: int = 4096) -> list[Row]:
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, cols, time_us=t, round=i) for k, t in times.items() for i in range(3)]


def test_the_summary_counts_defeats_and_no_win_over_the_roof(tmp_path: Path) -> None:
    rows = point(100.0, 90.0, 85.0) + point(10.0, 9.7, 9.5, cols=256)
    rows += point(100.0, 900.0, 130.0, cols=8192)
    [one] = make("limits_summary", tmp_path, rows)
    assert [one.table.lines[i][0] for i in (0, -1)] == ["256 MB and more", "all"]
    line = lines_of(one.table, 1, 0)[EVENTS, "all"]
    assert (line["count"], line["behind"]) == ("3", "1")
    # (0.9 · 0.97 · 900/130)^⅓: 100 µs are above the roof, whose copy takes 130
    assert line["× best peer"].startswith("1.822 (")
    assert line["summed"] == f"{(90 + 9.7 + 900) / (100 + 10 + 130):.3f}"
    assert any("1 points. There the copy's time" in note for note in one.table.notes)
    short = lines_of(one.table, 0)["below 25 µs",]
    assert short["peer less auto, µs"] == "-0.30 (-0.30 to -0.30)"


def test_widths_nobody_tuned_for_have_lines_and_tables_of_their_own(tmp_path: Path) -> None:
    rows = point(100.0, 120.0, 95.0) + point(100.0, 110.0, 95.0, cols=5003)
    [one] = make("limits_summary", tmp_path / "a", rows)
    lines = lines_of(one.table, 0, 2)
    means = {widths: lines["all", widths]["× best peer"][:5] for widths in ("tuned", "held out")}
    assert means == {"tuned": "1.200", "held out": "1.100"}
    stems = [table.stem for table in make("limits", tmp_path / "b", rows)]
    assert stems == [f"limits-nvidia-h200-events{more}" for more in ("", "-held_out")]


def test_tables_of_limits_say_which_times_had_not_converged(tmp_path: Path) -> None:
    rows = limits([(4096, 1024)], ("auto", "torch", "copy"), ["float32"], ["events"])
    ended = {"auto": "converged", "torch": "max_samples", "copy": "converged"}
    rows = [one.model_copy(update={"stop_reason": ended[one.kernel]}) for one in rows]
    (named,) = make("limits", tmp_path, rows)
    assert any("Of 9 rows, not converged: max samples 3." in note for note in named.table.notes)
    data = named.data
    assert data is not None
    place = data.heads.index("unconverged")
    assert [line[place] for line in data.lines] == ["torch not converged: max samples"]


def test_a_peer_whose_answer_is_wrong_is_named_in_place_of_its_time(tmp_path: Path) -> None:
    wrong = row("quack", 4096, time_us=None, status="incorrect", timer=None, cache=None)
    rows = [*point(100.0, 110.0, 95.0), *point(10.0, 11.0, 9.5, cols=256), wrong]
    [one] = make("limits", tmp_path, rows)
    lines = lines_of(one.table, 0)
    assert (lines["4096×4096",]["quack"], lines["4096×256",]["quack"]) == ("incorrect", "–")
    assert one.data is not None
    assert [line[-1] for line in one.data.lines] == ["", "quack: incorrect"]
    [short] = make("limits_summary", tmp_path, rows)
    assert "measured: torch. Not measured: TileLang" in short.table.notes[-2]
    assert "quack incorrect at 4096×4096 float32." in short.table.notes[-1]


def test_points_above_the_roof_are_counted_and_named(tmp_path: Path) -> None:
    rows = point(100.0, 90.0, 95.0) + point(100.0, 99.0, 98.0, cols=8192)
    [one] = make("above_roof", tmp_path, rows)
    lines = lines_of(one.table, 2)
    named = ("points", "above", "of them above", "which")
    assert [lines["auto",][name] for name in named] == ["2", "0", "0", "–"]
    assert [lines["torch",][name] for name in named] == ["2", "1", "0", "4096×4096 float32 105.6 %"]
    assert one.data is not None
    assert len(one.data.lines) == 1


def on_cards(**changes: Any) -> list[Row]:
    """Three variants at three widths on four cards, and a short point that no card slows."""
    rows = []
    for card, factor in SLOWER.items():
        for kernel in ("torch", "online", "copy"):
            for n in (2048, 4096, 8192):
                time = 10.0 * PASSES[kernel][0] * n / 256 * factor
                rows.append(row(kernel, n, time_us=time, card=card, **changes))
        rows.append(row("torch", 256, rows=64, time_us=12.0, card=card, **changes))
    return rows


def test_a_card_that_is_slower_shows_as_slower(tmp_path: Path) -> None:
    [one] = make("card_to_card", tmp_path, on_cards())
    lines = lines_of(one.table, 2, 4)
    mean = 1.04**0.25  # of four cards one takes 4 % more
    for card, factor in SLOWER.items():
        assert lines["20 µs and more", str(card)]["mean"] == f"{factor / mean:.4f}"
        assert lines["below 20 µs", str(card)]["mean"] == "1.0000"
    assert lines["20 µs and more", "slowest / fastest"]["mean"] == "1.0400"
    every = machine(one)
    assert len(every) == 4 * 10
    for line in every:
        low, ratio, high = (float(line[f"ratio{end}"]) for end in ("_low", "", "_high"))
        assert (low, high) == pytest.approx((0.99 * ratio, 1.01 * ratio), rel=1e-4)


def test_a_trimmed_mean_leaves_out_as_many_samples_at_each_end() -> None:
    assert trimmed_mean([90.0, *range(2, 10), -70.0], 10) == pytest.approx(5.5)
    assert trimmed_mean([1.0, 2.0, 6.0], 10) == pytest.approx(3.0)
