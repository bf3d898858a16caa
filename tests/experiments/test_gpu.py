"""What the harness promises on a CUDA device; ``make test-gpu`` runs these."""

import statistics
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
import torch

from experiments.worker.machine import choose_device
from experiments.worker.timers import CannotTime, Subject, events
from experiments.worker.trial import Equipment, Flush
from kernels.language import jit, tl
from tests.conftest import ROOT, Command, once_each, shape
from tests.experiments import test_timers

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def equipment() -> Equipment:
    return Equipment(choose_device("cuda"))


def measured(equipment: Equipment, target: str, rows: int, cols: int, **how: Any) -> dict[str, Any]:
    how = {"timer": "events", "cache": "cold"} | how
    return test_timers.measured(target=target, rows=rows, cols=cols, equipment=equipment, **how)


@pytest.mark.parametrize("timer", ["events", "graph", "chain", "host"])
@pytest.mark.parametrize(
    ("target", "how", "status"),
    [
        ("kernels.softmax.library.Compiled", {}, "ok"),
        ("kernels.softmax.hybrid.Fused", {}, "ok"),
        ("kernels.cross_entropy.variants.LogprobEntropyGradAuto", {}, "ok"),  # exp2: no subnormals
        ("tests.doubles.kernels.TwoOutputs", {}, "ok"),
        ("tests.doubles.kernels.GrowInPlace", {}, "ok"),
        ("tests.doubles.kernels.Bad", {"how": "wrong"}, "incorrect"),
        ("tests.doubles.kernels.Bad", {"how": "exhaust"}, "out_of_memory"),
    ],
)
def test_any_operation_is_timed_on_a_card_and_gives_all_memory_back(
    equipment: Equipment, target: str, how: dict[str, Any], status: str, timer: str
) -> None:
    measured(equipment, "tests.doubles.kernels.Good", 64, 64)
    before = torch.cuda.memory_allocated()
    compared = status == "ok" and "softmax" not in target
    outcome = measured(equipment, target, 4096, 2048, timer=timer, determinism=compared, **how)
    assert torch.cuda.memory_allocated() == before
    refused = target.endswith("GrowInPlace") and timer == "graph"
    assert outcome["status"] == ("unsupported" if refused else status), outcome["reason"]
    if compared and not refused:
        assert outcome["deterministic"]
        assert outcome["batch_invariant"] is not None


def test_rows_tell_the_launch_the_memory_and_the_state_of_the_machine(equipment: Equipment) -> None:
    row = measured(equipment, "kernels.softmax.hybrid.FusedRow", 512, 1000)
    assert [row[name] for name in ("status", "programs", "warps", "spills")] == ["ok", 512, 4, 0]
    assert min(row[name] for name in ("registers", "sm_clock_mhz", "power_w")) > 0
    assert isinstance(row["throttled"], list)
    size = 4 << 20  # the most of a call is its output and what it makes on the way
    for target, sizes in (
        ("kernels.softmax.library.TorchSoftmax", [size]),
        ("kernels.softmax.library.Naive", range(2 * size, 4 * size)),
        ("tests.doubles.kernels.GrowInPlace", [0]),
    ):
        assert measured(equipment, target, 1024, 1024)["peak_bytes"] in sizes


def test_a_lost_cuda_context_costs_its_own_point_alone(sweep: Command) -> None:
    done = sweep("kernel=illegal,good,exhaust", *shape(64, [128, 256, 512]), "dtype=float32",
                 "gpu=auto")  # fmt: skip
    status = {(row.kernel, row.cols): row.status for row in done.rows}
    assert done.status == 1
    assert {status["illegal", n] for n in (128, 256, 512)} == {"launch_error"}
    assert {status["exhaust", n] for n in (128, 256, 512)} == {"out_of_memory"}
    assert {status[k, n] for k in ("good", "copy") for n in (128, 256, 512)} == {"ok"}
    assert once_each(done.rows)
    assert {row.timer for row in done.rows if row.status == "ok"} == {"events"}


