"""The exchange of `cooperative` as steps, and all orders in which they can happen.

One group of programs, several warps each, works through launch after launch on the same words. A
step happens at once or, where it waits, not yet; which of those that can happen comes next is
anyone's choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Step = tuple[str, int, int]  # what, in which round, of which program
Word = tuple[int, tuple[int, int]]  # its tag, and the launch and round it speaks of
Warp = tuple[int, tuple[int, ...]]  # steps taken, and the tags it learned
State = tuple[int, tuple[Warp, ...], tuple[Word, ...]]  # launch, warps, words


class Broken(AssertionError):
    """The exchange went wrong."""


@dataclass(frozen=True)
class Protocol:
    """What happens in a launch of a group. The defaults are the kernel's; others are mistakes.

    Attributes:
        programs: Of the group.
        warps: Of a program.
        launches: Rounds, one a row, of each launch.
        buffers: Words a program, used in turn.
        barrier: Whether a program's warps meet before it publishes.
        learns: Whether a program looks up its tags, or takes them for 0.
    """

    programs: int
    warps: int
    launches: tuple[int, ...]
    buffers: int = 2
    barrier: bool = True
    learns: bool = True

    def steps(self, launch: int, warp: int) -> list[Step]:
        """A warp's steps in one launch, in the order of `_cooperative`."""
        program = warp // self.warps
        taken: list[Step] = [("learn", 0, program)]
        for turn in range(self.launches[launch]):
            taken += [("meet", turn, program)] if self.barrier else []
            taken += [("publish", turn, program)] if warp % self.warps == 0 else []
            taken += [("await", turn, other) for other in range(self.programs)]
        return taken

    def start(self) -> State:
        """Before the first launch, with zeros for words."""
        warps = self.programs * self.warps
        words: tuple[Word, ...] = ((0, (-1, -1)),) * (self.programs * self.buffers)
        return 0, ((0, ()),) * warps, words

    def following(self, state: State) -> Iterator[State]:
        """The states that one step leads to; the next launch starts when all have ended.

        Raises:
            Broken: a warp took a word of another row for the one it awaited.
        """
        launch, warps, words = state
        steps = [self.steps(launch, warp) for warp in range(len(warps))]
        ended = all(at == len(mine) for (at, _), mine in zip(warps, steps, strict=True))
        if ended and launch + 1 < len(self.launches):
            yield launch + 1, ((0, ()),) * len(warps), words
        for warp, (at, tags) in enumerate(warps):
            if at == len(steps[warp]):
                continue
            what, turn, program = steps[warp][at]
            place = turn % self.buffers * self.programs + program
            after = words
            if what == "learn":
                mine = words[program :: self.programs]
                tags = tuple(tag for tag, _ in mine) if self.learns else (0,) * self.buffers
            elif what == "meet":
                first = warp // self.warps * self.warps
                others = range(first, first + self.warps)
                if any(warps[o][0] < steps[o].index(("meet", turn, program)) for o in others):
                    continue
            else:
                tag = tags[turn % self.buffers] ^ (turn // self.buffers + 1) % 2
                if what == "publish":
                    after = (*words[:place], (tag, (launch, turn)), *words[place + 1 :])
                elif words[place][0] != tag:
                    continue
                elif words[place][1] != (launch, turn):
                    raise Broken(f"awaited row {turn} of launch {launch}, took {words[place][1]}")
            yield launch, (*warps[:warp], (at + 1, tags), *warps[warp + 1 :]), after

    def check_end(self, state: State) -> None:
        """Nothing can happen any more: so all must have ended, and left their tags alike.

        Raises:
            Broken: a warp waits for ever, or the next launch would start with unlike tags.
        """
        launch, warps, words = state
        left = [w for w, (at, _) in enumerate(warps) if at < len(self.steps(launch, w))]
        if left or launch + 1 < len(self.launches):
            raise Broken(f"warps {left} of launch {launch} wait for ever")
        for buffer in range(self.buffers):
            first = buffer * self.programs
            if len({tag for tag, _ in words[first : first + self.programs]}) > 1:
                raise Broken(f"tags differ: {words}")


def explore(protocol: Protocol) -> int:
    """Goes through every order of steps and returns how many states there are.

    Raises:
        Broken: some order goes wrong.
    """
    seen, todo = {protocol.start()}, [protocol.start()]
    while todo:
        state = todo.pop()
        reached = list(protocol.following(state))
        if not reached:
            protocol.check_end(state)
        todo += [one for one in reached if one not in seen]
        seen.update(reached)
    return len(seen)


def walk(protocol: Protocol, choices: Sequence[int]) -> None:
    """Goes through one order of steps, the n-th step by the n-th choice, over and over.

    Raises:
        Broken: it goes wrong.
    """
    state, taken = protocol.start(), 0
    while reached := list(protocol.following(state)):
        state = reached[choices[taken % len(choices)] % len(reached)]
        taken += 1
    protocol.check_end(state)
