"""What the harness promises on a CUDA device; ``make test-gpu`` runs these."""

from typing import Any

import pytest
import torch

from experiments.worker.measure import Bench, measure
from experiments.worker.place import take_place
from tests.conftest import Command, once_each, shape

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TIMING = {
    "timer": "events", "cache": "cold", "warmup": 3, "min_samples": 20, "max_samples": 100,
    "precision": 0.01, "sampling_limit_s": 60.0, "compile_limit_s": 60.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench.at(take_place("cuda"))


def point(
    target: str, rows: int, cols: int, dtype: str = "float32", **timing: Any
) -> dict[str, Any]:
    return {
        "kernel": {"_target_": target}, "rows": rows, "cols": cols, "dtype": dtype, "seed": 0,
        "timing": TIMING | timing,
    }  # fmt: skip


def quiet(stage: str) -> None:
    pass


VARIANTS = [
    "kernels.softmax.naive.Naive",
    "kernels.softmax.compiled.Compiled",
    "kernels.softmax.fused.Fused",
    "kernels.softmax.online.Online",
    "tests.doubles.kernels.Wrong",
    "tests.doubles.deaths.Exhaust",
]


@pytest.mark.parametrize("timer", ["events", "graph", "host"])
@pytest.mark.parametrize("target", VARIANTS)
def test_memory_is_back_at_its_baseline_after_every_point(
    bench: Bench, target: str, timer: str
) -> None:
    measure(point("tests.doubles.kernels.Good", 64, 64), bench, quiet)
    before = torch.cuda.memory_allocated()
    measure(point(target, 4096, 2048, timer=timer), bench, quiet)
    assert torch.cuda.memory_allocated() == before


def test_rows_tell_the_launch_and_the_state_of_the_machine(bench: Bench) -> None:
    row = measure(point("kernels.softmax.fused_row.FusedRow", 512, 1000), bench, quiet)
    assert row["status"] == "ok"
    assert row["programs"] == 512
    assert row["warps"] == 4
    assert row["registers"] > 0
    assert row["spills"] == 0
    assert row["sm_clock_mhz"] > 0
    assert row["power_w"] > 0
    assert isinstance(row["throttled"], list)


def test_graph_and_events_agree_where_launch_cost_is_small(bench: Bench) -> None:
    # not `copy`: in a graph it becomes a memory-copy node, which is another program
    target = "kernels.copy.copy_triton.CopyTriton"
    times = [
        measure(point(target, 8192, 16384, timer=timer), bench, quiet)["time_us"]
        for timer in ("events", "graph")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.05)


def test_a_cold_graph_of_a_tiny_point_says_that_it_cannot(bench: Bench) -> None:
    row = measure(point("kernels.copy.copy.Copy", 1, 64, timer="graph"), bench, quiet)
    assert row["status"] == "unsupported"
    assert "timing.cache=warm" in row["reason"]
    warm = measure(
        point("kernels.copy.copy.Copy", 1, 64, timer="graph", cache="warm"), bench, quiet
    )
    assert warm["status"] == "ok"
    assert warm["time_us"] < 10


def test_a_dozen_shapes_are_each_compiled_and_never_run_eager(bench: Bench) -> None:
    naive, compiled = "kernels.softmax.naive.Naive", "kernels.softmax.compiled.Compiled"
    for cols in range(4096, 4096 + 12 * 128, 128):
        row = measure(point(compiled, 4096, cols), bench, quiet)
        assert row["status"] == "ok", row["reason"]
    slow = measure(point(naive, 4096, cols), bench, quiet)
    assert row["time_us"] < 0.5 * slow["time_us"]


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


def test_the_wrong_card_is_an_error_and_not_a_mislabelled_row(sweep: Command) -> None:
    name = torch.cuda.get_device_name(0)
    other = "rtx_4090" if "4090" not in name else "h200"
    done = sweep("kernel=good", *shape(4, 8), f"gpu={other}")
    assert done.status == 2
    assert name in done.error
    assert done.rows == []


def test_a_card_that_is_not_there_is_one_line(sweep: Command) -> None:
    done = sweep("kernel=good", *shape(4, 8), "gpu=auto", "gpu.card=63")
    assert done.status == 2
    assert "card 63" in done.error
    assert done.rows == []
