"""Every numerical error that is known of the sources is found, and the same statement put right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.claims.audit import (
    AuditContext,
    AuditFinding,
    Check,
    audit,
    audit_tables,
    entries,
    gather,
    rounded,
    total,
)
from analysis.published import Example, Ratio, Series, Source, Traffic, sources
from experiments.data.cards import GPU_FILES
from experiments.data.files import RowsError

TRIPS = {"at": "A-fig1"}


def planted(match: dict[str, Any], published: dict[str, Source] | None = None,
            cards: Path = GPU_FILES, **changes: Any) -> str:  # fmt: skip
    """The verdict of the one case that matches, with some of its printed values changed."""
    (found,) = [
        check.model_copy(update={"of": ({**case, **changes},)})
        for check in entries().checks
        for case in check.of
        if match.items() <= case.items()
    ]
    (finding,) = audited(published, [found], cards)
    return finding.verdict


def audited(
    published: dict[str, Source] | None, checks: Iterable[Check] = (), cards: Path = GPU_FILES
) -> list[AuditFinding]:
    """Some checks, or all, of other published numbers."""
    data = entries().model_copy(update={"checks": tuple(checks) or entries().checks})
    return audit(replace(gathered(cards), sources=published or sources()), data)


@cache
def gathered(cards: Path) -> AuditContext:
    return gather(cards)


def source_with(letter: str, **changes: Any) -> dict[str, Source]:
    return sources() | {letter: sources()[letter].model_copy(update=changes)}


def drawn(*sizes: int, **kernels: tuple[float, ...]) -> dict[str, Source]:
    """A's figure with other times."""
    series = Series(figure="A-fig2", quantity="time_us", rows=4096, over="cols", sizes=sizes,
                    kernels=kernels)  # fmt: skip
    return source_with("A", series={"a_fig2": series})


def test_tables_hold_every_check_every_error_and_what_was_not_audited() -> None:
    findings = audit()
    full, summary = (named.table for named in audit_tables(findings))
    assert len(full.lines) == len(findings)
    assert "compile-time constants" in full.notes[-1]
    for one in findings:
        line = [li for li in summary.lines if one.computed in li[3] and one.verdict == li[1]]
        assert bool(line) == (one.verdict != "consistent"), one.subject
    assert summary.notes[0].startswith(f"{len(findings)} checks: ")


def test_a_missing_declaration_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match="no recorded declaration of"):
        audit(gather(declared=tmp_path))


@pytest.mark.parametrize(("printed", "low", "high"), [
    (Decimal("1.2150"), 1.21495, 1.21505), (40.0, 39.5, 40.5),  # a file's 40 is read as 40.0
    (901.02, 901.015, 901.025), ("48", 47.5, 48.5),
])  # fmt: skip
def test_a_printed_number_stands_for_what_rounds_to_it(
    printed: Any, low: float, high: float
) -> None:
    found = rounded(printed)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


ROWS, COLS, PEAK = 4096, 65536, 2000  # 1 GiB of float32: far beyond any L2


def card(folder: Path, gbps: float, mib: float) -> Path:
    folder.mkdir(exist_ok=True)
    facts = {"memory_gbps": {"value": gbps, "source": "-"}, "l2_mib": {"value": mib, "source": "-"}}
    text = yaml.safe_dump({"name": "Card", "match": "^Card$", "facts": facts})
    (folder / "card.yaml").write_text(text, encoding="utf-8")
    return folder


def implied(time_us: float, kernel: str = "fused", cards: Path = GPU_FILES) -> bool:
    """Whether a time is possible."""
    published = drawn(COLS, **{kernel: (time_us,)})
    case = {"series": "a_fig2", "kernel": kernel, "possible": True}
    try:
        return planted(case, published, cards) == "consistent"
    except ValueError:  # that part has no widths: all are impossible
        case["possible"] = False
        assert planted(case, published, cards) == "physically impossible"
        return False


