"""Several cards: their locks, and which card measures which shard.

NVML is disguised, and the cards of sweeps are workers on this CPU that say they are cards.
"""

import io
import secrets
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.data.errors import UserError
from experiments.parent import cards as sweep_cards
from experiments.parent.cards import WorkerPool, lock_cards, lock_of, visible_cards
from experiments.parent.cards import cards_of as launcher_cards
from experiments.parent.client import Worker
from tests.conftest import QUICK, Command, once_each, shape


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The bus ids of a host with two cards, which no other test has."""
    ids = sorted(f"test:{secrets.token_hex(4)}:00.0" for _ in range(2))
    nvml = {
        "DeviceGetCount": lambda: 2,
        "DeviceGetHandleByIndex": int,
        "DeviceGetPciInfo": lambda card: SimpleNamespace(busId=ids[card]),
    }
    monkeypatch.setattr(sweep_cards, "ask_nvml", lambda what, *given: nvml[what](*given))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield ids
    for bus_id in ids:
        lock_of(bus_id).unlink(missing_ok=True)


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
    with lock_cards([0]):
        assert ("cards are not locked" in capsys.readouterr().err) == (variable == "GPU-1aaa")
    if seen:
        assert launcher_cards("all") == [0, 1]
    else:
        with pytest.raises(UserError, match="cards=all; name cards by index"):
            launcher_cards("all")


def test_whoever_waits_for_a_card_holds_none_that_comes_later_and_goes_on_once_it_is_free(
    cards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", heard := io.StringIO())  # capsys loses what threads print
    with ThreadPoolExecutor(1) as another, lock_cards([0]) as first:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")  # the same cards by other numbers
        second = another.submit(lock_cards, [0, 1])
        while "card 1 is in use by another sweep; waiting" not in heard.getvalue():
            time.sleep(0.01)
        with lock_cards([0]):  # the other card is nobody's
            time.sleep(0.2)
        assert not second.done()
        first.close()
        second.result(timeout=60).close()


def test_every_user_can_open_the_lock_and_nobody_is_led_elsewhere(
    cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lock_cards([0]):
        assert stat.S_IMODE(lock_of(cards[0]).stat().st_mode) == 0o666
    monkeypatch.setattr(sweep_cards, "LOCK_FOLDERS", (tmp_path,))
    lock_of(cards[0]).symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="lock of card 0, cannot be opened"), lock_cards([0]):
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
    monkeypatch.setattr(sweep_cards, "lock_cards", lambda cards: taken.append(cards) or ExitStack())
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


def test_cards_of_two_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, names = WorkerPool(tmp_path / "worker.log", [0, 1]), ["NVIDIA H200", "NVIDIA L4"]
    monkeypatch.setattr(Worker, "start", lambda self: {"device": {"name": names[self.card]}})
    for card in pool.cards:
        pool.worker("cuda", card)
    pool.worker("cuda", 1, "mine.py")  # beside the one that checks its answers
    assert [pool.on_card(card) for card in pool.cards] == [1, 2]
    with pytest.raises(UserError, match="card 0 is NVIDIA H200, card 1 is NVIDIA L4"):
        pool.cards_of_one_kind()
