"""Triton's interpreter with all programs of a launch under way, one at a time, in any order."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kernels.language import tl  # where the interpreter looks for it: beside what it runs

MOST_TURNS = 5_000  # of one launch; a few hundred are plenty


class Turns:
    """Programs as threads, of which one runs until it hands over.

    Args:
        programs: What each does, given its number.
        resume: Called with a program's number when its turn comes.
        order: Chooses who is next.
    """

    def __init__(
        self,
        programs: int,
        work: Callable[[int], None],
        resume: Callable[[int], None],
        order: random.Random,
    ) -> None:
        self._work, self._resume, self._order = work, resume, order
        self._alive = list(range(programs))
        self._changed = threading.Condition()
        self._turn, self._taken = order.choice(self._alive), 0
        self._failed: BaseException | None = None

    def run(self) -> None:
        """Runs all programs to their ends.

        Raises:
            BaseException: what the first program to fail raised, a TimeoutError if none ends.
        """
        threads = [threading.Thread(target=self._one, args=(p,)) for p in list(self._alive)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed

    def hand_over(self) -> None:
        """Lets another program, or this one again, have the next turn; returns at its own."""
        me = self._turn
        with self._changed:
            self._taken += 1
            if self._taken > MOST_TURNS:
                raise TimeoutError("programs wait for one another and none goes on")
            self._next()
        self._wait(me)

    def _one(self, program: int) -> None:
        try:
            self._wait(program)
            self._work(program)
        except BaseException as error:
            self._failed = self._failed or error
        finally:
            with self._changed:
                self._alive.remove(program)
                self._next()

    def _next(self) -> None:
        if self._alive:
            self._turn = self._order.choice(self._alive)
        self._changed.notify_all()

    def _wait(self, program: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == program or self._failed is not None)
            if self._failed is not None:
                raise InterruptedError("another program failed")
        self._resume(program)


@contextmanager
def in_turns(kernel: Any, module: Any, seed: int) -> Iterator[None]:
    """Launches of ``kernel`` inside the block take turns where they publish and await words."""
    from triton.runtime.interpreter import interpreter_builder

    function, publish, order = kernel.rewrite(), module.publish, random.Random(seed)
    turns: list[Turns] = []

    def launch(**arguments: Any) -> None:
        # called for each program of the grid: the last one's call runs them all
        programs = interpreter_builder.grid_dim[0]
        if interpreter_builder.grid_idx[0] == programs - 1:
            turns[:] = [
                Turns(
                    programs,
                    lambda _: function(**arguments),
                    lambda program: interpreter_builder.set_grid_idx(program, 0, 0),
                    order,
                )
            ]
            turns[0].run()

    def publishing(*arguments: Any) -> None:
        turns[0].hand_over()
        publish(*arguments)
        turns[0].hand_over()

    def awaiting(words: Any, tag: Any) -> Any:
        while True:
            seen = tl.load(words)
            if (module.tag_of(seen).handle.data == tag.handle.data).all():
                return seen
            turns[0].hand_over()

    with (
        patch.object(type(kernel), "rewrite", _rewrite(kernel, launch)),
        patch.object(module, "publish", publishing),
        patch.object(module, "await_words", awaiting),
    ):
        yield


def _rewrite(kernel: Any, launch: Any) -> Callable[[Any], Any]:
    original = type(kernel).rewrite
    # the executor asks for the signature and annotations of what it runs
    launch.__signature__ = inspect.signature(kernel.fn)  # type: ignore[attr-defined]
    launch.__annotations__ = kernel.fn.__annotations__
    return lambda self: launch if self is kernel else original(self)
