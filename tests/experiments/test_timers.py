"""Timers, and operations of any form: several inputs and outputs, own dtypes, in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.child import ROOT
from experiments.data.rows import TIMERS
from experiments.sweep.record import suspicions
from experiments.worker import clock as worker_clock
from experiments.worker import gate, timers
from experiments.worker.counting import count
from experiments.worker.describe import describe
from experiments.worker.flush import Flush
from experiments.worker.gate import check
from experiments.worker.measure import measure, slices
from experiments.worker.place import take_place
from experiments.worker.timers import Call, CannotTime, Protocol, Sampling, Subject, host
from experiments.worker.timers.graph import cold_buffers
from experiments.worker.trial import Bench
from kernels.cross_entropy.online import CeOnline
from kernels.device import Device
from kernels.kernel import Array, Operation
from kernels.traffic import M
from tests.doubles.cuda import Card
from tests.doubles.operations import LOSS, TorchLoss
from tests.experiments.test_data import row


def protocol(**changes: float) -> Protocol:
    values = {"warmup": 2, "min_samples": 5, "max_samples": 20, "precision": 1e-9}
    return Protocol("host", "cold", **values | {"sampling_limit_s": 30} | changes)  # type: ignore[arg-type]


def sampled(call: Call, x: torch.Tensor, flush: Any, chosen: Protocol) -> Sampling:
    return host.sample(Subject(call, (x,), lambda _: (x,), flush), chosen)


class Clock:
    """A clock that stands still while nothing is done, in µs."""

    now_us, flushes = 0.0, 0

    def spend(self, us: float) -> None:
        self.now_us += us

    def flush(self) -> None:
        self.flushes += 1
        self.spend(5000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The timers' clock in this test."""
    clock = Clock()
    monkeypatch.setattr(worker_clock, "now_ns", lambda: round(1e3 * clock.now_us))
    monkeypatch.setattr(worker_clock, "now_s", lambda: clock.now_us / 1e6)
    monkeypatch.setattr(host, "waited_us", lambda: 0.0)
    return clock


def test_the_flush_precedes_every_sample_and_is_in_none_and_first_calls_are_thrown_away(
    clock: Clock,
) -> None:
    calls = iter([900, 800, 700])

    def slow_at_first(x: torch.Tensor) -> torch.Tensor:
        clock.spend(next(calls, 3))
        return x.clone()

    # one call before sampling gives the buffer its first answer, then the warm-up
    chosen = protocol(warmup=2, min_samples=20)
    sampling = sampled(slow_at_first, torch.randn(8, 8), clock.flush, chosen)
    assert (sampling.samples_us, clock.flushes) == ([3] * 20, 2 + 20)
    flush = Flush("cpu", 3 << 20)
    before = flush._buffer._version
    flush()
    assert (flush._buffer.nbytes, flush._buffer._version) == (6 << 20, before)  # it only reads


def test_a_time_limit_ends_a_slow_point_with_the_samples_it_has(clock: Clock) -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        clock.spend(60_000)
        return x.clone()

    sampling = sampled(slow, torch.randn(8, 8), None, protocol(sampling_limit_s=0.3, warmup=0))
    assert sampling.stop_reason == "time_limit"
    assert sampling.samples_us == [60_000] * 3  # the second half of the limit is for checking


