"""A claim is a few lines of YAML, a mistake in it is one line, and its band decides."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, OWN_CLAIMS, read_claims
from analysis.claims.verdict import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    UNTESTABLE,
    Band,
    Verdict,
    together,
)
from analysis.estimate import Estimate
from experiments.data.files import RowsError
from tests.analysis.claims.bench import write_claims

PAIR = {"top": "torch", "bottom": "fused"}
RATIO = PAIR | {"where": {"grid": "tutorial"}}
VALUE = {"variant": "fused"}
COUNTS = {"by": "counts", "variant": "fused"}


def where(**fields: Any) -> dict[str, Any]:
    """The good ratio somewhere else."""
    return {"ratio": RATIO | {"where": {"grid": "tutorial"} | fields}}


@pytest.mark.parametrize(("change", "text"), [
    ({"ratio": RATIO | {"bottom": "fuzed"}}, "ratio.bottom: no kernel 'fuzed'; known are "),
    ({"ratio": RATIO | {"bottom": "fused, block=4"}}, "no tunable 'block'; it has num_warps"),
    ({"ratio": RATIO | {"over": "cols"}}, "ratio.over: Extra inputs are not permitted"),
    ({"ratio": RATIO | {"column": "effective_gbps"}}, "a geometric mean is of time ratios"),
    ({"ratio": PAIR | {"where": {"rows": 4096}}}, "geomean never mixes dtypes"),
    (where(grid="tutorials"), "where.grid.0: no grid 'tutorials'; known are attention"),
    (where(dtype="fp32"), "float64|float32"), (where(cols="wide"), "valid integer"),
    (where(cols=[]), "at least 1 item"), (where(cols={"until": 9}), "cols.until: Extra inputs"),
    ({"expect": {"above": 1, "below": 2}}, "expect: give one of about"),
    ({"expect": {"about": 4}}, "expect: give one of about"),
    ({"expect": {"about": 4, "within": 2}}, "within: Input should be less than 1"),
    ({"expect": {"between": [4, 3]}}, "the lower end first"),
    ({"expect": None}, "ratio takes an expect"),
    ({"outcome": VALUE | {"among": ["ok"]}, "ratio": None}, "outcome takes no expect"),
    ({"value": VALUE}, "give one of ratio, value, limit"),
    ({"value": VALUE | {"take": "trend", "from": 256, "to": 512, "where": {"dtype": "float32"}},
      "ratio": None}, "where has to fix rows"),
    ({"value": VALUE | {"take": "spread", "where": {"rows": 4096}}}, "spread never mixes dtypes"),
    ({"value": VALUE | {"from": 256, "to": 512}}, "takes both from and to"),
    ({"traffic": COUNTS}, "one of formula and relative_to"),
    ({"traffic": COUNTS | {"formula": "2XY"}}, "not a formula in M and N"),
    ({"implied": {"kernel": "fused", "traffic": "2MN"}}, "one of series and at"),
])  # fmt: skip
def test_a_mistake_is_one_line_that_names_file_claim_check_and_field(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    claims = write_claims(tmp_path, {"part": "it", "ratio": RATIO, "expect": {"above": 1}} | change)
    with pytest.raises(RowsError) as caught:
        read_claims(claims)
    message = str(caught.value)
    assert message.startswith(f"{claims}: claim T1: check 1")
    assert "\n" not in message
    assert text in message


@pytest.mark.parametrize(("content", "text"), [
    ("claims: 3", "a list of claims is expected"), ("- [", "not YAML"),
    ("- 3", "claim number 1: the claim"), ("- {id: X, source: A}", "claim X: statement"),
    ("- {id: X, source: Z, statement: s, checks: []}", "no source 'Z'; known are A, B, C, D, E"),
    ("- {id: X, source: A, statement: s, checks: []}", "checks: Tuple should have at least 1"),
    ("- {id: X, source: A, statement: s, checks: [{part: p, printed: {top: 1}, "
     "expect: {above: 0}}]}", "claim X: the claim: place is missing: where A says so"),
    ("- &a {id: X, source: A, place: t, statement: s, checks: [{part: p, printed: {top: 1}, "
     "expect: {above: 0}}]}\n- *a", "claim X is there 2 times"),
])  # fmt: skip
def test_a_file_that_holds_something_else_is_one_line(
    tmp_path: Path, content: str, text: str
) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RowsError) as caught:
        read_claims(path)
    assert str(caught.value).startswith(str(path))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_claim_of_a_source_that_is_at_hand_has_its_words() -> None:
    without = [claim.id for claim in read_claims() if not claim.words]
    assert without == ["E1"]  # of E there are reports alone


@pytest.mark.parametrize("path", [CLAIMS, OWN_CLAIMS], ids=["the sources'", "ours"])
def test_a_range_that_a_statement_gives_is_checked_at_both_ends(path: Path) -> None:
    number = r"(\d+(?:\.\d+)?)"
    for claim in read_claims(path):
        ends = {check.expect.between for check in claim.checks if check.expect}
        for low, high in re.findall(
            rf"{number}(?:–| to ){number}(?:×| times| GB/s)", claim.statement
        ):
            assert (float(low), float(high)) in ends, claim.statement


@pytest.mark.parametrize(("band", "low", "high", "verdict"), [
    (Band(low=1, open=True), 1, 1, REFUTED), (Band(low=1, open=True), 1, 2, INCONCLUSIVE),
    (Band(low=1, open=True), 1.001, 2, SUPPORTED), (Band(high=1, open=True), 1, 2, REFUTED),
    (Band(low=1), 1, 1, SUPPORTED), (Band(low=1), 0.9, 1, INCONCLUSIVE),
    (Band(3, 4), 2, 5, INCONCLUSIVE), (Band(3, 4), 3, 4, SUPPORTED), (Band(3, 4), 4.01, 9, REFUTED),
    (Band(3, 4), 1, 2.9, REFUTED), (Band(hole=4), 4, 4, REFUTED),
    (Band(hole=4), 3, 5, INCONCLUSIVE), (Band(hole=4), 5, 6, SUPPORTED),
])  # fmt: skip
def test_an_interval_decides_only_where_all_of_it_lies_on_one_side(
    band: Band, low: float, high: float, verdict: str
) -> None:
    assert band.verdict(Estimate(low, low, high)) == verdict


def test_an_interval_that_is_none_is_refused() -> None:
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="no interval"):
            Band().verdict(Estimate(low, low, high))


@pytest.mark.parametrize(("verdicts", "worst"), [
    ([SUPPORTED, UNTESTABLE, INCONCLUSIVE, REFUTED], REFUTED),
    ([SUPPORTED, UNTESTABLE, INCONCLUSIVE], INCONCLUSIVE),
    ([SUPPORTED, UNTESTABLE], UNTESTABLE), ([SUPPORTED, SUPPORTED], SUPPORTED), ([], UNTESTABLE),
])  # fmt: skip
def test_a_claim_is_as_good_as_its_worst_check(verdicts: list[Verdict], worst: Verdict) -> None:
    assert together(verdicts) == worst
