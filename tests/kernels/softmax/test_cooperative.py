from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernels.device import Device
from kernels.softmax.cooperative import NOT_HERE, Cooperative, slices_of

F16, F32, F64 = torch.float16, torch.float32, torch.float64


@pytest.mark.parametrize("interpreter", ["0", "1"])
def test_without_a_card_it_says_in_one_line_why_not_even_the_interpreter_does(
    monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", interpreter)
    pytest.importorskip("triton")
    said = Cooperative().unsupported((2, 3), F32, Device(kind="cpu", name="cpu"))
    assert said == NOT_HERE
    assert "\n" not in said
    assert "interpreter" in said


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype", "reason"),
    [
        (Cooperative(), (1, 1), F32, None),
        (Cooperative(), (0, 5), F32, None),
        (Cooperative(), (5, 0), F32, None),
        (Cooperative(), (4096, 1 << 20), F16, None),
        (Cooperative(), (1, 264 * 16384), F32, None),
        (
            Cooperative(),
            (1, 264 * 16384 + 1),
            F32,
            "a row of 4325377 takes 529 programs of 8192 elements at once, "
            "and this device holds 528",
        ),
        (Cooperative(loads="before"), (1, 264 * 8192), F16, None),
        (Cooperative(loads="before"), (1, 264 * 8192 + 1), F16, "holds 264"),
        (Cooperative(block_size=1024), (9, 1320 * 1024), F32, None),
        (Cooperative(block_size=1024), (9, 1320 * 1024 + 1), F32, "holds 1320"),
        (Cooperative(block_size=1024, num_warps=32), (9, 132 * 1024 + 1), F32, "holds 132"),
        (Cooperative(block_size=32768, num_warps=4), (9, 8), F32, "holds 0"),
        (Cooperative(), (2, 3), F64, "takes float32, float16, bfloat16, not float64"),
        (Cooperative(), (2, 3, 4), F32, "3 dimensions"),
    ],
    ids=str,
)
def test_a_row_is_refused_where_the_whole_chip_ends(
    h200: Device, kernel: Cooperative, shape: tuple[int, ...], dtype: torch.dtype, reason: str
) -> None:
    said = kernel.unsupported(shape, dtype, h200)
    assert said is None if reason is None else said is not None and reason in said


def test_a_smaller_card_holds_less(h200: Device) -> None:
    half = replace(h200, sms=66)
    assert Cooperative().unsupported((1, 132 * 16384), F32, half) is None
    assert "holds 264" in (Cooperative().unsupported((1, 133 * 16384), F32, half) or "")


@pytest.mark.parametrize(
    ("rows", "cols", "number", "block", "warps"),
    [
        (1, 131072, 128, 1024, 4),  # one row covers nearly all of the 132 SMs
        (1, 1 << 20, 128, 8192, 8),
        (8, 131072, 16, 8192, 8),  # and so do eight
        (64, 131072, 16, 8192, 4),
        (4096, 1 << 20, 128, 8192, 4),
        (4096, 5, 1, 8, 4),  # a row narrower than any slice
        (1, 1, 1, 1, 4),
    ],
)
def test_slices_spread_over_all_sms_as_far_as_there_are_rows(
    h200: Device, rows: int, cols: int, number: int, block: int, warps: int
) -> None:
    cut = slices_of(rows, cols, h200, whole=True, ahead=False)
    assert (cut.number, cut.block, cut.warps) == (number, block, warps)


@pytest.mark.parametrize(("whole", "ahead"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("rows", [1, 7, 64, 5000])
@pytest.mark.parametrize("cols", [1, 1000, 32000, 131072, 10**6, 264 * 8192, 264 * 16384])
def test_whatever_is_not_refused_is_resident_with_the_registers_it_may_have(
    h200: Device, rows: int, cols: int, whole: bool, ahead: bool
) -> None:
    kernel = Cooperative(loads="before" if ahead else "after")
    if kernel.unsupported((rows, cols), F32, h200):
        assert ahead
        return
    cut = slices_of(rows, cols, h200, whole, ahead)
    assert cut.number * cut.block >= cols > (cut.number - 1) * cut.block
    a_program = cut.registers(ahead, whole, h200) * 32 * cut.warps
    assert cut.registers(ahead, whole, h200) <= 255
    assert cut.number <= 132 * (65536 // a_program)


@pytest.mark.parametrize("value", [0, 3, 65536, "1024", True])
def test_block_size_must_be_a_power_of_two(value: object) -> None:
    with pytest.raises(ValueError, match=r"^block_size must be a power of two from 1 to 32768"):
        Cooperative(block_size=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1, 2, 3, 64, "4", True])
def test_num_warps_must_be_a_power_of_two_from_4(value: object) -> None:
    with pytest.raises(ValueError, match=r"^num_warps must be a power of two from 4 to 32"):
        Cooperative(num_warps=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["", "first", True, None])
def test_loads_come_after_or_before(value: object) -> None:
    with pytest.raises(ValueError, match=r"^loads must be after or before, not"):
        Cooperative(loads=value)  # type: ignore[arg-type]
