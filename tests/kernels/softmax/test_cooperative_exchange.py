from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.language import jit, next_power_of_two, tl
from kernels.softmax.cooperative import pack, scale, summarise, tag_of
from tests.kernels.inputs import matrices
from tests.kernels.softmax.protocol import Broken, Protocol, explore, walk
from tests.kernels.softmax.test_extremes import extremes
from tests.kernels.variants import assert_softmax


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(programs=2, warps=1, launches=(1, 2, 3, 4, 5)),
        Protocol(programs=2, warps=2, launches=(1, 3, 2)),
        Protocol(programs=3, warps=1, launches=(3, 1, 2)),
        Protocol(programs=1, warps=3, launches=(3, 1, 2)),
    ],
    ids=str,
)
def test_no_order_of_steps_waits_for_ever_or_takes_another_rows_word(protocol: Protocol) -> None:
    assert explore(protocol) > 100


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"buffers": 1}, "wait for ever"),  # a word is overwritten before all have read it
        ({"barrier": False}, "wait for ever"),  # the same, by a program's own quicker warp
        ({"learns": False}, "took"),  # a word of an earlier launch passes for this one's
    ],
)
def test_each_part_of_the_exchange_is_needed(mistake: dict[str, int], said: str) -> None:
    right = Protocol(programs=2, warps=2, launches=(3, 2))
    explore(right)
    with pytest.raises(Broken, match=said):
        explore(replace(right, **mistake))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    programs=st.integers(1, 5),
    warps=st.integers(1, 3),
    launches=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    choices=st.lists(st.integers(0, 10**6), min_size=1, max_size=200),
)
def test_larger_groups_come_through_any_order_of_steps(
    programs: int, warps: int, launches: list[int], choices: list[int]
) -> None:
    walk(Protocol(programs, warps, tuple(launches)), choices)


@jit
def _write(
    x: tl.tensor, words: tl.tensor, cols: tl.tensor, TAG: tl.constexpr, BLOCK: tl.constexpr
) -> None:
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < cols, other=float("-inf")).to(tl.float32)
    _, maximum, total = summarise(values)
    tl.store(words + tl.program_id(0), pack(maximum, total, tl.full((), TAG, tl.int32)))


@jit
def _read(
    x: tl.tensor,
    y: tl.tensor,
    words: tl.tensor,
    tags: tl.tensor,
    cols: tl.tensor,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + columns, mask=columns < cols, other=float("-inf")).to(tl.float32)
    exponentials, maximum, _ = summarise(values)
    lanes = tl.arange(0, SLOTS)
    present = lanes < tl.num_programs(0)
    seen = tl.load(words + tl.minimum(lanes, tl.num_programs(0) - 1))
    tl.store(tags + lanes, tag_of(seen), mask=present)
    quotients = exponentials * scale(seen, present, maximum)
    tl.store(y + columns, quotients.to(y.dtype.element_ty), mask=columns < cols)


@dataclass(frozen=True)
class InTurn:
    """The arithmetic of `cooperative` without its waiting: all slices write, then all read."""

    tag: int
    block: int = 16
    backend: str = "triton"

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        slices = -(-x.shape[1] // self.block)
        words = torch.empty(slices, dtype=torch.int64, device=x.device)
        tags = torch.full((slices,), -1, dtype=torch.int32, device=x.device)
        for row, answer in zip(x, y, strict=True):
            if slices:
                _write[(slices,)](row, words, len(row), TAG=self.tag, BLOCK=self.block)
                slots = next_power_of_two(slices)
                _read[(slices,)](row, answer, words, tags, len(row), SLOTS=slots, BLOCK=self.block)
                assert tags.tolist() == [self.tag] * slices
        return y


@pytest.mark.parametrize("tag", [0, 1])
@settings(max_examples=20, deadline=None)
@given(x=matrices())
def test_slices_combine_to_the_answer_of_float64(tag: int, device: str, x: torch.Tensor) -> None:
    if x.dtype != torch.float64:
        assert_softmax(InTurn(tag), x.to(device))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("tag", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_infinities_and_nan_pass_through_a_word(tag: int, device: str, dtype: torch.dtype) -> None:
    assert_softmax(InTurn(tag), extremes().to(device, dtype))  # type: ignore[arg-type]


@jit
def _pack_each(bits: tl.tensor, words: tl.tensor, tags: tl.tensor, TAG: tl.constexpr) -> None:
    number = tl.load(bits + tl.program_id(0)).to(tl.float32, bitcast=True)
    word = pack(number, number, tl.full((), TAG, tl.int32))
    tl.store(words + tl.program_id(0), word)
    tl.store(tags + tl.program_id(0), tag_of(word))


@pytest.mark.parametrize("tag", [0, 1])
def test_no_sum_speaks_for_the_tag_whatever_its_sign(tag: int, device: str) -> None:
    # 0, −0, 1, +inf and NaN of both signs, by their bits
    numbers = [0, 1 << 31, 0x3F800000, 0x7F800000, 0x7FC00000, 0xFFC00000]
    bits = torch.tensor(numbers, dtype=torch.int64, device=device).to(torch.int32)
    words = torch.zeros(len(numbers), dtype=torch.int64, device=device)
    tags = torch.zeros(len(numbers), dtype=torch.int32, device=device)
    _pack_each[(len(numbers),)](bits, words, tags, TAG=tag)
    assert tags.tolist() == [tag] * len(numbers)
    assert [word & 0xFFFFFFFF for word in words.tolist()] == numbers
    assert [word >> 32 & 0x7FFFFFFF for word in words.tolist()] == [n & 0x7FFFFFFF for n in numbers]
