"""A claim is a few lines of YAML, a mistake in it is one line, and its band decides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims import read_claims
from analysis.claims.verdict import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    UNTESTABLE,
    VERDICTS,
    Band,
    Verdict,
    together,
)
from analysis.estimate import Estimate
from experiments.data.files import RowsError
from tests.analysis.claims.bench import write_claims

RATIO = {"top": "torch", "bottom": "fused", "where": {"grid": "tutorial"}}
GOOD = {"part": "speed", "ratio": RATIO, "expect": {"above": 1}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good check with one field set to something else."""
    check: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in GOOD.items()}
    *inner, last = path.split(".")
    place = check
    for name in inner:
        place[name] = dict(place[name])
        place = place[name]
    place[last] = value
    return check


@pytest.mark.parametrize(("path", "value", "text"), [
    ("ratio.bottom", "fuzed", "no kernel 'fuzed'; known are "),
    ("ratio.bottom", "fused, block=4", "fused has no tunable 'block'; it has num_warps"),
    ("ratio.take", "mean", "'geomean', 'each', 'most', 'min', 'max' or 'peaks'"),
    ("ratio.column", "effective_gbps", "a geometric mean is of time ratios"),
    ("ratio.over", "cols", "unknown; it may be one of top, bottom, column, take, where"),
    ("ratio.where.grid", "tutorials", "no grid 'tutorials'; known are batch, cards, counters"),
    ("ratio.where.dtype", "fp32", "no dtype 'fp32'; known are float64, float32, float16"),
    ("ratio.where.dtypes", "float32", "unknown; it may be one of grid, rows, cols, dtype"),
    ("ratio.where.cols", "wide", "takes a size from 1, a list of them or {from, to}"),
    ("ratio.where.cols", {"from": 1, "until": 9}, "takes a size from 1, a list of them or"),
    ("ratio.where", {"rows": 4096}, "geomean never mixes dtypes: where has to name one"),
    ("expect", {"atleast": 1}, "unknown; it may be one of about, within, at_least"),
    ("expect", {"above": 1, "below": 2}, "give one of at_least, at_most, above"),
    ("expect", {"about": 4}, "give one of at_least"),
    ("expect", {"about": 4, "within": "a bit"}, "within"),
    ("expect", {"about": 4, "within": 2}, "within takes a share from 0% to 100%"),
    ("expect", {"between": [4, 3]}, "the lower end first"),
    ("expect", None, "ratio takes an expect"),
    ("ratio", None, "give one of ratio, value, limit"),
    ("value", {"variant": "fused"}, "give one of ratio, value, limit"),
    ("part", None, "string"),
])  # fmt: skip
def test_a_mistake_names_file_claim_field_and_what_would_be_right(
    tmp_path: Path, path: str, value: Any, text: str
) -> None:
    assert read_claims(write_claims(tmp_path, GOOD))[0].checks[0].part == "speed"
    claims = write_claims(tmp_path, changed(path, value))
    with pytest.raises(RowsError) as caught:
        read_claims(claims)
    message = str(caught.value)
    assert message.startswith(f"{claims}: claim T1: check 1")
    assert "\n" not in message
    assert text in message
    assert path.split(".")[-1] in message


VALUE = {"variant": "fused", "column": "time_us"}


@pytest.mark.parametrize(("kind", "text"), [
    ({"value": VALUE | {"take": "trend", "from": 256, "to": 512, "where": {"dtype": "float32"}}},
     "where has to fix rows"),
    ({"value": VALUE | {"take": "spread", "where": {"rows": 4096}}}, "never mixes dtypes"),
    ({"value": VALUE | {"take": "each", "from": 256, "to": 512}}, "takes both from and to"),
    ({"traffic": {"by": "counts", "variant": "fused"}}, "one of formula and relative_to"),
    ({"traffic": {"by": "counts", "variant": "fused", "formula": "2XY"}}, "no formula in M and N"),
    ({"implied": {"kernel": "fused", "traffic": "2MN"}}, "one of series and at"),
    ({"printed": {"top": 1, "bottom": 0}}, "nothing is divided by 0"),
    ({"limit": {"over": "naive", "timer": "events"}}, "no rival 'naive'; known are peers, copy"),
    ({"outcome": {"variant": "fused", "among": ["fine"]}}, "no status 'fine'; known are ok"),
    ({"outcome": {"variant": "fused", "among": ["ok"]}}, "outcome takes no expect"),
])  # fmt: skip
def test_each_kind_says_what_it_needs(tmp_path: Path, kind: dict[str, Any], text: str) -> None:
    claims = write_claims(tmp_path, {"part": "it", "expect": {"above": 1}} | kind)
    with pytest.raises(RowsError, match=text):
        read_claims(claims)