def test_a_window_in_which_another_process_had_the_core_is_no_sample(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    def interrupted(x: torch.Tensor) -> torch.Tensor:
        nonlocal waits
        late = x.shape[0] == 1 or clock.now_us % 2 == 0
        waits += late
        clock.spend(9001 if late else 3)
        return x.clone()

    monkeypatch.setattr(host, "waited_us", lambda: 5000.0 * waits)
    sampling = sampled(interrupted, torch.randn(8, 8), None, protocol(warmup=0, min_samples=20))
    assert set(sampling.samples_us) == {3}
    assert sampling.late > 0
    always = sampled(interrupted, torch.randn(1, 8), None, protocol(warmup=0))
    assert len(always.samples_us) >= 5  # a machine that is never free has a time, which is suspect
    outcome = {"time_us": 9001.0, "samples_us": always.samples_us, "late": always.late}
    (why,) = suspicions(outcome | {"timer": "host"}, None)
    assert why.startswith("disturbed: another process had a core in ")


@pytest.mark.parametrize(
    ("moved", "memory", "buffers"),
    [
        (1 << 20, 80 << 30, 181),  # enough to exceed three times L2
        (1 << 30, 80 << 30, 4),  # as many as 4 GiB hold
        (256 << 20, 8 << 30, 4),  # as many as an eighth of a small card's memory holds
    ],
)
def test_a_rotation_exceeds_three_times_l2_and_fits_the_card(
    moved: int, memory: int, buffers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(total_memory=memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    assert cold_buffers(moved, 60 << 20) == buffers
    with pytest.raises(CannotTime, match="more than 2048"):
        cold_buffers(0, 60 << 20)


def recipe(place: str) -> str:
    """The block of docs/extending.md that belongs at a place."""
    text = (ROOT / "docs" / "extending.md").read_text()
    return text.partition(f"# {place}\n")[2].partition("```")[0]


def measured(
    timer: str,
    measure: Callable[..., dict[str, Any]] = measure,
    target: str = "tests.doubles.kernels.Good",
    cache: str = "warm",
    rows: int = 4,
    cols: int = 8,
    determinism: bool = False,
    **tunables: Any,
) -> dict[str, Any]:
    """The outcome of a small point, as a worker of this process measures it."""
    place = take_place("cpu")
    bench = Bench(replace(place, device=replace(place.device, l2_bytes=4096)))
    timing = vars(protocol(sampling_limit_s=30.0)) | {"timer": timer, "cache": cache}
    point = {
        "kernel": {"_target_": target} | tunables, "rows": rows, "cols": cols, "dtype": "float32",
        "seed": 0, "determinism": determinism, "timing": timing,
    }  # fmt: skip
    return measure(point, bench, lambda stage: None)


def on_a_card(
    monkeypatch: pytest.MonkeyPatch,
    kernel_us: float,
    operation: str = "softmax",
    timer: str = "chain",
    **how: Any,
) -> dict[str, Any]:
    """`measured` on a card where ``operation`` is the kernel's; a chain's others take 2 µs each."""
    if timer == "host":
        return measured(timer, **how)
    costs = {"aten.mul.out": 2.0, operation: kernel_us}
    with Card(lambda name: sum(us for part, us in costs.items() if part in name)) as card:
        card.install(monkeypatch)
        return measured(timer, **{"cache": "cold"} | how)


def test_a_chain_times_what_the_kernel_adds_to_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backward = "kernels.softmax_backward.backward_torch.BackwardTorch"
    outcome = on_a_card(monkeypatch, 3.0, target=backward)
    assert outcome["status"] == "ok", outcome["reason"]  # the gate has seen the producer's copies
    assert (outcome["timer"], outcome["cache"]) == ("chain", "cold")
    assert outcome["samples_us"] == pytest.approx([3.0] * 5)


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ({"target": "tests.doubles.kernels.WrongLater"}, "incorrect", "elements differ"),
        ({"target": "tests.doubles.kernels.Spoil", "after": 9}, "incorrect", "changed its input"),
        ({"kernel_us": 0.0}, "unsupported", "no more than its noise"),
        ({"cache": "warm"}, "unsupported", "use timing.cache=cold"),
    ],
)
def test_a_chain_that_goes_wrong_or_has_no_meaning_has_no_time(
    how: dict[str, Any], status: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = on_a_card(monkeypatch, **{"kernel_us": 3.0, **how})
    assert outcome["status"] == status
    assert outcome["reason"].startswith("after timing: ") is (status == "incorrect")
    assert said in outcome["reason"]
    assert "time_us" not in outcome


def test_the_recipe_of_a_timer_is_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "process.py").write_text(recipe("experiments/worker/timers/process.py"))
    monkeypatch.setattr(timers, "__path__", [*timers.__path__, str(tmp_path)])
    outcome = measured("process")
    assert (outcome["status"], outcome["timer"]) == ("ok", "process"), outcome["reason"]
    assert len(outcome["samples_us"]) == 20
    assert sorted(path.stem for path in Path(host.__file__).parent.glob("[a-z]*.py")) == [*TIMERS]


def test_the_recipe_of_a_rows_field_is_a_line_in_the_schema_and_one_where_it_is_measured() -> None:
    edited = []
    for module, place, before in (
        ("measure", "worker/measure.py, in what _timed returns", '"late": sampling.late,\n'),
        ("rows", "data/rows.py, in class Row", "    # machine state\n"),
    ):
        file = ROOT / "experiments" / place.partition(",")[0]
        source = file.read_text()
        assert source.count(before) == 1
        names = {"__name__": f"experiments.{file.parent.name}.{module}", "__file__": str(file)}
        exec(source.replace(before, before + recipe(f"experiments/{place}")), names)
        edited.append(names)
    outcome = measured("host", edited[0]["measure"])
    assert outcome["reserved_bytes"] is None  # there is no card here
    old = row().model_dump()
    assert edited[1]["Row"].model_validate(old).reserved_bytes is None
    assert edited[1]["Row"].model_validate(old | {"reserved_bytes": 7}).reserved_bytes == 7


def test_every_output_is_compared_in_its_own_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 700)  # two rows at a time
    inputs = LOSS.make_inputs((5, 300), torch.bfloat16, "cpu", 0)
    loss, lse = TorchLoss()(*inputs)
    verdict = check((loss, lse), inputs, LOSS, "torch")
    assert (verdict.reason, verdict.relative_error < 1e-5) == (None, True)  # type: ignore[operator]
    for answer, said in (
        ((loss, lse * 1.001), "lse: 5 of 5 elements differ"),
        ((loss * torch.tensor([1, 1, 1, 1, torch.nan]), lse), "loss: 1 of 5 elements differ"),
        ((loss.bfloat16(), lse), "returned (5,) torch.bfloat16, (5,) torch.float32 for (5,)"),
        (loss, "returned (5,) torch.float32 for (5,) torch.float32, (5,) torch.float32"),
    ):
        assert said in str(check(answer, inputs, LOSS, "torch").reason)


