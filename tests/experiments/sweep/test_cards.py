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
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.sweep import cards as sweep_cards
from experiments.sweep.cards import cards_of, lock_of, take, visible_cards
from experiments.sweep.client import Worker
from tests.conftest import QUICK, ROOT, Command, shape

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
    with take([1]):  # the other card is nobody's
        pass
    # the same card by another number
    second = holder(0, CUDA_VISIBLE_DEVICES="GPU-0aaa")
    assert second.stderr is not None
    line = second.stderr.readline().strip()
    assert line == "card 0 is in use by another sweep; waiting"
    assert select.select([second.stdout], [], [], 0.5)[0] == []  # it has not gone on
    first.send_signal(signal.SIGKILL)
    assert says(second) == "held"
    first.communicate()
    assert "card 0 is free" in second.communicate()[1]


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
        with take([0]):
            assert stat.S_IMODE(lock_of(cards[0]).stat().st_mode) == 0o666
    finally:
        os.umask(before)
    target = tmp_path / "precious"
    target.write_text("precious")
    monkeypatch.setattr(sweep_cards, "LOCK_FOLDERS", (tmp_path,))
    lock_of(cards[0]).symlink_to(target)
    with pytest.raises(UserError, match="lock of card 0, cannot be opened"), take([0]):
        pass
    assert target.read_text() == "precious"


def test_a_sweep_takes_its_card_and_a_dry_run_does_not(
    cards: list[str], sweep: Command, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[set[int]] = []

    def noted(cards: set[int]) -> ExitStack:
        taken.append(cards)
        return ExitStack()

    monkeypatch.setattr(sweep_cards, "take", noted)
    monkeypatch.setattr(sweep_cards, "Worker", lambda *_: worker)
    monkeypatch.setattr(worker, "stop", lambda *_: None)
    asked = ["kernel=good", *shape(4, 8), "dtype=float32", *QUICK, "gpu=auto"]
    assert sweep(*asked, "dry_run=true").status == 0
    assert taken == []
    assert sweep(*asked).status == 0
    assert taken == [{0}]
