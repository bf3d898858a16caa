"""The tables: what each says of rows whose answer is known, and what it needs where it cannot."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest

from analysis.format import Cell, NamedTable, Table
from analysis.load import Records
from analysis.tables import TABLES, tables_of
from experiments.data.jobs import Declaration
from experiments.data.rows import Row
from tests.analysis.given import inputs_of
from tests.analysis.plausible import PASSES, interpreted, row, unsupported
from tests.analysis.records import count

Lines = dict[tuple[str, ...], dict[str, str]]
OURS = "this project, as its rows record it"
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
    made, _ = tables_of(inputs_of(folder, rows, *variants, records=Records(counts)), [name])
    return made


def lines_of(table: Table, *columns: int) -> Lines:
    """A table's cells by their heads, by the cells of these columns of a line."""
    return {
        tuple(line[column] for column in columns): dict(zip(table.heads, line, strict=True))
        for line in table.lines
    }


def strong(line: dict[str, str]) -> set[str]:
    return {head for head, cell in line.items() if isinstance(cell, Cell) and cell.strong}


def machine(named: NamedTable) -> list[dict[str, str]]:
    """The lines of a table's CSV for machines."""
    assert named.data is not None
    return list(csv.DictReader(io.StringIO(named.data.csv())))


def test_a_table_that_cannot_be_made_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row("fused", 256, time_us=None, status="crashed", model_bytes=None)]
    made, missing = tables_of(inputs_of(tmp_path, rows))
    assert [one.stem for one in made] == ["environment"]
    names = [maker.name for maker in TABLES if maker.name != "environment"]
    assert [text.partition(" needs ")[0] for text in missing] == names
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


def test_main_leaves_out_times_without_a_protocol(tmp_path: Path) -> None:
    rows = [row("fused", 1024, timer=None, cache=None), row("torch", 1024)]
    [one] = make("main", tmp_path, rows)
    assert one.table.heads == ["M×N", "", "torch"]
    assert make("main", tmp_path / "none", rows[:1]) == []


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
    rows, counts = [row("naive", 256)], (count("naive"), count("fused"))
    counts += (count("online", source="older"),)
    [one] = make("a_tab1", tmp_path, rows, NAIVE, FUSED, ONLINE, counts=counts)
    lines = lines_of(one.table, 0)
    assert [line[0] for line in one.table.lines] == ["naive", "fused", "online"]
    assert lines["naive",]["A: total"] == "8MN + 4M"
    assert lines["naive",]["equal"] == "yes"  # as polynomials: the terms stand in another order
    assert lines["naive",]["counted"].startswith("exact, int64 indices")
    assert (lines["online",]["equal"], lines["online",]["A: total"]) == ("–", "–")
    assert lines["online",]["counted"] == "other code was counted"
    reads = lines["naive",]["reads"]
    assert isinstance(reads, Cell)
    assert reads.latex == "$5MN + 2M$"
    wrong = FUSED.model_copy(update={"reads": "2MN"})
    [refuted] = make("a_tab1", tmp_path, rows, wrong)
    assert lines_of(refuted.table, 0)["fused",]["equal"] == "no"
    assert lines_of(refuted.table, 0)["naive",]["equal"] == "not declared"


