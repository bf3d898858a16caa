"""Operations of any form: several inputs and outputs, dtypes of their own, answers in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from experiments.worker import gate
from experiments.worker.counting import count
from experiments.worker.describe import describe
from experiments.worker.gate import check
from experiments.worker.measure import slices
from kernels.cross_entropy.online import CeOnline
from kernels.device import Device
from kernels.kernel import Array, Operation
from kernels.traffic import M
from tests.doubles.operations import LOSS, TorchLoss
from tests.experiments.test_timers import measured, on_a_card

DOUBLES = "tests.doubles.operations"
SHAPE = (5, 300)


def test_every_output_is_compared_in_its_own_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 700)  # two rows at a time
    inputs = LOSS.make_inputs(SHAPE, torch.bfloat16, "cpu", 0)
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

    x = torch.randn(SHAPE)
    assert check(x.argmax(1), x, Best(), "torch").reason is None
    off = x.argmax(1) + torch.tensor([0, 0, 0, 0, 1])
    assert "1 of 5 elements" in str(check(off, x, Best(), "torch").reason)


def test_a_points_bytes_and_flops_are_those_of_its_arrays() -> None:
    job = {"kernel": {"_target_": f"{DOUBLES}.TorchLoss"}, "shapes": [[4, 8]]}
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
        how |= {"target": f"{DOUBLES}.TorchLoss", "timer": timer}
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
    target = f"{DOUBLES}.{double}"
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
        (f"{DOUBLES}.GrowInPlace", {}, (True, True)),
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
