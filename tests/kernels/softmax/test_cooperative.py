"""`cooperative` with its programs under way at once, and the words through which they meet."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.worker.counting import Recorder
from kernels.language import jit, next_power_of_two, tl
from kernels.softmax import cooperative
from kernels.softmax.cooperative import WORDS, Workspaces, pack, tag_of
from tests.kernels.variants import INTERPRETED, LAYOUTS, extremes, lay_out

at_once = pytest.mark.skipif(not INTERPRETED, reason="a card runs programs at once by itself")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
BLOCK = 16
MOST_TURNS = 2_000  # of one launch; a few hundred are plenty


class Turns:
    """Programs as threads, of which one runs until it hands over; ``order`` chooses the next."""

    def __init__(self, order: random.Random) -> None:
        self._order = order
        self._go: list[threading.Semaphore] = []
        self._back = threading.Semaphore(0)
        self._turn = 0
        self._stopped = False

    def run(self, programs: int, work: Callable[[], None], resume: Callable[[int], None]) -> None:
        """Runs all programs to their ends; ``resume`` is given the program whose turn it is.

        Raises:
            BaseException: what the first program to fail raised, a TimeoutError if none ends.
        """
        self._go = [threading.Semaphore(0) for _ in range(programs)]
        alive, failed = list(range(programs)), []

        def one(program: int) -> None:
            self._go[program].acquire()
            try:
                if not self._stopped:
                    work()
            except BaseException as error:
                failed.append(error)
            alive.remove(program)
            self._back.release()

        threads = [threading.Thread(target=one, args=(program,)) for program in range(programs)]
        for thread in threads:
            thread.start()
        for _ in range(MOST_TURNS):
            if not alive or failed:
                break
            self._turn = self._order.choice(alive)
            resume(self._turn)
            self._go[self._turn].release()
            self._back.acquire()
        else:
            failed.append(TimeoutError("programs wait for one another and none goes on"))
        self._stopped = bool(failed)
        for semaphore in self._go:
            semaphore.release()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def hand_over(self) -> None:
        """Lets another program, or this one again, have the next turn; returns at its own."""
        me = self._turn
        self._back.release()
        self._go[me].acquire()
        if self._stopped:
            raise InterruptedError("another program failed")


@contextmanager
def in_turns(kernel: Any, module: Any, seed: int) -> Iterator[None]:
    """Launches of ``kernel`` inside the block take turns where they publish and await words."""
    from triton.runtime.interpreter import interpreter_builder

    function, publish, rewrite = kernel.rewrite(), module.publish, type(kernel).rewrite
    order = random.Random(seed)
    turns = Turns(order)

    def launch(**arguments: Any) -> None:
        # called for each program of the grid: the last one's call runs them all
        nonlocal turns
        programs = interpreter_builder.grid_dim[0]
        if interpreter_builder.grid_idx[0] == programs - 1:
            turns = Turns(order)
            turns.run(
                programs,
                lambda: function(**arguments),
                lambda program: interpreter_builder.set_grid_idx(program, 0, 0),
            )

    # the executor asks for the signature and annotations of what it runs
    launch.__signature__ = inspect.signature(kernel.fn)  # type: ignore[attr-defined]
    launch.__annotations__ = kernel.fn.__annotations__

    def publishing(*arguments: Any) -> None:
        turns.hand_over()
        publish(*arguments)
        turns.hand_over()

    def awaiting(words: Any, tag: Any) -> Any:
        while True:
            seen = tl.load(words)
            if (module.tag_of(seen).handle.data == tag.handle.data).all():
                return seen
            turns.hand_over()

    with (
        patch.object(
            type(kernel), "rewrite", lambda self: launch if self is kernel else rewrite(self)
        ),
        patch.object(module, "publish", publishing),
        patch.object(module, "await_words", awaiting),
    ):
        yield


def softmax(
    x: torch.Tensor, words: torch.Tensor, groups: int, deferred: bool, seed: int, width: int = BLOCK
) -> torch.Tensor:
    """One launch of the kernel with slices of up to 16, on the words of launches before it."""
    y = torch.full_like(x, 7.0, memory_format=torch.contiguous_format)
    slices = -(-x.shape[1] // width)
    with in_turns(cooperative._cooperative, cooperative, seed):
        cooperative._cooperative[(groups * slices,)](
            *(x, y, words, *x.shape, *x.stride(), slices, width),
            SLOTS=next_power_of_two(slices),
            BLOCK=BLOCK,
            DEFERRED=deferred,
            LOADS="",
            STORES="",
        )
    return y


@at_once
@settings(max_examples=12, deadline=None)
@given(
    launches=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    cols=st.integers(1, 75),
    groups=st.integers(1, 3),
    deferred=st.booleans(),
    width=st.integers(11, BLOCK),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 2**16),
)
def test_launch_after_launch_on_the_same_words_is_right_in_any_order(
    launches: list[int],
    cols: int,
    groups: int,
    deferred: bool,
    width: int,
    layout: str,
    seed: int,
) -> None:
    words = torch.zeros(WORDS * groups * -(-cols // width), dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    for rows in launches:
        x = lay_out(torch.randn(rows, cols, generator=generator), layout)
        y = softmax(x, words, min(groups, rows), deferred, seed, width)
        torch.testing.assert_close(y, torch.softmax(x, dim=1))


@at_once
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_infinities_and_nan_give_what_torch_gives(dtype: torch.dtype, deferred: bool) -> None:
    x = extremes().to(dtype)
    y = softmax(x, torch.zeros(24, dtype=torch.int64), groups=2, deferred=deferred, seed=1)
    wanted = torch.softmax(x.double(), dim=1)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=1e-7, equal_nan=True)


@at_once
@pytest.mark.parametrize("deferred", [False, True])
def test_each_element_is_read_once_and_written_once(deferred: bool) -> None:
    x, words = torch.randn(7, 70), torch.zeros(WORDS * 2 * 5, dtype=torch.int64)
    recorder = Recorder({"x": x})
    recorder.meet("words", words)
    with recorder.recording():
        softmax(x, words, groups=2, deferred=deferred, seed=3)
    touched = {one["name"]: (one["loads"], one["stores"]) for one in recorder.totals()}
    assert touched["x"] == (x.numel(), 0)
    assert touched["full_like"] == (0, 2 * x.numel())  # made full of something, then written


@at_once
def test_a_group_of_which_one_never_comes_is_seen_to_wait() -> None:
    words = torch.zeros(2 * WORDS, dtype=torch.int64)
    words[1] = -1  # as if the second program had published its next row's word already
    with pytest.raises(Exception, match="none goes on"):
        softmax(torch.randn(2, 32), words, groups=1, deferred=False, seed=0)


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
