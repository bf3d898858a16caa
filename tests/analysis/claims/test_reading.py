"""A claim is a few lines of YAML, and a mistake in it is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.claims import read_claims
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


def test_the_good_check_is_good(tmp_path: Path) -> None:
    (claim,) = read_claims(write_claims(tmp_path, GOOD))
    assert (claim.id, claim.checks[0].part) == ("T1", "speed")


@pytest.mark.parametrize(("path", "value", "told"), [
    ("ratio.bottom", "fuzed", "no kernel 'fuzed'; known are "),
    ("ratio.bottom", "fused, block=4", "fused has no tunable 'block'; it has num_warps"),
    ("ratio.take", "mean", "'geomean', 'each', 'most', 'min', 'max' or 'peaks'"),
    ("ratio.column", "speed", "'time_us', 'effective_gbps' or 'modelled_gbps'"),
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
    ("expect", {"between": [4, 3]}, "the lower end first"),
    ("expect", None, "ratio takes an expect"),
    ("ratio", None, "give one of ratio, value, trend"),
    ("value", {"variant": "fused"}, "give one of ratio, value, trend"),
    ("part", None, "string"),
])  # fmt: skip
def test_a_mistake_names_file_claim_field_and_what_would_be_right(
    tmp_path: Path, path: str, value: Any, told: str
) -> None:
    claims = write_claims(tmp_path, changed(path, value))
    with pytest.raises(RowsError) as caught:
        read_claims(claims)
    message = str(caught.value)
    assert message.startswith(f"{claims}: claim T1: ")
    assert "\n" not in message
    assert told in message
    field = path.split(".")[-1]
    assert field in message


@pytest.mark.parametrize(("kind", "told"), [
    ({"trend": {"variant": "fused", "column": "time_us", "from": 256, "to": 512,
                "where": {"dtype": "float32"}}}, "where has to fix rows"),
    ({"spread": {"variant": "fused", "column": "time_us",
                 "where": {"rows": 4096}}}, "never mixes dtypes"),
    ({"counted": {"variant": "fused"}}, "one of formula and relative_to"),
    ({"counted": {"variant": "fused", "formula": "2XY"}}, "no formula in M and N"),
    ({"implied": {"kernel": "fused", "traffic": "2MN"}}, "one of series and at"),
    ({"printed": {"top": 1, "bottom": 0}}, "nothing is divided by 0"),
    ({"ratio": RATIO | {"column": "effective_gbps"}}, "is of time ratios"),
])  # fmt: skip
def test_each_kind_says_what_it_needs(tmp_path: Path, kind: dict[str, Any], told: str) -> None:
    claims = write_claims(tmp_path, {"part": "it", "expect": {"above": 1}} | kind)
    with pytest.raises(RowsError, match=told):
        read_claims(claims)


def test_an_outcome_takes_a_known_status_and_no_expect(tmp_path: Path) -> None:
    for fields, told in (
        ({"outcome": {"variant": "fused", "among": ["fine"]}}, "no status 'fine'; known are ok"),
        ({"outcome": {"variant": "fused", "among": ["ok"]}, "expect": {"above": 1}}, "takes no"),
    ):
        with pytest.raises(RowsError, match=told):
            read_claims(write_claims(tmp_path, {"part": "it", **fields}))


@pytest.mark.parametrize(("text", "told"), [
    ("", "a list of claims is expected"),
    ("claims: 3", "a list of claims is expected"),
    ("- [", "not YAML"),
    ("- 3", "claim number 1: the claim"),
    ("- {id: X, source: A}", "claim X: statement"),
    ("- {id: X, source: Z, statement: s, checks: []}", "no source 'Z'; known are A, B, C, D, E"),
    ("- {id: X, source: A, statement: s, checks: []}", "at least one check"),
    ("- &a {id: X, source: A, statement: s, checks: [{part: p, printed: {top: 1}, "
     "expect: {above: 0}}]}\n- *a", "claim X is there 2 times"),
])  # fmt: skip
def test_a_file_that_holds_something_else_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RowsError) as caught:
        read_claims(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
