"""C-viz: what a step says of itself."""

from __future__ import annotations

import pytest

from tests.analysis.stepping import case


def test_onlines_steps_read_as_its_algorithm_does() -> None:
    steps = case("online")["steps"]
    assert steps[0]["touches"] == []
    assert [step["phase"] for step in steps[:6]] == [
        "2 passes over each row", *["pass 1 of 2: statistics (maximum, total)"] * 4,
        "pass 2 of 2: normalise",
    ]  # fmt: skip
    assert [step["text"] for step in steps[2:4]] == [
        "Program 0 loads columns 3–4 of x, row 1; then maximum = 3 and total = 1.468.",
        "Program 0 loads columns 5–6 of x, row 1; then total = 1.722.",
    ]
    assert steps[6]["text"] == "Program 0 stores columns 1–2 of y, row 1."
    assert dict(steps[2]["state"])["total"] == 1.46828
    assert steps[4]["traffic"][0] == {
        "kind": "load", "units": "loaded 0.5 of 2 MN", "elements": "8 of 32", "share": 0.25
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "block", "purposes"),
    [
        ("three_pass", "4", ["statistics (maximum)", "statistics (total)", "normalise"]),
        ("hybrid", "8", ["statistics and normalise, the row on chip"]),
    ],
)
def test_a_pass_is_named_after_the_statistics_that_it_finds(
    variant: str, block: str, purposes: list[str]
) -> None:
    phases = [step["phase"] for step in case(variant, block=block)["steps"][1:]]
    assert list(dict.fromkeys(phases)) == [
        f"pass {n} of {len(purposes)}: {purpose}" for n, purpose in enumerate(purposes, start=1)
    ]


def test_entropy_is_told_once_the_row_is_complete() -> None:
    rows = [step["rows"].get("0") for step in case("online")["steps"][1:13]]
    assert [row["entropy"] is not None for row in rows] == [False] * 11 + [True]
    assert rows[5]["sum"] == pytest.approx(0.197394 + 0.00982767)


def test_eager_variants_step_by_operation() -> None:
    steps = case("naive", block="no block")["steps"]
    assert [step["phase"] for step in steps[1:]] == [
        f"operation {n} of 5: {op}" for n, op in enumerate(("max", "sub", "exp", "sum", "div"), 1)
    ]
    assert steps[2]["text"] == (
        "sub reads x (16 elements) and max.values (2 elements); it writes sub (16 elements)."
    )
    widths = {t["name"]: t["width"] for t in case("naive", block="no block")["tensors"]}
    assert widths["max.values"] == widths["sum"] == 1
    assert list(widths)[-1] == "y"
