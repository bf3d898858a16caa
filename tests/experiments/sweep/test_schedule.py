"""Shards on several cards: who takes which, in a sweep, in rounds, and when it is resumed.

The cards are workers on this CPU that say they are cards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import UserError
from experiments.sweep import driver
from experiments.sweep.cards import WorkerPool
from experiments.sweep.client import Worker
from experiments.sweep.jobs import Job, job_from
from tests.conftest import QUICK, Composed, once_each


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
    tmp_path: Path, hosts_cards: list[Worker], composed: Composed,
    monkeypatch: pytest.MonkeyPatch,
) -> Sweep:  # fmt: skip
    """Sweeps four shards, a width each, over cards; gives all rows of the folder."""

    class Pool(WorkerPool):
        def worker(self, device: str, card: int) -> Worker:
            return self.workers.setdefault((device, card), hosts_cards[card])

        def close(self) -> None:
            """The workers stay for the next sweep."""

    monkeypatch.setattr(driver, "WorkerPool", Pool)

    def swept(
        cards: list[int], *others: str, widths: tuple[int, ...] = (8, 16, 32, 64)
    ) -> list[Row]:
        common = ["grid=point", "grid.rows=[4]", "dtype=float32", "tracker=none", *QUICK]
        options = [*common, "remeasure=false", f"out={tmp_path}", *others]

        def composed_job(overrides: list[str]) -> Job:
            return job_from(composed(*options, *overrides), overrides)

        jobs = [composed_job([f"grid.cols={n}", f"kernel={kernel}"])
                for n in widths for kernel in ("torch", "copy")]  # fmt: skip
        driver.run(jobs, cards)
        return [row for path in rows_files(tmp_path) for row in read_rows(path)]

    return swept


def cards_of(rows: list[Row]) -> dict[int, set[int]]:
    """By width, the cards that its rows are of."""
    return {n: {row.card for row in rows if row.cols == n} for n in {row.cols for row in rows}}


def test_a_shard_is_measured_on_one_card_in_all_rounds_and_resumed_there(run: Sweep) -> None:
    rows = run([0, 1], "rounds=2")
    assert once_each(rows)
    assert len(rows) == 4 * 2 * 2
    places = cards_of(rows)
    assert all(len(cards) == 1 for cards in places.values())
    assert set.union(*places.values()) == {0, 1}
    # nothing again, in whatever order the cards are named, nor with one of them away
    assert len(run([1, 0], "rounds=2")) == len(rows)
    assert len(run([1], "rounds=2")) == len(rows)
    # a third round finds each shard on its card
    longer = run([1, 0], "rounds=3", "overwrite=true")
    assert len(longer) == 4 * 2 * (2 + 3)
    assert cards_of(longer) == places


def test_a_shard_that_was_begun_goes_on_there_or_is_measured_whole(
    run: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run([1], widths=(8, 16))
    lost = next(path for path in rows_files(tmp_path) if "grid.cols=8" in str(path))
    lost.unlink()
    rows = run([0, 1], widths=(8, 16))
    assert cards_of(rows) == {8: {1}, 16: {1}}
    lost.unlink()
    rows = run([0], widths=(8, 16))
    assert cards_of(rows) == {8: {0, 1}, 16: {1}}
    assert len([row for row in rows if row.card == 0]) == 2  # the roof as well
    warning = "grid.cols=8 was begun on card 1, which is not among this sweep's cards"
    assert warning in capsys.readouterr().err


def test_pinned_to_each_card_a_shard_is_measured_on_every_one(run: Sweep) -> None:
    for card in (0, 1):
        rows = run([0], f"gpu.card={card}", widths=(8,))
    assert cards_of(rows) == {8: {0, 1}}
    assert once_each(rows)


def test_cards_of_two_kinds_are_refused(run: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disguised, "kinds", ("NVIDIA H200", "NVIDIA L4"))
    with pytest.raises(UserError, match=r"card 0 is NVIDIA H200, card 1 is NVIDIA L4"):
        run([0, 1])