def sampled(
    call: Callable[[torch.Tensor], torch.Tensor],
    before: Callable[[], object] | None,
    x: torch.Tensor,
    least: int = 50,
) -> list[float]:
    chosen = test_timers.protocol(min_samples=least, max_samples=100, precision=0.01)
    return events.sample(Subject(call, (x,), lambda _: (x,), before), chosen).samples_us


def elapsed(*what: Any) -> float:
    """The median time of a call in µs."""
    return statistics.median(sampled(*what))


def test_neither_the_flush_nor_the_hosts_time_to_launch_is_in_the_timed_window() -> None:
    once, more = Flush("cuda", 60 << 20), Flush("cuda", 600 << 20)
    small, x = (torch.randn(n, n, device="cuda") for n in (256, 512))
    after_one = elapsed(torch.clone, once, small)
    assert elapsed(torch.clone, more, small) == pytest.approx(after_one, abs=2)

    def slow(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2000):
            float("1.5")  # some 100 µs of Python before the launch
        return torch.clone(x)

    assert elapsed(slow, None, x) == pytest.approx(elapsed(torch.clone, None, x), abs=2)


@jit
def _leave(x: tl.tensor, STORE: tl.constexpr, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if STORE:
        tl.store(x + at, tl.full((BLOCK,), 1.0, tl.float32), eviction_policy="evict_last")
    else:
        total = tl.sum(tl.load(x + at, eviction_policy="evict_last"))
        tl.store(x, total, total < 0)


@pytest.mark.parametrize("left", ["loads", "hinted loads", "hinted stores"])
def test_a_flush_drives_out_of_l2_whatever_was_left_there(left: str) -> None:
    """A read after the flush takes as long as one of many buffers in turn, and longer than warm."""
    cache_bytes, block = torch.cuda.get_device_properties(0).L2_cache_size, 1 << 12
    n = 2048  # 16 MiB of float32
    flush, x = Flush("cuda", cache_bytes), torch.ones(n, n, device="cuda")

    def leave() -> None:
        if left == "loads":
            torch.sum(x)
        else:
            _leave[(x.numel() // block,)](x, STORE=left == "hinted stores", BLOCK=block)

    def leave_and_flush() -> None:
        leave()
        flush()

    turns = cycle([torch.ones_like(x) for _ in range(3 * cache_bytes // x.nbytes + 2)])
    warm, cold = elapsed(torch.sum, leave, x), elapsed(torch.sum, leave_and_flush, x)
    in_turn = elapsed(lambda _: torch.sum(next(turns)), None, x)
    assert cold > warm + 1  # µs: an event steps by half of one, whatever a host adds to both
    assert cold > warm + 0.75 * (in_turn - warm)


def test_a_host_that_stumbles_leaves_no_mark_and_one_that_waits_for_the_device_is_refused() -> None:
    calls = cycle(range(7))

    def stumbling(x: torch.Tensor) -> torch.Tensor:
        if not next(calls):
            time.sleep(1e-3)
        return torch.clone(x)

    def waiting(x: torch.Tensor) -> torch.Tensor:
        y = torch.clone(x)
        torch.cuda.synchronize()
        return y

    x, flush = torch.randn(512, 512, device="cuda"), Flush("cuda", 60 << 20)
    samples = sampled(stumbling, flush, x, 100)
    assert (len(samples), max(samples) < 100) == (100, True)
    with pytest.raises(CannotTime, match="timing=host"):
        elapsed(waiting, None, x)


@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("side_stream", "incorrect|implausible"),
        ("event", "implausible"),
        ("by_version", "incorrect"),
        ("first_rows", "incorrect"),
        ("no_maximum", "incorrect"),
    ],
)
def test_a_cheat_on_a_card_has_no_time(
    equipment: Equipment, function: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", torch.cuda.Event.elapsed_time)
    file = str(ROOT / "tests" / "doubles" / "cheats.py")
    how = {"file": file, "function": function, "operation": "softmax"}
    outcome = measured(equipment, "experiments.worker.outside.Function", 8192, 32000, **how)
    assert outcome["status"] in status.split("|"), outcome.get("reason")
