"""`cooperative` on a CPU, with all its programs under way at once and in any order.

A card runs them at once by itself: see test_contract.py.
"""

import inspect
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from experiments.worker.counting import Recorder
from kernels.device import Device
from kernels.language import tl
from kernels.softmax import cooperative
from kernels.softmax.cooperative import Cooperative
from tests.kernels.conftest import H200, INTERPRETED, LAYOUTS, lay_out, on_card

pytestmark = [
    pytest.mark.skipif(not INTERPRETED, reason="a card runs programs at once by itself"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
MOST_TURNS = 2_000  # that a program waits; a few are plenty


@contextmanager
def at_once(card: Device, seed: int) -> Iterator[None]:
    """Each program of a launch is a thread, which hands over where it publishes or awaits words."""
    from triton.runtime.interpreter import interpreter_builder

    kernel, publish = cooperative._cooperative, cooperative.publish
    function, rewrite = kernel.rewrite(), type(kernel).rewrite
    order, own, failed = random.Random(seed), threading.local(), list[BaseException]()
    turns: dict[int, threading.Semaphore] = {}  # of the programs that have not ended

    def pass_on() -> None:
        turns[order.choice([*turns])].release()

    def resume() -> None:
        turns[own.program].acquire()
        interpreter_builder.set_grid_idx(own.program, 0, 0)
        if failed:
            raise InterruptedError("another program failed")

    def hand_over() -> None:
        pass_on()
        resume()

    def launch(**arguments: Any) -> None:
        # called for each program of the grid: the last one's call runs them all
        programs = range(interpreter_builder.grid_dim[0])
        if interpreter_builder.grid_idx[0] < programs[-1]:
            return
        turns.update({program: threading.Semaphore(0) for program in programs})

        def one(program: int) -> None:
            own.program = program
            try:
                resume()
                function(**arguments)
            except BaseException as error:
                failed.append(error)
            del turns[program]
            if turns:
                pass_on()

        with ThreadPoolExecutor(len(programs)) as threads:
            threads.map(one, programs)
            pass_on()
        if failed:
            raise failed[0]

    # the executor asks for the signature and annotations of what it runs
    launch.__signature__ = inspect.signature(kernel.fn)  # type: ignore[attr-defined]
    launch.__annotations__ = kernel.fn.__annotations__

    def publishing(*arguments: Any) -> None:
        hand_over()
        publish(*arguments)
        hand_over()

    def awaiting(words: Any, tag: Any) -> Any:
        for _ in range(MOST_TURNS):
            seen = tl.load(words)
            if (cooperative.tag_of(seen).handle.data == tag.handle.data).all():
                return seen
            hand_over()
        raise TimeoutError("programs wait for one another and none goes on")

    with (
        patch.object(
            type(kernel), "rewrite", lambda self: launch if self is kernel else rewrite(self)
        ),
        patch.multiple(cooperative, publish=publishing, await_words=awaiting),
        pytest.MonkeyPatch.context() as patched,
    ):
        on_card(patched, lambda _: card)
        yield


@pytest.mark.parametrize("beside", [0.0, -torch.inf, torch.inf, torch.nan])
@settings(max_examples=8, deadline=None)
@given(
    launches=st.integers(1, 3),
    rows=st.integers(1, 9),
    cols=st.integers(1, 5),
    sms=st.integers(1, 3),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 2**16),
)
def test_launch_after_launch_on_the_same_words_is_right_in_any_order(
    beside: float, launches: int, rows: int, cols: int, sms: int, layout: str, seed: int
) -> None:
    card, kernel, cols = replace(H200, sms=sms), Cooperative(16), 16 * cols
    assume(kernel.unsupported((rows, cols), torch.float32, card) is None)
    every = torch.randn(launches, rows, cols, generator=torch.Generator().manual_seed(seed))
    share = 0.9 if beside == -torch.inf else 0.02  # slices of −inf alone, one NaN in a row
    every[torch.rand(every.shape, generator=torch.Generator().manual_seed(seed)) < share] = beside
    inputs = [lay_out(x, layout) for x in every]
    with at_once(card, seed):
        call = kernel.prepare(inputs[0])
        for x in inputs:
            torch.testing.assert_close(call(x), torch.softmax(x, dim=1), equal_nan=True)


def test_each_element_is_read_once_and_written_once() -> None:
    x, y = torch.randn(7, 80), torch.empty(7, 80)
    recorder = Recorder({"x": x})
    recorder.register("y", y)
    with at_once(replace(H200, sms=2), 3), recorder.recording():
        Cooperative(16)(x, y)
    touched = {one["name"]: (one["loads"], one["stores"]) for one in recorder.totals()}
    assert (touched["x"], touched["y"]) == ((x.numel(), 0), (0, x.numel()))
