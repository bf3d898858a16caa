from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from analysis.format import Cell, NamedTable
from analysis.tables import tables_of
from analysis.tables.environment import c_prof, environment
from analysis.tables.results import d_test, main
from experiments.data.rows import Row
from tests.analysis.material import by_first, lines_of, material_of
from tests.analysis.plausible import interpreted, row, unsupported


def _main(folder: Path, rows: list[Row]) -> list[NamedTable]:
    return main(material_of(folder, rows))


def test_many_shapes_are_told_as_bytes_over_time_and_as_a_geometric_mean(tmp_path: Path) -> None:
    times = {("naive", 256): 10.0, ("naive", 4096): 1000.0, ("fused", 256): 5.0,
             ("fused", 4096): 100.0, ("copy", 256): 4.0, ("copy", 4096): 90.0}  # fmt: skip
    (one,) = _main(tmp_path, [row(k, n, time_us=t) for (k, n), t in times.items()])
    found = {line[1]: dict(zip(one.table.heads, line, strict=True)) for line in one.table.lines}
    size = 2 * 4096 * (256 + 4096) * 4
    speed = found["Σ bytes / Σ time, GB/s"]["fused"]
    assert float(speed.replace(",", "")) == pytest.approx(size / 105 / 1e3, rel=0.01)
    ratio = found["times as fast as naive"]["fused"]
    assert float(ratio.removesuffix("×")) == pytest.approx(math.sqrt(2 * 10), rel=0.01)


def test_a_row_above_the_roof_is_marked_and_never_the_best(tmp_path: Path) -> None:
    rows = [row("copy", 1024, time_us=40.0), row("torch", 1024, time_us=20.0)]
    rows += [row("fused", 1024, time_us=50.0), unsupported("online", 1024)]
    rows += [row("fused", 1024, gpu="Nonesuch"), interpreted("fused", 1024)]
    h200, other = _main(tmp_path, rows)
    assert (h200.stem, other.stem) == ("main-nvidia-h200-float32", "main-nonesuch-float32")
    text = h200.table.markdown()
    time = dict(zip(h200.table.heads, h200.table.lines[0], strict=True))
    assert "200.0 %!" in text
    assert "! above the roof" in text
    assert {k for k, v in time.items() if isinstance(v, Cell) and v.strong} == {"fused"}
    assert time["online"] == "unsupported (a)"
    assert "(a) the row does not fit on chip" in text


def test_the_environment_tells_no_host_and_no_user(tmp_path: Path) -> None:
    told = {"torch": "2.13.0", "host": "node-17", "user": "ada", "commit": "ab" * 20, "dirty": True}
    rows = [row("fused", n, environment=told, power_w=p) for n, p in ((256, 300.0), (512, 500.5))]
    rows += [row("fused", 256, gpu="Nonesuch", throttled=["heat"])]
    made = environment(material_of(tmp_path, rows))[0].table
    text = made.markdown() + made.csv() + made.latex()
    assert "node-17" not in text
    assert "ada" not in text.replace("adasheet", "").replace("datasheet", "")
    lines = by_first(made)
    assert lines["power, W"]["NVIDIA H200"] == "300 to 500.5"
    assert lines["commit"]["NVIDIA H200"] == "abababababab (dirty)"
    assert (
        lines["datasheet bandwidth, GB/s"] | {"Nonesuch": "–", "NVIDIA H200": "4,800"}
        == (lines["datasheet bandwidth, GB/s"])
    )
    assert lines["throttled rows"]["Nonesuch"] == "1 of 1: heat"


def test_d_test_tells_the_worst_visit_to_its_shape(tmp_path: Path) -> None:
    place: dict[str, Any] = {"rows": 1823, "relative_error": 1e-7}
    rows = [
        row("fused", 781, round=i, max_abs_error=e, **place) for i, e in enumerate((1e-9, 4e-9))
    ]
    rows += [row("online", 781, time_us=None, status="incorrect", reason="row 3", **place)]
    rows += [row("online", 781, round=1, max_abs_error=1.0, **place)]
    [table] = d_test(material_of(tmp_path, rows))
    assert [line[2:5] for line in table.table.lines] == [
        ["online", "incorrect: row 3", "–"], ["fused", "ok", "4.00e-09"]
    ]  # fmt: skip
    _, [missing] = tables_of(material_of(tmp_path, [row("fused", 256)]), ["d_test"])
    assert "needs rows at 1823×781" in missing


def test_c_prof_takes_our_side_from_rows_and_their_configuration(tmp_path: Path) -> None:
    samples = [[1.0] * 120, [1.0] * 500]
    rows = [row("fused", 256 + i, samples_us=s, stop_reason="converged")
            for i, s in enumerate(samples)]  # fmt: skip
    (tmp_path / "config.json").write_text('{"timing": {"warmup": 7, "precision": 0.01}}')
    lines = lines_of(c_prof(material_of(tmp_path, rows)))
    ours = "this project, as its rows record it"
    assert lines["warm-up"][ours] == "7 samples"
    assert lines["samples"][ours] == "120 to 500 (converged 2)"
    assert lines["bytes"] == {"": "bytes", "C": "2·M·N·itemsize", ours: "2·M·N·itemsize"}
    halved = [r.model_copy(update={"compulsory_bytes": 4096 * r.cols * 4}) for r in rows]
    assert lines_of(c_prof(material_of(tmp_path, halved)))["bytes"][ours] == "1·M·N·itemsize"
