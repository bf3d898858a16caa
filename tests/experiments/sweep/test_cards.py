"""Several cards: their locks against real processes, and which card measures which shard.

NVML is disguised, and the cards of sweeps are workers on this CPU that say they are cards.
"""

from __future__ import annotations

import os
import secrets
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments import child
from experiments.errors import UserError
from experiments.sweep import cards as sweep_cards
from experiments.sweep.cards import WorkerPool, lock_of, take, visible_cards
from experiments.sweep.cards import cards_of as launcher_cards
from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, Command, once_each, shape

NVML = ROOT / "tests" / "doubles" / "nvml"
HOLD = """
import sys
from experiments.sweep.cards import take
with take([int(card) for card in sys.argv[1:]]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The bus ids of a host with two cards, which no other test has."""
    ids = sorted(f"test:{secrets.token_hex(4)}:00.0" for _ in range(2))
    monkeypatch.setenv("CARDS", " ".join(ids))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.syspath_prepend(str(NVML))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    child._nvml.cache_clear()
    yield ids
    child._nvml.cache_clear()
    sys.modules.pop("pynvml", None)
    for bus_id in ids:
        lock_of(bus_id).unlink(missing_ok=True)


def holder(*cards: int, **variables: str) -> subprocess.Popen[str]:
    """Another process that asks for the locks of cards and says when it holds them."""
    path = os.pathsep.join([str(NVML), str(ROOT)])
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", HOLD, *map(str, cards)]
    given = os.environ | {"PYTHONPATH": path} | variables
    return subprocess.Popen(command, text=True, env=given, **pipes)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("variable", "seen"), [(None, [0, 1]), ("1,0", [1, 0]), ("", []), ("GPU-1aaa", [])]
)
def test_visible_cards_are_numbered_as_cuda_shows_them(
    cards: list[str], monkeypatch: pytest.MonkeyPatch, variable: str | None, seen: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_cards() == [cards[i] for i in seen]
    with take([0]):
        assert ("cards are not locked" in capsys.readouterr().err) == (variable == "GPU-1aaa")
    if seen:
        assert launcher_cards("all") == [0, 1]
    else:
        with pytest.raises(UserError, match="cards=all; name cards by index"):
            launcher_cards("all")


def test_a_killed_holder_frees_its_card_and_one_that_waits_goes_on(cards: list[str]) -> None:
    first = holder(0)
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    second = holder(0, 1, CUDA_VISIBLE_DEVICES="1,0")  # the same cards by other numbers
    assert second.stderr is not None
    assert second.stderr.readline() == "card 1 is in use by another sweep; waiting\n"
    with take([1]):  # the other card is nobody's: whoever waits holds only what comes earlier
        pass
    assert select.select([second.stdout], [], [], 0.5)[0] == []  # it has not gone on
    first.kill()
    assert second.communicate(timeout=60)[0] == "held\n"
    first.communicate()


def test_every_user_can_open_the_lock_and_nobody_is_led_elsewhere(
    cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with take([0]):
        assert stat.S_IMODE(lock_of(cards[0]).stat().st_mode) == 0o666
    monkeypatch.setattr(sweep_cards, "LOCK_FOLDERS", (tmp_path,))
    lock_of(cards[0]).symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="lock of card 0, cannot be opened"), take([0]):
        pass
    assert not (tmp_path / "precious").exists()


@pytest.fixture
def on_cards(
    cards: list[str], sweep: Command, worker: Worker, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Command]:  # fmt: skip
    """Sweeps of three shards, a width each, on cards in whose place are workers on this CPU."""
    other = Worker("cpu", 1, tmp_path / "worker.log")
    monkeypatch.setattr(sweep_cards, "Worker", lambda _, card, *__: (worker, other)[card])
    monkeypatch.setattr(WorkerPool, "close", lambda pool: pool._locks.close())  # workers stay
    asked = ["kernel=torch", *shape(4, 8), "grid.cols=8,16,32", "dtype=float32", "gpu=auto", *QUICK]
    yield partial(sweep, *asked)
    other.stop()


def test_a_shard_is_measured_on_one_card_in_all_rounds_and_resumed_there(
    on_cards: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[set[int]] = []
    monkeypatch.setattr(sweep_cards, "take", lambda cards: taken.append(cards) or ExitStack())
    for cards, rounds in (("[0,1]", 2), ("[1,0]", 3)):  # in whatever order the cards are named
        asked = [f"hydra.launcher.cards={cards}", f"rounds={rounds}"]
        assert (on_cards(*asked, "dry_run=true").status, taken) == (0, [])
        done = on_cards(*asked)
        assert (done.status, len(done.rows)) == (0, 3 * 2 * rounds), done.stderr
        assert taken.pop() == {0, 1}
        assert once_each(done.rows)
        places = {row.cols: {r.card for r in done.rows if r.cols == row.cols} for row in done.rows}
        assert all(len(found) == 1 for found in places.values())
        assert set.union(*places.values()) == {0, 1}


def test_cards_of_two_kinds_are_refused(on_cards: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    start, spawn = Worker.start, Worker.spawn

    def disguised(self: Worker) -> dict[str, Any]:
        if self.card == 1:
            return {"device": {"name": "NVIDIA L4"}}  # it need not be up to be refused
        handshake = start(self)
        return handshake | {"device": handshake["device"] | {"name": "NVIDIA H200"}}

    monkeypatch.setattr(Worker, "start", disguised)
    monkeypatch.setattr(Worker, "spawn", lambda self: None if self.card else spawn(self))
    done = on_cards("hydra.launcher.cards=[0,1]")
    assert "card 0 is NVIDIA H200, card 1 is NVIDIA L4" in done.error