@pytest.mark.parametrize(("content", "text"), [
    ("", "a list of claims is expected"), ("claims: 3", "a list of claims is expected"),
    ("- [", "not YAML"), ("- 3", "claim number 1: the claim"),
    ("- {id: X, source: A}", "claim X: statement"),
    ("- {id: X, source: Z, statement: s, checks: []}", "no source 'Z'; known are A, B, C, D, E"),
    ("- {id: X, source: A, statement: s, checks: []}", "at least one check"),
    ("- &a {id: X, source: A, statement: s, checks: [{part: p, printed: {top: 1}, "
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


NUMBERS = st.integers(-6, 6).map(float)  # few, so that ends meet often
ENDS = st.tuples(NUMBERS, NUMBERS).map(sorted)
HALVES = NUMBERS.map(lambda n: [-math.inf, n]) | NUMBERS.map(lambda n: [n, math.inf])
BANDS = st.builds(lambda ends, open_: Band(*ends, open=open_), ENDS | HALVES, st.booleans())
BANDS |= NUMBERS.map(lambda hole: Band(hole=hole))


def decided(band: Band, low: float, high: float) -> Verdict:
    return band.verdict(Estimate(low, low, high))


@given(BANDS, ENDS, ENDS)
def test_an_interval_decides_only_where_all_of_it_lies_on_one_side(
    band: Band, ends: list[float], more: list[float]
) -> None:
    low, high = ends
    # at every half: bands of whole numbers change nowhere else
    inside = [band.holds(low + i / 2) for i in range(int(2 * (high - low)) + 1)]
    verdict = decided(band, low, high)
    assert (verdict == SUPPORTED) == all(inside)
    # an open band narrower than a half may hold a number between two samples
    if not (band.open and band.high - band.low < 1):
        assert (verdict == REFUTED) == (not any(inside))
    wider = decided(band, min(low, more[0]), max(high, more[1]))
    assert wider in (INCONCLUSIVE, verdict)


@pytest.mark.parametrize(("band", "low", "high", "verdict"), [
    (Band(low=1, open=True), 1, 1, REFUTED), (Band(low=1, open=True), 1, 2, INCONCLUSIVE),
    (Band(low=1, open=True), 1.001, 2, SUPPORTED), (Band(low=1), 1, 1, SUPPORTED),
    (Band(low=1), 0.9, 1, INCONCLUSIVE), (Band(3, 4), 2, 5, INCONCLUSIVE),
    (Band(3, 4), 4.01, 9, REFUTED), (Band(hole=4), 4, 4, REFUTED),
    (Band(hole=4), 3, 5, INCONCLUSIVE), (Band(hole=4), 5, 6, SUPPORTED),
])  # fmt: skip
def test_ends_count_as_the_band_says(band: Band, low: float, high: float, verdict: str) -> None:
    assert decided(band, low, high) == verdict


def test_an_interval_that_is_none_is_refused() -> None:
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="no interval"):
            decided(Band(), low, high)


@given(st.lists(st.sampled_from(VERDICTS), min_size=1))
def test_a_claim_is_as_good_as_its_worst_check(verdicts: list[Verdict]) -> None:
    found = together(verdicts)
    assert found in verdicts
    assert (found == REFUTED) == (REFUTED in verdicts)
    assert (found == SUPPORTED) == (set(verdicts) == {SUPPORTED})
    assert found != UNTESTABLE or INCONCLUSIVE not in verdicts