@pytest.mark.parametrize(("kernel", "matrices"), [("fused", 2), ("naive", 8)])
def test_a_time_is_impossible_where_its_bytes_pass_the_fastest_peak(
    kernel: str, matrices: int
) -> None:
    bound = matrices * ROWS * COLS * 4 / 4800e9 * 1e6  # the H200's datasheet
    assert implied(round(bound * 1.02), kernel)
    assert not implied(round(bound * 0.98), kernel)


def test_rounding_and_caches_count_for_a_printed_time(tmp_path: Path) -> None:
    bound = 2 * ROWS * COLS * 4 / 2001 / 1e3
    assert round(bound) < bound <= round(bound) + 0.5  # it may stand for a time that is long enough
    cards = card(tmp_path / "odd", 2001, 50)
    assert implied(round(bound), cards=cards)
    assert not implied(round(bound) - 1, cards=cards)
    # a cache that holds both matrices is not a limit; one that holds one spares what is read again
    assert implied(10, cards=card(tmp_path / "large", PEAK, 4096))
    one_matrix, compulsory = card(tmp_path / "one", PEAK, 1025), 2 * ROWS * COLS * 4 / PEAK / 1e3
    assert implied(compulsory * 1.1, "naive", one_matrix)
    assert not implied(compulsory * 0.9, "naive", one_matrix)
    assert not implied(compulsory * 1.1, "naive", card(tmp_path / "less", PEAK, 600))


@pytest.mark.parametrize(("match", "times", "consistent"), [
    ({"at": "A6", "high": "torch"}, {"fused": (50, 90), "torch": (60, 80)}, True),
    ({"at": "A6", "high": "torch"}, {"fused": (50, 90), "torch": (60, 95)}, False),
    # 1.07 GB over at most 268.5 and 741.5 µs: 1,000 and 1,448 GB/s
    ({"at": "A6", "series": "a_fig2", "kernel": "fused"}, {"fused": (268.0, 742.0)}, True),
    ({"at": "A6", "series": "a_fig2", "kernel": "fused"}, {"fused": (268.0, 740.0)}, False),
    ({"at": "A4"}, {"fused": (10, 40), "naive": (40, 80)}, False),
    ({"at": "A4"}, {"fused": (10, 40), "naive": (40, 160)}, True),
    ({"at": "A3", "series": "a_fig2"}, {"fused": (10, 40), "naive": (20, 150)}, True),
    ({"at": "A3", "series": "a_fig2"}, {"fused": (10, 40), "naive": (40, 320)}, False),
    ({"at": "A5"}, {"fused": (9, 9), "torch": (6, 12)}, False),
    ({"at": "A5"}, {"fused": (9, 9), "torch": (10, 10)}, True),
])  # fmt: skip
def test_drawn_times_contradict_statements_only_where_no_rounding_saves_them(
    match: dict[str, Any], times: dict[str, tuple[float, ...]], consistent: bool
) -> None:
    sizes = (8192, 32768)
    assert planted(match, drawn(*sizes, **times)) == (
        "consistent" if consistent else "self-contradictory"
    )


def stated(claim: str, over: str, low: float, high: float) -> Ratio:
    return Ratio(claim=claim, kernel="fused", over=over, low=low, high=high, label="")


@pytest.mark.parametrize(("over_torch", "over_naive", "consistent"), [
    (2.0, (1.5, 2.1), True), (2.0, (1.5, 1.9), False),
])  # fmt: skip
def test_two_ratios_contradict_where_they_make_the_lighter_kernel_no_faster(
    over_torch: float, over_naive: tuple[float, float], consistent: bool
) -> None:
    ratios = stated("D1", "torch", over_torch, over_torch), stated("D2", "naive", *over_naive)
    found = planted({"at": "D1", "against": "D2"}, source_with("D", ratios=ratios))
    assert (found == "consistent") == consistent
    mild = source_with("D", ratios=(stated("D1", "torch", 0.9, 4),))
    assert planted({"at": "D1", "against": "A5"}, mild) == "consistent"
    assert planted({"at": "D1", "against": "A6"}, mild) == "consistent"  # 1448 / 1515 is in it


