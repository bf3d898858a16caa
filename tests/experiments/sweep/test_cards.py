"""Never two timings on one card: the lock against real processes, NVML disguised."""

from __future__ import annotations

import os
import secrets
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.errors import UserError
from experiments.sweep import cards as sweep_cards
from experiments.sweep.cards import WorkerPool, cards_of, held, lock_of, visible_cards
from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, Command, shape

NVML = ROOT / "tests" / "doubles" / "nvml"
HOLD = """
import sys
from experiments.sweep.cards import held
with held([int(card) for card in sys.argv[1:]]):
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
    yield ids
    sys.modules.pop("pynvml", None)
    for bus_id in ids:
        lock_of(bus_id).unlink(missing_ok=True)


def holder(*cards: int, **variables: str) -> subprocess.Popen[str]:
    """Another process that asks for the locks of cards."""
    path = os.pathsep.join([str(NVML), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, *map(str, cards)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path} | variables,
    )


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("variable", "seen"),
    [(None, [0, 1]), ("1,0", [1, 0]), ("", []), ("0,7,1", [0]), ("GPU-1aaa", [1]),
     ("MIG-1-part,MIG-1-other", [1, 1]), ("nonsense", [])],
)  # fmt: skip
def test_visible_cards_are_those_that_cuda_would_show(
    cards: list[str], monkeypatch: pytest.MonkeyPatch, variable: str | None, seen: list[int]
) -> None:
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_cards() == [cards[i] for i in seen]


def test_all_is_every_visible_card_and_an_error_without_any(
    cards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cards_of("all") == [0, 1]
    monkeypatch.delenv("CARDS")
    with pytest.raises(UserError, match="cards=all: NVML shows no card here"):
        cards_of("all")


def test_a_killed_holder_frees_its_card_and_one_that_waits_goes_on(cards: list[str]) -> None:
    first = holder(0)
    assert says(first) == "held"
    with held([1]):  # the other card is nobody's
        pass
    # the same card by another number
    second = holder(0, CUDA_VISIBLE_DEVICES="GPU-0aaa")
    assert second.stderr is not None
    line = second.stderr.readline().strip()
    assert line == f"card 0 is in use by process {first.pid} of another sweep; waiting"
    assert select.select([second.stdout], [], [], 0.5)[0] == []  # it has not gone on
    first.send_signal(signal.SIGKILL)
    assert says(second) == "held"
    first.communicate()
    assert "card 0 is free" in second.communicate()[1]


def test_a_worker_that_inherits_the_lock_keeps_it_beyond_its_parent(cards: list[str]) -> None:
    with held([0, 5]) as locks:  # NVML knows no sixth
        assert list(locks) == [0]
        heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                                pass_fds=(locks[0],))  # fmt: skip
    waiting = holder(0)
    assert waiting.stderr is not None
    assert "card 0 is in use" in waiting.stderr.readline()
    heir.communicate()
    assert says(waiting) == "held"
    waiting.communicate()


def test_two_sweeps_that_name_cards_in_opposite_order_do_not_wait_for_each_other(
    cards: list[str],
) -> None:
    both = [holder(0, 1), holder(0, 1, CUDA_VISIBLE_DEVICES="1,0")]
    for process in both:  # each ends as its input ends, and the other follows
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in both] == [0, 0]


def test_every_user_can_open_the_lock_and_nobody_is_led_elsewhere(
    cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o077)
    try:
        with held([0]):
            assert stat.S_IMODE(lock_of(cards[0]).stat().st_mode) == 0o666
    finally:
        os.umask(before)
    target = tmp_path / "precious"
    target.write_text("precious")
    monkeypatch.setattr(sweep_cards, "LOCK_FOLDERS", (tmp_path,))
    lock_of(cards[0]).symlink_to(target)
    with pytest.raises(UserError, match="lock of card 0, cannot be opened"), held([0]):
        pass
    os.mkfifo(lock_of(cards[1]))
    with pytest.raises(UserError, match="not a plain file"), held([1]):
        pass
    assert target.read_text() == "precious"


def test_a_sweep_that_does_not_wait_yet_takes_no_card_without_the_other(
    cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(Worker, "spawn", lambda worker: started.append(worker.card))
    jobs: list[Any] = [SimpleNamespace(config={"gpu": {"device": "cuda", "card": card}})
                       for card in (0, 1)]  # fmt: skip
    other = holder(1)
    assert says(other) == "held"
    pool = WorkerPool(tmp_path / "worker.log", [0])
    for job in jobs:
        pool.start([job], wait=False)
    assert started == [0]
    with held([0], wait=False):  # given back when the other was not to be had
        pass
    other.communicate()
    pool.start(jobs)
    assert sorted(started) == [0, 0, 1]
    for card in (0, 1):
        with pytest.raises(BlockingIOError), held([card], wait=False):
            pass
    pool.close()


def test_a_sweep_takes_its_card_and_a_dry_run_does_not(
    cards: list[str], sweep: Command, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(sweep_cards, "_take", lambda _, card, wait: taken.append(card))
    monkeypatch.setattr(sweep_cards, "Worker", lambda *_: worker)
    monkeypatch.setattr(worker, "stop", lambda *_: None)
    monkeypatch.setattr(worker, "lock", None)
    asked = ["kernel=good", *shape(4, 8), "dtype=float32", *QUICK, "gpu=auto"]
    assert sweep(*asked, "dry_run=true").status == 0
    assert taken == []
    assert sweep(*asked).status == 0
    assert taken == [0]
