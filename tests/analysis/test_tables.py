from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.format import Cell
from analysis.load import Records
from analysis.tables import tables_of
from analysis.tables.declared import a_tab1, b_tab1
from experiments.data.jobs import Declaration
from tests.analysis.evidence import count
from tests.analysis.material import lines_of, material_of
from tests.analysis.plausible import row, unsupported


def _declared(kernel: str, reads: str, writes: str, total: str, **more: Any) -> Declaration:
    fields = {"kernel": kernel, "target": "x", "operation": "softmax", "backend": "triton",
              "params": {}, "source": "0123456789abcdef", "idea": "", "latex": "",
              "on_chip": "1"}  # fmt: skip
    told = {"reads": reads, "writes": writes, "formula": total}
    return Declaration.model_validate(fields | told | more)


NAIVE = _declared("naive", "2M + 5MN", "3MN + 2M", "8MN + 4M")
FUSED = _declared("fused", "MN", "MN", "2MN", on_chip="N")
ONLINE = _declared("online", "2MN", "MN", "3MN", on_chip="1024", params={"block_size": 1024})
HYBRID = _declared("hybrid", "MN if N ≤ 64 else 3MN", "MN", "2MN if N ≤ 64 else 4MN",
                   on_chip="N if N ≤ 64 else 64", params={"block_size": 64})  # fmt: skip


def test_a_tab1_holds_declared_polynomials_against_printed_ones_and_counts(tmp_path: Path) -> None:
    evidence = Records(counts=(count("naive"), count("fused"), count("online", source="older")))
    wrong = FUSED.model_copy(update={"reads": "2MN"})
    rows = [row("naive", 256)]
    lines = lines_of(a_tab1(material_of(tmp_path, rows, NAIVE, FUSED, ONLINE, evidence=evidence)))
    assert list(lines)[:2] == ["naive", "fused"]
    assert lines["naive"]["A: total"] == "8MN + 4M"
    assert lines["naive"]["equal"] == "yes"  # as polynomials: the terms stand in another order
    assert lines["naive"]["counted"].startswith("exact, int64 indices")
    assert lines["online"] | {"equal": "–", "A: total": "–"} == lines["online"]
    assert lines["online"]["counted"] == "other code was counted"
    reads = lines["naive"]["reads"]
    assert isinstance(reads, Cell)
    assert reads.latex == "$5MN + 2M$"
    refuted = lines_of(a_tab1(material_of(tmp_path, rows, NAIVE, wrong)))
    assert refuted["fused"]["equal"] == "no"
    assert lines_of(a_tab1(material_of(tmp_path, rows, FUSED)))["naive"]["equal"] == "not declared"


def test_b_tab1_derives_orders_from_declarations_and_asks_the_rows(tmp_path: Path) -> None:
    rows = [row(kernel, 1024) for kernel in ("naive", "fused", "online")]
    rows += [row("online", 65536), unsupported("fused", 65536), unsupported("fused", 99999)]
    lines = lines_of(b_tab1(material_of(tmp_path, rows, NAIVE, FUSED, ONLINE, HYBRID)))
    got = {name: (line["on chip a row"], line["any N"]) for name, line in lines.items()}
    assert got == {
        "naive": ("O(1)", "yes"), "fused": ("O(N)", "no"), "online": ("O(B)", "yes"),
        "hybrid": ("O(B)", "yes"),
    }  # fmt: skip
    assert {lines[name]["equal"] for name in ("naive", "fused", "online")} == {"yes"}
    seen = "widths in rows, float32"
    assert lines["fused"][seen].startswith("ran to N = 1,024; unsupported at 65,536: the row does")
    assert lines["online"][seen] == "ran to N = 65,536, the widest tried"
    large = FUSED.model_copy(update={"on_chip": "1"})
    assert lines_of(b_tab1(material_of(tmp_path, rows, large)))["fused"]["equal"] == "no"


def test_what_cannot_be_told_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row("fused", 256, time_us=None, status="crashed", model_bytes=None)]
    made, missed = tables_of(material_of(tmp_path, rows))
    assert [one.stem for one in made] == ["environment"]
    assert all(" needs " in text for text in missed)
    assert {text.split()[0] for text in missed} == {
        "main", "a_tab1", "b_tab1", "c_ex", "c_prof", "d_test", "limits", "limits_summary",
        "traffic", "cards", "card_to_card",
    }  # fmt: skip