@pytest.mark.parametrize(("match", "changes", "verdict"), [
    ({"at": "B5", "series": "a_fig2"}, {"most_kb": 64}, "self-contradictory"),
    ({"at": "A-fig2", "bits": 32}, {"cols": 524288}, "consistent"),
    ({"at": "A-fig2", "bits": 32}, {"cols": 524289}, "wrong"),
    (TRIPS | {"kernel": "naive"}, {"trips": {"reads": 7, "writes": 5, "total": 12}}, "consistent"),
    (TRIPS | {"kernel": "naive"}, {"trips": {"reads": 5, "writes": 3, "total": 8}}, "consistent"),
    (TRIPS | {"kernel": "naive"}, {"trips": {"reads": 7, "writes": 3, "total": 10}}, "wrong"),
    ({"call": "max(dim=1)"}, {"index_bytes": 8}, "consistent"),
    ({"kind": "reads"}, {"calls": ["MN + M", "MN", "MN", "MN + M"]}, "wrong"),
    ({"cols": "65536"}, {"size": "262 KB"}, "consistent"),  # K of 1000
    ({"cols": "65536"}, {"size": "128 KB"}, "wrong"), ({"cols": "12K"}, {"size": "49 KB"}, "wrong"),
    ({"at": "C-viz"}, {"values": [4, 4]}, "consistent"),
    ({"at": "C7"}, {"threads": 256}, "consistent"),
    ({"parameter": "maxnreg"}, {"scope": "thread"}, "consistent"),
    ({"at": "A, occupancy"}, {"under": ["registers", "warps"]}, "consistent"),
    ({"words": "consistently"}, {}, "self-contradictory"),
    ({"words": "consistently"}, {"always": False}, "consistent"),
    ({"words": "sum to exactly 1.0"}, {}, "self-contradictory"),
    ({"words": "sum to exactly 1.0"}, {"total": 0.95}, "self-contradictory"),
    ({"name": "reserved keywords"}, {}, "self-contradictory"),
    ({"name": "reserved keywords"}, {"number": 7}, "consistent"),
    ({"words": "thread counts"}, {}, "wrong"),
    ({"words": "thread counts"}, {"adapts": "programs"}, "consistent"),
    ({"source": "A", "algorithm": "online_softmax"}, {}, "wrong"),
    ({"source": "A", "algorithm": "online_softmax"}, {"cites": "arXiv 1805.02867"}, "consistent"),
])  # fmt: skip
def test_a_statement_changed_has_another_verdict(
    match: dict[str, Any], changes: dict[str, Any], verdict: str
) -> None:
    assert planted(match, **changes) == verdict


@pytest.mark.parametrize(("reads", "writes", "unit", "verdict"), [
    ("5MN + 2M", "3MN + 2M", "elements", "consistent"), ("5MN + 2M", "3MN + 2M", "bytes", "wrong"),
    ("5MN + 2M", "4MN + 2M", "elements", "wrong"), ("6MN", "3MN + 2M", "elements", "wrong"),
])  # fmt: skip
def test_stated_traffic_is_that_of_its_model(
    reads: str, writes: str, unit: Any, verdict: str
) -> None:
    traffic = Traffic(at="A-tab1", kernel="naive", reads=reads, writes=writes,
                      total=total(reads, writes), unit=unit)  # fmt: skip
    others = tuple(t for t in sources()["A"].traffic if t.kernel != "naive")
    model = {"at": "A-tab1", "kernel": "naive", "kinds": ["reads", "writes", "total"]}
    assert planted(model, source_with("A", traffic=(traffic, *others))) == verdict
    assert total("5MN + 2M", "3MN + 2M") == "8MN + 4M"


