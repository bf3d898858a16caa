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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from experiments import child
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import UserError
from experiments.sweep import cards as sweep_cards
from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool, lock_of, take, visible_cards
from experiments.sweep.cards import cards_of as launcher_cards
from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, Command, Compose, once_each, shape

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


def test_a_sweep_takes_its_card_and_a_dry_run_does_not(
    cards: list[str], sweep: Command, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[set[int]] = []
    monkeypatch.setattr(sweep_cards, "take", lambda cards: taken.append(cards) or ExitStack())
    monkeypatch.setattr(sweep_cards, "Worker", lambda *_: worker)
    monkeypatch.setattr(worker, "stop", lambda *_: None)
    asked = ["kernel=good", *shape(4, 8), "dtype=float32", *QUICK, "gpu=auto"]
    assert (sweep(*asked, "dry_run=true").status, taken) == (0, [])
    assert (sweep(*asked).status, taken) == (0, [{0}])


class Disguised(Worker):
    """A worker on the CPU that says it is on a card."""

    kinds = ("NVIDIA H200",) * 2

    def __init__(self, card: int, log: Path) -> None:
        super().__init__("cpu", card, log)

    def start(self) -> dict[str, Any]:
        handshake = super().start()
        handshake["device"]["name"] = self.kinds[self.card]
        return handshake


@pytest.fixture(scope="module")
def hosts_cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    """Two of them, for all sweeps of this module."""
    folder = tmp_path_factory.mktemp("cards")
    workers: list[Worker] = [Disguised(card, folder / f"{card}.log") for card in range(2)]
    yield workers
    for worker in workers:
        worker.stop()


Sweep = Callable[..., list[Row]]


@pytest.fixture
def run(
    tmp_path: Path, hosts_cards: list[Worker], compose_job: Compose,
    monkeypatch: pytest.MonkeyPatch,
) -> Sweep:  # fmt: skip
    """Sweeps shards, a width each, over cards; gives all rows of the folder."""

    class Pool(WorkerPool):
        def worker(self, device: str, card: int) -> Worker:
            return self.workers.setdefault((device, card), hosts_cards[card])

        def close(self) -> None:
            """The workers stay for the next sweep."""

    monkeypatch.setattr(driver, "WorkerPool", Pool)

    def swept(cards: list[int], *others: str, widths: tuple[int, ...] = (8, 16, 32)) -> list[Row]:
        common = ["dtype=float32", "tracker=none", "remeasure=false", f"out={tmp_path}", *QUICK]
        driver.run(
            [compose_job([f"kernel={kernel}", *shape(4, n), *common, *others])
             for n in widths for kernel in ("torch", "copy")], cards,
        )  # fmt: skip
        return [row for path in rows_files(tmp_path) for row in read_rows(path)]

    return swept


def cards_of(rows: list[Row]) -> dict[int, set[int]]:
    """By width, the cards that its rows are of."""
    return {n: {row.card for row in rows if row.cols == n} for n in {row.cols for row in rows}}


def test_a_shard_is_measured_on_one_card_in_all_rounds_and_resumed_there(run: Sweep) -> None:
    rows = run([0, 1], "rounds=2")
    assert once_each(rows)
    assert len(rows) == 3 * 2 * 2
    places = cards_of(rows)
    assert all(len(cards) == 1 for cards in places.values())
    assert set.union(*places.values()) == {0, 1}
    # nothing again, in whatever order the cards are named
    assert len(run([1, 0], "rounds=2")) == len(rows)
    # a third round finds each shard on its card
    longer = run([1, 0], "rounds=3", "overwrite=true")
    assert len(longer) == 3 * 2 * (2 + 3)
    assert cards_of(longer) == places


def test_cards_of_two_kinds_are_refused(run: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disguised, "kinds", ("NVIDIA H200", "NVIDIA L4"))
    with pytest.raises(UserError, match=r"card 0 is NVIDIA H200, card 1 is NVIDIA L4"):
        run([0, 1])