@pytest.mark.parametrize(("changes", "text"), [
    ({"difference": "reads 2MN where the model says MN: L2 misses"},
     "writes exact; reads 2MN: L2 misses (1 counts)"),
    ({"method": "none", "reason": "a library: no source"}, "a library (1 counts)"),
    ({"reason": "taken to read once"}, "nominal (1 counts)"),
])  # fmt: skip
def test_a_tab1_says_why_a_count_differs(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    reads = 5 * 8192 * (2 if "difference" in changes else 1)
    one = count("fused").model_copy(update=changes | {"model_reads": reads})
    odd = FUSED.model_copy(update={"reads": "ceil(N/B)·M"})
    [table] = make("a_tab1", tmp_path, [row("fused", 256)], odd, counts=(one,))
    line = lines_of(table.table, 0)["fused",]
    assert (line["counted"], line["equal"]) == (text, "not comparable")


def test_b_tab1_names_dtypes_and_gpus_where_widths_differ(tmp_path: Path) -> None:
    rows = [row("fused", n, dtype="float16") for n in (256, 1024)]
    rows += [unsupported("fused", 512, dtype="float16", gpu="NVIDIA L4")]
    [one] = make("b_tab1", tmp_path, rows, FUSED)
    assert lines_of(one.table, 0)["fused",]["widths in rows, float32"] == (
        "float16: NVIDIA H200: ran to N = 1,024, the widest tried; "
        "NVIDIA L4: ran nowhere; unsupported at 512: the row does not fit on chip"
    )


def test_b_tab1_derives_orders_from_declarations_and_widths_from_rows(tmp_path: Path) -> None:
    rows = [row(kernel, 1024) for kernel in ("naive", "fused", "online")]
    rows += [row("online", 65536), unsupported("fused", 65536), unsupported("fused", 99999)]
    [one] = make("b_tab1", tmp_path, rows, NAIVE, FUSED, ONLINE, HYBRID)
    lines = lines_of(one.table, 0)
    assert {k: (line["on chip per row"], line["any N"]) for (k,), line in lines.items()} == {
        "naive": ("O(1)", "yes"), "fused": ("O(N)", "no"), "online": ("O(B)", "yes"),
        "hybrid": ("O(B)", "yes"),
    }  # fmt: skip
    assert {lines[name,]["equal"] for name in ("naive", "fused", "online")} == {"yes"}
    seen = "widths in rows, float32"
    assert lines["fused",][seen].startswith("ran to N = 1,024; unsupported at 65,536: the row does")
    assert lines["online",][seen] == "ran to N = 65,536, the widest tried"
    [other] = make("b_tab1", tmp_path, rows, FUSED.model_copy(update={"on_chip": "1"}))
    assert lines_of(other.table, 0)["fused",]["equal"] == "no"


def test_c_prof_takes_our_side_from_rows_and_their_configuration(tmp_path: Path) -> None:
    samples = [[1.0] * 120, [1.0] * 500]
    rows = [row("fused", 256 + i, samples_us=s, stop_reason="converged")
            for i, s in enumerate(samples)]  # fmt: skip
    (tmp_path / "config.json").write_text('{"timing": {"warmup": 7, "precision": 0.01}}')
    [one] = make("c_prof", tmp_path, rows)
    lines = lines_of(one.table, 0)
    assert lines["warm-up",][OURS] == "7 samples"
    assert lines["samples",][OURS] == "120 to 500 (converged 2)"
    assert lines["bytes",] == {"": "bytes", "C": "2·M·N·itemsize", OURS: "2·M·N·itemsize"}
    halved = [r.model_copy(update={"compulsory_bytes": 4096 * r.cols * 4}) for r in rows]
    [other] = make("c_prof", tmp_path, halved)
    assert lines_of(other.table, 0)["bytes",][OURS] == "1·M·N·itemsize"


def test_the_environment_shows_no_host_and_no_user(tmp_path: Path) -> None:
    facts = {"torch": "2.13.0", "host": "node-17", "user": "ada", "commit": "ab" * 20,
             "dirty": True}  # fmt: skip
    rows = [row("fused", n, environment=facts, power_w=p) for n, p in ((256, 300.0), (512, 500.5))]
    rows += [row("fused", 256, gpu="Nonesuch", throttled=["heat"])]
    rows += [row("fused", 512, gpu="Nonesuch", throttled=[])]
    [one] = make("environment", tmp_path, rows)
    text = one.table.markdown() + one.table.csv() + one.table.latex()
    assert "node-17" not in text
    assert "ada" not in text.replace("adasheet", "").replace("datasheet", "")
    lines = lines_of(one.table, 0)
    assert lines["power, W",]["NVIDIA H200"] == "300 to 500.5"
    assert lines["commit",]["NVIDIA H200"] == "abababababab (dirty)"
    bandwidth = lines["datasheet bandwidth, GB/s",]
    assert (bandwidth["NVIDIA H200"], bandwidth["Nonesuch"]) == ("4,800", "–")
    throttled = lines["throttled rows",]
    assert (throttled["NVIDIA H200"], throttled["Nonesuch"]) == ("–", "1 of 2: heat")


def point(own: float, peer: float, copy: float, cols: int = 4096) -> list[Row]:
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, cols, time_us=t, round=i) for k, t in times.items() for i in range(3)]


@pytest.mark.parametrize(("own", "peer", "fastest"), [(100, 120, "auto"), (100, 90, "torch")])
def test_limits_sets_the_fastest_softmax_in_bold_and_a_copy_never(
    tmp_path: Path, own: float, peer: float, fastest: str
) -> None:
    [one] = make("limits", tmp_path, point(own, peer, 80.0))
    [line] = lines_of(one.table, 0).values()
    assert strong(line) == {fastest}
    assert line["× best peer"] == f"{peer / own:.3f}"
    assert line["of roof"] == "80.0 %"


def test_limits_for_machines_has_every_number_with_its_interval(tmp_path: Path) -> None:
    [one] = make("limits", tmp_path, point(100.0, 150.0, 95.0))
    [line] = machine(one)
    assert (line["rounds"], line["best_peer"], line["moved_bytes"]) == ("3", "torch", "134217728")
    assert float(line["best_ratio"]) == pytest.approx(1.5)
    assert float(line["best_low"]) <= 1.5 <= float(line["best_high"])
    assert (line["roof_ratio"], line["auto_us"], line["above_roof"]) == ("0.95", "100", "false")
    [above] = make("limits", tmp_path / "above", point(100.0, 150.0, 130.0))
    assert above.table.lines[0][-1] == "130.0 %!"
    assert machine(above)[0]["above_roof"] == "true"


def test_the_summary_counts_defeats_and_no_win_over_the_roof(tmp_path: Path) -> None:
    rows = point(100.0, 90.0, 85.0) + point(10.0, 9.7, 9.5, cols=256)
    rows += point(100.0, 900.0, 130.0, cols=8192)
    [one] = make("limits_summary", tmp_path, rows)
    line = lines_of(one.table, 0, 1)[EVENTS, "all"]
    assert (line["count"], line["behind"]) == ("3", "1")
    # (0.9 · 0.97 · 900/130)^⅓: 100 µs are above the roof, whose copy takes 130
    assert line["× best peer"].startswith("1.822 (")
    assert "1 points. There the copy's time" in one.table.notes[-1]


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


def test_cards_of_two_sweeps_or_kinds_are_not_mixed(tmp_path: Path) -> None:
    rows = [r for r in on_cards() if r.card == 0]
    rows += [r for r in on_cards(sweep="elsewhere") if r.card == 1]
    rows += [r for r in on_cards(gpu="NVIDIA L4") if r.card == 2]
    assert make("card_to_card", tmp_path, rows) == []
