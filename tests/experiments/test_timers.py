"""Timers, and operations of any form: several inputs and outputs, own dtypes, in place."""

import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.data.jobs import ROOT
from experiments.data.rows import TIMERS
from experiments.worker import clock as worker_clock
from experiments.worker import timers
from experiments.worker.machine import choose_device
from experiments.worker.measure import measure
from experiments.worker.timers import Call, CannotTime, Protocol, Sampling, Subject, host
from experiments.worker.timers.graph import cold_buffers
from experiments.worker.trial import Equipment, Flush
from tests.doubles.cuda import Card


def protocol(**changes: Any) -> Protocol:
    return Protocol(
        **{"timer": "host", "cache": "cold", "warmup": 2, "min_samples": 5, "max_samples": 20,
           "precision": 1e-9, "sampling_limit_s": 30, "compile_limit_s": 30} | changes
    )  # fmt: skip


def sampled(call: Call, x: torch.Tensor, flush: Any, chosen: Protocol) -> Sampling:
    return host.sample(Subject(call, (x,), lambda _: (x,), flush), chosen)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still while nothing is done, in µs."""
    clock = SimpleNamespace(now_us=0.0)
    monkeypatch.setattr(worker_clock, "now_ns", lambda: round(1e3 * clock.now_us))
    monkeypatch.setattr(worker_clock, "now_s", lambda: clock.now_us / 1e6)
    monkeypatch.setattr(host, "waited_us", lambda: 0.0)
    return clock


def test_the_flush_precedes_every_sample_and_is_in_none_and_first_calls_are_thrown_away(
    clock: SimpleNamespace,
) -> None:
    calls = iter([900, 800, 700])

    def slow_at_first(x: torch.Tensor) -> torch.Tensor:
        clock.now_us += next(calls, 3)
        return x.clone()

    def flushed() -> None:
        flushes.append(clock.now_us)
        clock.now_us += 5000

    flushes: list[float] = []
    chosen = protocol(warmup=2, min_samples=20)
    sampling = sampled(slow_at_first, torch.randn(8, 8), flushed, chosen)
    assert (sampling.samples_us, len(flushes)) == ([3] * 20, 2 + 20)
    flush = Flush("cpu", 3 << 20)
    before = flush._buffer._version
    flush()
    assert (flush._buffer.nbytes, flush._buffer._version) == (6 << 20, before)  # it only reads


def test_a_time_limit_ends_a_slow_point_with_the_samples_it_has(clock: SimpleNamespace) -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        clock.now_us += 60_000
        return x.clone()

    sampling = sampled(slow, torch.randn(8, 8), None, protocol(sampling_limit_s=0.3, warmup=0))
    assert sampling.stop_reason == "time_limit"
    assert sampling.samples_us == [60_000] * 3  # the second half of the limit is for checking


def test_a_window_in_which_another_process_had_the_core_is_no_sample(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    def interrupted(x: torch.Tensor) -> torch.Tensor:
        nonlocal waits
        late = x.shape[0] == 1 or clock.now_us % 2 == 0
        waits += late
        clock.now_us += 9001 if late else 3
        return x.clone()

    monkeypatch.setattr(host, "waited_us", lambda: 5000.0 * waits)
    sampling = sampled(interrupted, torch.randn(8, 8), None, protocol(warmup=0, min_samples=20))
    assert set(sampling.samples_us) == {3}
    assert sampling.late > 0
    always = sampled(interrupted, torch.randn(1, 8), None, protocol(warmup=0))
    # a machine that is never free has a time, which is suspect
    assert always.late > len(always.samples_us) >= 5


def test_a_rotation_exceeds_three_times_l2_and_fits_the_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for moved, memory, buffers in (
        (1 << 20, 80 << 30, 181),  # enough to exceed three times L2
        (1 << 30, 80 << 30, 4),  # as many as 4 GiB hold
        (256 << 20, 8 << 30, 4),  # as many as an eighth of a small card's memory holds
    ):
        card = SimpleNamespace(total_memory=memory)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, card=card: card)
        assert cold_buffers(moved, 60 << 20) == buffers
    with pytest.raises(CannotTime, match="more than 2048"):
        cold_buffers(0, 60 << 20)


def measured(
    timer: str,
    target: str = "tests.doubles.kernels.Good",
    cache: str = "warm",
    rows: int = 4,
    cols: int = 8,
    determinism: bool = False,
    equipment: Equipment | None = None,
    **tunables: Any,
) -> dict[str, Any]:
    """The outcome of a point, as a worker of this process measures it; on a CPU by default."""
    if equipment is None:
        cpu = choose_device("cpu")
        equipment = Equipment(replace(cpu, device=replace(cpu.device, l2_bytes=4096)))
    timing = vars(protocol(sampling_limit_s=30.0)) | {"timer": timer, "cache": cache}
    point = {
        "kernel": {"_target_": target} | tunables, "rows": rows, "cols": cols, "dtype": "float32",
        "seed": 0, "determinism": determinism, "timing": timing, "workers": 1,
    }  # fmt: skip
    return measure(point, equipment, lambda stage: None)


SPOILS, LATER = ({"how": how, "after": 9} for how in ("spoils", "wrong"))
CARDS = ("events", "graph", "chain")


@pytest.mark.parametrize(
    ("timer", "double", "how", "status", "reason"),
    [
        ("chain", "Moody", LATER, "incorrect", "^after timing: .*elements differ"),
        ("chain", "Moody", SPOILS, "incorrect", "^after timing: .*changed its input"),
        ("chain", "Good", {"us": 0.0}, "unsupported", "no more than its noise"),
        ("chain", "Good", {"cache": "warm"}, "unsupported", "use timing.cache=cold"),
        *((timer, "GrowInPlace", {}, "ok", "") for timer in ("host", "events", "chain")),
        ("graph", "GrowInPlace", {}, "unsupported", "use timing=events or timing=chain"),
        *((timer, "TwoOutputs", {}, "ok", "") for timer in ("host", *CARDS)),
        ("graph", "TwoOutputs", {"cache": "warm"}, "ok", ""),
        ("host", "TwoOutputs", {"wrong": True}, "incorrect", "^entropy: "),
    ],
)
def test_any_operation_is_timed_or_has_no_time_and_a_reason(
    timer: str, double: str, how: dict[str, Any], status: str, reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """On a card where the kernel's operation takes 3 µs, and a chain's others 2 µs each."""
    cache = how.get("cache", "cold" if timer in CARDS else "warm")
    tunables = how | {"target": f"tests.doubles.kernels.{double}", "cache": cache}
    operation = "mul_.Tensor" if double == "GrowInPlace" else "softmax"
    costs = {"aten.mul.out": 2.0, operation: tunables.pop("us", 3.0)}
    with ExitStack() as entered:
        if timer in CARDS:
            card = Card(lambda name: sum(us for part, us in costs.items() if part in name))
            entered.enter_context(card).install(monkeypatch)
        outcome = measured(timer, **tunables)
    assert outcome["status"] == status, outcome["reason"]
    assert re.search(reason, outcome["reason"] or "")
    assert ("samples_us" in outcome, "time_us" in outcome) == (status == "ok",) * 2
    if status == "ok":  # of the card's memory nothing is known
        assert [outcome[k] for k in ("timer", "cache", "peak_bytes")] == [timer, cache, None]
        samples = outcome["samples_us"]
        assert len(samples) >= 5
        assert timer == "host" or samples == pytest.approx([3.0] * len(samples))


def test_the_recipe_of_a_timer_is_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    code = page.partition("# experiments/worker/timers/process.py\n")[2].partition("```")[0]
    (tmp_path / "process.py").write_text(code)
    monkeypatch.setattr(timers, "__path__", [*timers.__path__, str(tmp_path)])
    outcome = measured("process")
    assert (outcome["status"], outcome["timer"]) == ("ok", "process"), outcome["reason"]
    assert len(outcome["samples_us"]) == 20
    assert sorted(path.stem for path in Path(host.__file__).parent.glob("[a-z]*.py")) == [*TIMERS]


@pytest.mark.parametrize(
    ("target", "how", "found"),
    [
        ("tests.doubles.kernels.Moody", {"how": "calls"}, (False, False)),
        ("tests.doubles.kernels.Moody", {"how": "rows"}, (True, False)),
        ("tests.doubles.kernels.Good", {"rows": 1}, (True, None)),  # there are no fewer rows
        ("tests.doubles.kernels.Good", {"rows": 2}, (True, True)),
        ("tests.doubles.kernels.GrowInPlace", {}, (True, True)),
        ("kernels.softmax.online.Online", {}, (True, True)),  # interpreted
    ],
    ids=str,
)
def test_the_same_bits_at_each_call_and_in_any_m_are_facts_of_a_row(
    target: str, how: dict[str, Any], found: tuple[bool, bool | None]
) -> None:
    outcome = measured("host", target=target, determinism=True, **{"rows": 9} | how)
    assert outcome["status"] == "ok", outcome["reason"]
    assert (outcome["deterministic"], outcome["batch_invariant"]) == found
    assert "deterministic" not in measured("host", target=target, **how)