def test_other_traffic_has_other_verdicts() -> None:
    def judged(at: str, kernel: str, **fields: Any) -> dict[str, str]:
        changed = [t.model_copy(update=fields) if (t.at, t.kernel) == (at, kernel) else t
                   for t in sources()["B"].traffic]  # fmt: skip
        checks = [check for check in entries().checks if any(c["source"] == "B" for c in check.of)]
        found = audited(source_with("B", traffic=tuple(changed)), checks)
        return {finding.subject: finding.verdict for finding in found}

    assert judged("B1", "online", total="4MN")["B1 online, reads + writes"] == "wrong"
    assert judged("B1", "online", total="2MN")["B2 against B1"] == "consistent"
    assert judged("B2", "online", reads="MN")["B2 against A-tab1 fused"] == "consistent"
    for order, any_width in (("O(1)", True), ("O(B)", False)):
        found = judged("B-tab1", "online", on_chip=order, any_width=any_width)
        assert found["B-tab1 online, on chip"] == "wrong"


@pytest.mark.parametrize(("time_ms", "gbps", "verdict"), [
    ("1.1638", "901.02", "consistent"), ("1.1638", "901.10", "wrong"),
    ("1.1648", "901.02", "wrong"), ("1.1637", "901.09", "consistent"),
])  # fmt: skip
def test_a_bandwidth_is_its_bytes_over_its_time_to_the_last_digit(
    time_ms: str, gbps: str, verdict: str
) -> None:
    torch, hybrid = sources()["C"].timings
    timing = torch.model_copy(update={"time_ms": Decimal(time_ms), "gbps": Decimal(gbps)})
    published = source_with("C", timings=(timing, hybrid))
    found = {finding.subject: finding.verdict for finding in audited(published)}
    assert found["C4 torch"] == verdict


@pytest.mark.parametrize(("gbps", "gap", "plateau"), [
    ("801.00", "consistent", "consistent"),  # 11 % below, 8 % outside the band
    ("700.00", "consistent", "self-contradictory"),
    ("863.02", "self-contradictory", "consistent"),
])  # fmt: skip
def test_a_word_holds_where_its_number_is_large_enough(gbps: str, gap: str, plateau: str) -> None:
    torch, hybrid = sources()["C"].timings
    changed = hybrid.model_copy(update={"gbps": Decimal(gbps)})
    published = source_with("C", timings=(torch, changed))
    assert planted({"at": "C3", "timed_at": "C4"}, published) == gap
    assert planted({"at": "C2", "timed_at": "C4"}, published) == plateau


def example_verdicts(**changes: Any) -> dict[str, str]:
    """Of an example of zeros, which is right but for what changes."""
    right = {
        "kernel": "online", "block": 2, "decimals": 3, "input": [[0.0] * 4] * 3,
        "maxima": [0.0] * 3, "sums": [4.0] * 3, "block_sums": [2.0, 2.0],
        "outputs": [[0.25] * 4] * 3, "row_sums": [1.0] * 3,
    }  # fmt: skip
    checks = [c for c in entries().checks if "-ex row" in c.subject]
    example = Example.model_validate(right | changes)
    found = audited(source_with("C", example=example), checks)
    return {f.subject.removeprefix("C-ex "): f.verdict for f in found}


def test_sums_of_an_example_are_checked_each_on_its_own() -> None:
    assert set(example_verdicts().values()) == {"consistent"}
    sums = example_verdicts(sums=[4.003, 4.0, 4.0])
    assert (sums["row 1"], sums["row 1, block sums"]) == ("wrong", "wrong")  # they add up to 4
    blocks = example_verdicts(block_sums=[1.997, 2.003])
    assert blocks["row 1, block sums"] == "wrong"
    for off, verdict in ((0.004, "consistent"), (0.005, "wrong")):
        outputs = example_verdicts(outputs=[[0.25 + off, 0.25, 0.25, 0.25], *[[0.25] * 4] * 2])
        assert outputs["row 1, sum of outputs"] == verdict
