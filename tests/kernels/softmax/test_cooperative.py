"""`cooperative`: how rows are cut, and the whole kernel with its programs under way at once."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.counting.interpreter import interpreted
from experiments.worker.counting.requests import Recorder
from kernels.device import Device
from kernels.language import jit, next_power_of_two, tl
from kernels.softmax import cooperative
from kernels.softmax.cooperative import (
    Cooperative,
    Workspaces,
    pack,
    slices_of,
    tag_of,
)
from tests.kernels.inputs import LAYOUTS, extremes, lay_out
from tests.kernels.softmax.in_turns import in_turns
from tests.kernels.variants import INTERPRETED

at_once = pytest.mark.skipif(not INTERPRETED, reason="a card runs programs at once by itself")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
BLOCK = 16
STORED = [("store", "words"), ("store", "y")]
F16, F32, F64 = torch.float16, torch.float32, torch.float64


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


def softmax(
    x: torch.Tensor, words: torch.Tensor, groups: int, ahead: bool, seed: int
) -> torch.Tensor:
    """One launch of the kernel with slices of 16, on the words of launches before it."""
    y = torch.full_like(x, 7.0, memory_format=torch.contiguous_format)
    slices = -(-x.shape[1] // BLOCK)
    with in_turns(cooperative._cooperative, cooperative, seed):
        cooperative._cooperative[(groups * slices,)](
            *(x, y, words, *x.shape, *x.stride(), slices),
            SLOTS=next_power_of_two(slices),
            BLOCK=BLOCK,
            AHEAD=ahead,
            LOADS="",
            STORES="",
        )
    return y


@at_once
@settings(max_examples=20, deadline=None)
@given(
    launches=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    cols=st.integers(1, 75),
    groups=st.integers(1, 3),
    ahead=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 2**16),
)
def test_launch_after_launch_on_the_same_words_is_right_in_any_order(
    launches: list[int], cols: int, groups: int, ahead: bool, layout: str, seed: int
) -> None:
    words = torch.zeros(2 * groups * -(-cols // BLOCK), dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    for rows in launches:
        x = lay_out(torch.randn(rows, cols, generator=generator), layout)
        y = softmax(x, words, groups, ahead, seed)
        torch.testing.assert_close(y, torch.softmax(x, dim=1))


@at_once
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_infinities_and_nan_give_what_torch_gives(dtype: torch.dtype, ahead: bool) -> None:
    x = extremes().to(dtype)
    y = softmax(x, torch.zeros(12, dtype=torch.int64), groups=2, ahead=ahead, seed=1)
    wanted = torch.softmax(x.double(), dim=1)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=1e-7, equal_nan=True)


@at_once
@pytest.mark.parametrize("ahead", [False, True])
def test_each_element_is_read_once_and_written_once(ahead: bool) -> None:
    x, words = torch.randn(7, 70), torch.zeros(2 * 2 * 5, dtype=torch.int64)
    recorder = Recorder(x)
    recorder.meet("words", words)
    with interpreted(recorder):
        softmax(x, words, groups=2, ahead=ahead, seed=3)
    touched: dict[tuple[str, str], list[int]] = {}
    for request in recorder.requests:
        name = request.buffer.name if request.buffer else "y"  # all memory that is neither
        touched.setdefault((request.kind, name), []).extend(request.addresses.tolist())
    assert sorted(touched) == [("load", "words"), ("load", "x"), *STORED]
    for both in (touched["load", "x"], touched["store", "y"]):
        assert len(both) == len(set(both)) == x.numel()


@at_once
def test_a_group_of_which_one_never_comes_is_seen_to_wait() -> None:
    words = torch.zeros(4, dtype=torch.int64)
    x = torch.randn(2, 32)
    words[1] = -1  # as if the second program had published its next row's word already
    with pytest.raises(Exception, match="none goes on"):
        softmax(x, words, groups=1, ahead=False, seed=0)


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


class Now:
    """The stream that is current, and whether it is being captured."""

    stream = 0
    capturing = False


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    state = Now()
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=state.stream)
    )
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.capturing)
    return state


def test_launches_share_words_on_one_stream_and_nowhere_else(now: Now) -> None:
    spaces, other = (Workspaces(4, torch.device("cpu")) for _ in range(2))

    def at(stream: int, capturing: bool = False) -> torch.Tensor:
        now.stream, now.capturing = stream, capturing
        return spaces.current()

    found = [at(0), at(7), at(7, True), at(7, True), other.current()]
    assert len({buffer.data_ptr() for buffer in found}) == len(found)
    assert all(buffer.tolist() == [0] * 4 for buffer in found)
    at(7).fill_(5)
    assert [at(8).tolist(), at(7, True).tolist(), at(7).tolist()] == [[0] * 4, [0] * 4, [5] * 4]
