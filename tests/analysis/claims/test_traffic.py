"""Traffic by counts and by counters, against a formula or another variant."""

from __future__ import annotations

from pathlib import Path

from analysis.load import Records
from experiments.data.records import TensorCount
from tests.analysis.claims.bench import judgement
from tests.analysis.evidence import count, counters
from tests.analysis.plausible import row


def test_counts_are_exact_and_what_is_nominal_is_no_count(tmp_path: Path) -> None:
    exact = {"counted": {"variant": "online", "formula": "3MN"}, "expect": {"equals": 1}}
    rows = [row("online", 1024)]
    seen = judgement(tmp_path / "a", rows, exact, evidence=Records(counts=(count("online"),)))
    assert (seen.verdict, seen.value) == ("supported", 1.0)
    assert seen.evidence.startswith("counts ")
    nominal = count("online", reason="nominal: taken from the model")
    for i, counts in enumerate(((), (nominal,))):
        lacking = judgement(tmp_path / f"b{i}", rows, exact, evidence=Records(counts=counts))
        assert lacking.verdict == "not testable here"
        assert lacking.findings[0].seen.needs == "make counts"


def test_one_element_more_than_the_formula_is_not_exact(tmp_path: Path) -> None:
    right = count("online")
    more = right.tensors[0].model_dump() | {"loads": right.tensors[0].loads + 1}
    wrong = right.model_copy(update={"tensors": [TensorCount(**more)]})
    check = {"counted": {"variant": "online", "formula": "3MN"}, "expect": {"equals": 1}}
    evidence = Records(counts=(wrong,))
    assert judgement(tmp_path, [row("online", 1024)], check, evidence=evidence).verdict == "refuted"


def test_traffic_relative_to_a_variant_pairs_like_shapes(tmp_path: Path) -> None:
    counts = (count("online"), count("fused"), count("fused", cols=64))
    check = {"counted": {"variant": "online", "relative_to": "fused"}, "expect": {"equals": 1.5}}
    evidence = Records(counts=counts)
    found = judgement(tmp_path, [row("online", 1024)], check, evidence=evidence)
    assert (found.verdict, found.value) == ("supported", 1.5)


def test_counters_are_those_of_the_card(tmp_path: Path) -> None:
    seen = counters("online", 4096, 16384, reads=2.0, writes=0.9)
    told = {"variant": "online", "kind": "reads", "formula": "2MN"}
    check = {"moved": told, "expect": {"about": 1, "within": "1%"}}
    evidence = Records(counters=(seen,))
    here = judgement(tmp_path / "a", [row("online", 1024)], check, evidence=evidence)
    assert (here.verdict, here.value) == ("supported", 1.0)
    other = [row("online", 1024, gpu="NVIDIA A100")]
    found = judgement(tmp_path / "b", other, check, evidence=evidence)
    assert found.verdict == "not testable here"
    assert "experiments.counters kernel=online" in found.findings[0].seen.needs


def test_an_optional_check_is_no_lack_and_yet_can_refute(tmp_path: Path) -> None:
    told = {"variant": "online", "kind": "reads", "formula": "2MN"}
    moved = {"moved": told, "expect": {"about": 1, "within": "1%"}, "optional": True}
    printed = {"printed": {"top": 2}, "expect": {"equals": 2}}
    rows = [row("online", 1024)]
    assert judgement(tmp_path / "a", rows, printed, moved).verdict == "supported"
    evidence = Records(counters=(counters("online", 4096, 16384, reads=3.0, writes=0.9),))
    assert judgement(tmp_path / "b", rows, printed, moved, evidence=evidence).verdict == "refuted"
