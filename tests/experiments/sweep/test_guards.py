from typing import Any

import pytest

from experiments.sweep.guards import suspicions
from experiments.worker.place import foreign

MEASURED = ("sm_clock_before_mhz", "sm_clock_mhz", "temperature_c", "other_processes", "throttled")


def outcome(**changed: Any) -> dict[str, Any]:
    """A timed row of a card at work."""
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
    for pids, count in [
        ([11, 12, 14], 0),
        ([11, 90, 91], 2),
        ([11, 4711], 1),  # its parent is hidden
        ([], None),  # a container that sees none
        ([4711], 0),  # the host's numbers: one must be this worker
        ([4711, 4712], 1),
    ]:
        assert foreign(pids, own=11, family=10, parent_of=family.get) == count
