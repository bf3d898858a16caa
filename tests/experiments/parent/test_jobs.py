"""Grids, jobs and roofs of a sweep, and when a point of it is suspect."""

import math
from typing import Any

import pytest

from experiments.data.files import validated
from experiments.data.jobs import GridConfig
from experiments.parent.jobs import compose, with_roofs
from experiments.parent.record import suspicions
from experiments.worker.machine import foreign
from tests.conftest import Composed


def test_a_shard_gets_the_roofs_that_it_lacks(composed: Composed) -> None:
    def added(*kernels: str, timing: str = "events") -> list[str]:
        jobs = [compose([f"kernel={one}", "grid=wide", f"timing={timing}"]) for one in kernels]
        found = [*with_roofs(jobs)][len(jobs) :]
        assert all(one.shard[0] == "wide" for one in found)
        return [one.kernel for one in found]

    assert added("online") == ["copy"]
    assert added("backward", "copy") == ["add"]
    assert added("backward", "online") == ["add", "copy"]
    assert added("add") == []
    assert added("online", "copy", timing="chain") == ["copy_triton"]
    assert added("online", "copy_triton", timing="graph") == []
    # what a file says about its kernel is no tunable
    config = compose(["kernel=quack", "grid=smoke"]).config
    assert config["kernel"] == {"_target_": "kernels.softmax.peers.Quack"}


def test_a_grid_is_its_product_its_pairs_and_its_drawn_widths_each_once_in_order() -> None:
    def expand(**grid: Any) -> list[tuple[int, int]]:
        return validated(GridConfig, {"source": "s", "dtypes": ["float32"], **grid}).expand()

    pairs = expand(rows=[3, 1], cols=8, shapes=[[1, 8], [2, 2]])
    assert pairs == [(3, 8), (1, 8), (2, 2)]
    assert expand(elements=[100, 4], cols=[8, 33]) == [(12, 8), (3, 33), (1, 8), (1, 33)]
    drawn = expand(elements=[2**25, 2**27], drawn=12, seed=7)  # half of the widths odd at each size
    assert all(256 <= n <= 262144 for _, n in drawn)
    assert [n % 2 for _, n in drawn] == [0, 1] * 6
    assert [round(math.log2(m * n)) for m, n in drawn] == [25, 25, 27, 27] * 3


MEASURED = ("sm_clock_before_mhz", "sm_clock_mhz", "temperature_c", "other_processes", "throttled")


def outcome(**changed: Any) -> dict[str, Any]:
    return {
        "time_us": 100.0, "timer": "events", "samples_us": [100.0] * 200,
        "throttled": [], "sm_clock_before_mhz": 1980.0, "sm_clock_mhz": 1980.0,
        "temperature_before_c": 40.0, "temperature_c": 41.0, "other_processes": 0,
    } | changed  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"throttled": ["software power cap"]}, "throttled: software power cap"),
        ({"sm_clock_before_mhz": 1500.0}, "clock: from 1500 to 1980 MHz within the point"),
        (
            {"sm_clock_before_mhz": 1905.0, "sm_clock_mhz": 1905.0},
            "clock: 1905 MHz, where this card ran at 1980 in this sweep",
        ),
        ({"other_processes": 2}, "shared: 2 other compute processes on the card"),
        ({"temperature_before_c": 30.0}, "heating: from 30 to 41 °C within the point"),
        ({"timer": "host", "late": 150}, "disturbed: another process had a core in 150 windows"),
        ({}, ""),
        ({"sm_clock_mhz": 1965.0}, ""),  # one step of the clock
        ({"temperature_before_c": 37.0}, ""),
        ({"temperature_before_c": 60.0}, ""),  # a card that cools disturbs nothing
        ({"timer": "host", "late": 50}, ""),  # of 200 samples
        ({"time_us": None, "throttled": ["software power cap"]}, ""),
        (dict.fromkeys(MEASURED), ""),  # nothing is known
    ],
)
def test_each_guard_names_its_reason_in_a_sentence(changed: dict[str, Any], reason: str) -> None:
    found = suspicions(outcome(**changed), 1980.0)
    assert len(found) == bool(reason)
    assert "".join(found).startswith(reason)


def test_strangers_on_the_card_are_counted_and_the_sweeps_own_are_not() -> None:
    # pid: its parent. 10 is the sweep, 11 this worker, 12 another of its own, 13 a child's child
    family = {10: 1, 11: 10, 12: 10, 13: 11, 14: 13, 90: 1, 91: 90}
    for pids, workers, count in [
        ([11, 12, 14], 2, 0),
        ([11, 90, 91], 1, 2),
        ([11, 4711], 2, 1),  # its parent is hidden
        ([], 1, None),  # a container that sees none
        ([4711, 4712], 2, 0),  # the host's numbers: this worker, and that of a file from outside
        ([4711, 4712, 4713], 2, 1),
    ]:
        assert foreign(pids, own=11, sweep=10, parent_of=family.get, workers=workers) == count
