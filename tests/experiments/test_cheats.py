"""A trick of docs/cheats.md costs the kernel that tries it its row, and no neighbour anything."""

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from experiments.data.jobs import ROOT
from experiments.data.metrics import latest
from experiments.worker import outside
from experiments.worker.timers import host
from tests.analysis.plausible import row
from tests.conftest import QUICK, Command, shape
from tests.experiments.test_timers import measured

FILE = ROOT / "tests" / "doubles" / "cheats.py"
WRONG = "elements differ"
CAUGHT = {
    "by_address": "returned the memory of its earlier answer",
    "by_version": WRONG,
    "by_corner": WRONG,
    "first_rows": f"after timing: .*{WRONG}",
    "in_input": "changed its input",
    "subclass": "returned a Lazy, not a torch.Tensor",
    "later": WRONG,
    "no_maximum": f"of rows that are high, .*: .*{WRONG}",
}
CHANGED = {
    "clock": "changed time.perf_counter_ns",
    "event": "changed Event.elapsed_time",
    "reference": "changed torch.softmax",
    "one_thread": "changed the number of threads",
    "one_core": "changed the cores it may use",
    "default_dtype": "changed the default dtype",
}


@pytest.fixture
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the cheats change in this process is put back."""
    for place, name in (
        (torch, "softmax"), (time, "perf_counter_ns"), (torch.cuda.Event, "elapsed_time"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, getattr(place, name))
    # calls that a busy machine adds may end with the values of the answer that was kept
    monkeypatch.setattr(host, "waited_us", lambda: 0.0)
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(2)
    outside.import_file.cache_clear()
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("function", [*CAUGHT, *CHANGED])
def test_a_cheat_has_no_time(function: str) -> None:
    how = {"file": str(FILE), "function": function, "operation": "softmax"}
    target = "experiments.worker.outside.Function"
    # of so many rows the two that by_corner looks at seldom change
    outcome = measured("host", target=target, rows=240, cols=40, **how)
    expected = "incorrect" if function in CAUGHT else "implausible"
    assert outcome["status"] == expected, outcome.get("reason")
    assert re.search((CAUGHT | CHANGED)[function], outcome["reason"]), outcome["reason"]
    assert outcome.get("sticky", False) is (function in CHANGED)  # the worker is replaced
    assert "time_us" not in outcome


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs Triton's interpreter")
def test_an_unsafe_kernel_that_is_interpreted_is_incorrect_too() -> None:
    outcome = measured("host", target="tests.doubles.kernels.Unsafe", rows=1)
    assert outcome["status"] == "incorrect"
    assert outcome["reason"].startswith("of rows that are high")


def test_answers_are_judged_where_the_file_is_never_imported(sweep: Command) -> None:
    """Its process may replace the reference; its neighbours' rows are right and timed."""
    words = [*shape(24, 40), "dtype=float32", *QUICK]
    functions = "kernel.function=own_judge,reference,default_dtype,no_maximum"
    done = sweep("kernel=outside,torch", f"kernel.file={FILE}", functions, *words)
    outcomes = {row.kernel: (row.status, row.reason or "") for row in done.rows}
    assert {name: status for name, (status, _) in outcomes.items()} == {
        "own_judge": "incorrect", "reference": "implausible", "default_dtype": "implausible",
        "no_maximum": "incorrect", "torch": "ok", "copy": "ok",
    }, outcomes  # fmt: skip
    assert done.status == 1


@pytest.mark.parametrize(
    ("time_us", "more", "status"),
    [
        (400.0, {}, "ok"),  # above the roof by what noise may be
        (300.0, {}, "implausible"),
        (300.0, {"timer": "host"}, "ok"),  # of a card: not the kernel's time
        (300.0, {"device": "cpu"}, "ok"),
        (60.0, {"device": "cpu", "timer": "host"}, "implausible"),
    ],
)
def test_a_time_far_below_the_roofs_is_implausible(
    time_us: float, more: dict[str, Any], status: str
) -> None:
    mine, roof = row("mine", 64, time_us=time_us, **more), row("copy", 64, time_us=490.0, **more)
    [found, _] = latest([mine, roof])
    assert (found.status, found.reason is None) == (status, status == "ok")
