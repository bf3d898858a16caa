"""The whole kernel, its programs all under way at once, under Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.counting.interpreter import interpreted
from experiments.worker.counting.requests import Recorder
from kernels.language import next_power_of_two
from kernels.softmax import cooperative
from tests.kernels.inputs import LAYOUTS, lay_out
from tests.kernels.softmax.in_turns import in_turns
from tests.kernels.softmax.test_extremes import extremes
from tests.kernels.variants import INTERPRETED

pytestmark = [
    pytest.mark.skipif(not INTERPRETED, reason="a card runs programs at once by itself"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

BLOCK = 16
STORED = [("store", "words"), ("store", "y")]


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


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_infinities_and_nan_give_what_torch_gives(dtype: torch.dtype, ahead: bool) -> None:
    x = extremes().to(dtype)
    y = softmax(x, torch.zeros(12, dtype=torch.int64), groups=2, ahead=ahead, seed=1)
    wanted = torch.softmax(x.double(), dim=1)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=1e-7, equal_nan=True)


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


def test_a_group_of_which_one_never_comes_is_seen_to_wait() -> None:
    words = torch.zeros(4, dtype=torch.int64)
    x = torch.randn(2, 32)
    words[1] = -1  # as if the second program had published its next row's word already
    with pytest.raises(Exception, match="none goes on"):
        softmax(x, words, groups=1, ahead=False, seed=0)