def test_whole_numbers_are_right_or_wrong() -> None:
    class Best(Operation):
        name = "best"
        outputs = (Array("y", (M,), torch.int64),)

        def reference(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(1)

    x = torch.randn((5, 300))
    assert check(x.argmax(1), x, Best(), "torch").reason is None
    off = x.argmax(1) + torch.tensor([0, 0, 0, 0, 1])
    assert "1 of 5 elements" in str(check(off, x, Best(), "torch").reason)


def test_a_points_bytes_and_flops_are_those_of_its_arrays() -> None:
    job = {"kernel": {"_target_": "tests.doubles.operations.TorchLoss"}, "shapes": [[4, 8]]}
    declared = describe(job | {"dtypes": ["bfloat16", "float32"]}, Device("cpu", "cpu"))
    texts = [declared[name] for name in ("formula", "flops", "exponentials")]
    assert texts == ["MN + 16M bytes", "4MN", "MN"]
    for point, itemsize in zip(declared["points"], (2, 4), strict=True):
        assert (point["model_reads"], point["model_writes"]) == (32, 0)
        assert point["model_bytes"] == point["compulsory_bytes"] == 32 * itemsize + 4 * 16
        assert point["flops"] == 128


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs Triton's interpreter")
@pytest.mark.parametrize("declared", [8, 4])
def test_counted_bytes_of_other_dtypes_are_compared_as_bytes(
    declared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = replace(CeOnline().traffic(), read_bytes=declared * M)
    monkeypatch.setattr(CeOnline, "traffic", lambda self: moves)
    kernel = {"_target_": "kernels.cross_entropy.online.CeOnline"}
    point = {"kernel": kernel, "rows": 3, "cols": 7, "dtype": "bfloat16", "seed": 0}
    found = count(point, Device("cpu", "cpu"))
    difference = None if declared == 8 else "reads 24 bytes where the model says 4M, 12"
    assert (found["method"], found["difference"]) == ("interpreter", difference)


@pytest.mark.parametrize("timer", ["host", "events", "graph", "chain"])
def test_any_operation_is_timed_and_each_of_its_outputs_checked(
    timer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(**how: Any) -> dict[str, Any]:
        how |= {"target": "tests.doubles.operations.TorchLoss", "timer": timer}
        return on_a_card(monkeypatch, 3.0, "logsumexp", **how)

    assert (right := outcome())["status"] == "ok", right["reason"]
    assert right["peak_bytes"] is None  # no card
    if timer != "host":  # by a chain with a producer of x alone and a consumer for each output
        assert right["samples_us"] == pytest.approx([3.0] * len(right["samples_us"]))
    assert outcome(wrong="lse")["reason"].startswith("lse: ")


@pytest.mark.parametrize(
    ("timer", "double", "status", "reason"),
    [
        ("host", "GrowInPlace", "ok", ""),
        ("events", "GrowInPlace", "ok", ""),
        ("chain", "GrowInPlace", "ok", ""),
        ("graph", "GrowInPlace", "unsupported", "use timing=events or timing=chain"),
        ("host", "GrowInSilence", "incorrect", "changed its input"),
    ],
)
def test_an_answer_in_place_is_declared_and_timed_on_inputs_that_are_put_back(
    timer: str, double: str, status: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"tests.doubles.operations.{double}"
    outcome = on_a_card(monkeypatch, 3.0, "mul_.Tensor", timer, target=target)
    assert outcome["status"] == status, outcome["reason"]
    assert reason in (outcome["reason"] or "")
    assert len(outcome.get("samples_us", [])) >= 5 * (status == "ok")


@pytest.mark.parametrize(
    ("target", "tunables", "found"),
    [
        ("tests.doubles.kernels.Moody", {"at": "calls"}, (False, False)),
        ("tests.doubles.kernels.Moody", {"at": "rows"}, (True, False)),
        ("tests.doubles.kernels.Moody", {"at": "never"}, (True, True)),
        ("tests.doubles.operations.GrowInPlace", {}, (True, True)),
        ("kernels.softmax.online.Online", {}, (True, True)),  # interpreted
    ],
    ids=str,
)
def test_the_same_bits_at_each_call_and_in_any_m_are_facts_of_a_row(
    target: str, tunables: dict[str, Any], found: tuple[bool, bool]
) -> None:
    outcome = measured("host", target=target, rows=9, determinism=True, **tunables)
    assert outcome["status"] == "ok", outcome["reason"]
    assert (outcome["deterministic"], outcome["batch_invariant"]) == found
    assert "deterministic" not in measured("host", target=target, **tunables)


def test_one_row_alone_has_no_fewer_and_many_are_cut_where_kernels_cut_otherwise() -> None:
    outcome = measured("host", rows=1, determinism=True)
    assert (outcome["deterministic"], outcome["batch_invariant"]) == (True, None)
    assert slices(4096) == [range(1), range(4088, 4096), range(1024, 3072)]
    for rows in range(20):
        assert all(0 <= s.start < s.stop <= rows and len(s) < rows for s in slices(rows))
