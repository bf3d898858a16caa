"""On every card each kernel has a launch that the card allows, or a sentence why not.

Launches are seen and not carried out: tensors have no memory, and any card may be named. Its SMs,
L2 and shared memory are those of conf/gpu; registers, warps and a block's shared memory are of the
CUDA C++ Programming Guide, technical specifications per compute capability.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch

from experiments.data.jobs import CONF, GridConfig, named_grids, read_yaml
from kernels.device import Device, largest_cluster
from kernels.kernel import Kernel
from tests.conf import KERNELS, built
from tests.kernels.conftest import H200, described, on_card

jit = pytest.importorskip("triton.runtime.jit")
interpreter = pytest.importorskip("triton.runtime.interpreter")
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
Shape = tuple[int, int]
CAPABILITIES = {  # of cards of conf/gpu
    "a100_80gb": (8, 0), "l40s": (8, 9), "rtx_4090": (8, 9), "rtx_5090": (12, 0),
    "h100_sxm": (9, 0), "h100_pcie": (9, 0), "h200": (9, 0), "b200": (10, 0),
}  # fmt: skip


CARDS = {name: described(name, capability) for name, capability in CAPABILITIES.items()}


class Launch(NamedTuple):
    """A kernel's name, its programs, its constants and Triton's options.

    The name is the function's for softmax and its gradient, else its module's.
    """

    module: str
    grid: tuple[int, ...]
    constants: dict[str, Any]
    options: dict[str, Any]


Seen = Callable[[Kernel, Shape, torch.dtype, Device], list[Launch]]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Gives what a kernel would launch on a card."""
    seen: list[Launch] = []
    cards: list[Device] = [H200]

    def run(self: Any, *_: Any, grid: tuple[int, ...], warmup: bool = False, **named: Any) -> None:
        fixed = {name: value for name, value in named.items() if name in self.arg_names}
        options = {name: value for name, value in named.items() if name not in fixed}
        module, function = self.fn.__module__, self.fn.__name__.strip("_")
        name = function if module.startswith("kernels.softmax") else module.rpartition(".")[2]
        seen.append(Launch(name, grid, fixed, options))

    def of(kernel: Kernel, shape: Shape, dtype: torch.dtype, card: Device) -> list[Launch]:
        seen.clear()
        cards[0] = card
        layout = kernel.operation.layout(kernel.operation.inputs, shape, dtype)
        kernel(*(torch.empty(size, dtype=own, device="meta") for size, own in layout))
        return list(seen)

    for name in KERNELS:
        built(name)  # imports it
    on_card(monkeypatch, lambda _: cards[0])
    for kind in (jit.JITFunction, interpreter.InterpretedFunction):
        monkeypatch.setattr(kind, "run", run)
    return of


@cache
def shapes() -> list[Shape]:
    """The shapes of every grid; where it has many widths, powers of two and both ends."""
    drawn = read_yaml(CONF / "grid")["held_out"] | {"seed": 1}
    held_out = GridConfig.model_validate({k: drawn[k] for k in drawn if k != "defaults"})
    listed = [(m, n) for points in named_grids().values() for m, n, _ in points]
    every: dict[int, set[int]] = {}
    for m, n in [*listed, *held_out.expand()]:
        every.setdefault(m, set()).add(n)
    kept = {
        (m, n)
        for m, widths in every.items()
        for n in widths
        if n & (n - 1) == 0 or len(widths) < 20 or n in (min(widths), max(widths))
    }
    return sorted(kept)


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_no_launch_asks_for_more_than_the_card_has(card: Device, launched: Seen) -> None:
    asked = refused = 0
    third = [*CARDS].index(card.name) % 3  # of three cards alike each another third
    for name in KERNELS:
        kernel = built(name)
        for shape in shapes()[third::3]:
            for dtype in (F32, F16, BF16):
                place = f"{name} {shape} {dtype} on {card.name}"
                reason = kernel.unsupported(shape, dtype, card)
                asked += 1
                if reason is not None:
                    refused += 1
                    assert 0 < len(reason) < 300, place
                    assert "\n" not in reason, place
                elif kernel.backend == "triton" and 0 not in shape and dtype is not F16:
                    check(launched(kernel, shape, dtype, card), card, place)
                    check_plan(kernel, shape, dtype, card, place)
    assert 0 < refused < asked


def check(launches: list[Launch], card: Device, place: str) -> None:
    """Programs, warps, clusters and registers within what the card has."""
    assert launches, place
    for one in launches:
        warps = one.options.get("num_warps", 4)
        assert 1 <= warps <= 32, place
        assert 1 <= one.options.get("num_ctas", 1) <= max(largest_cluster(card), 1), place
        assert 1 <= one.grid[0] <= (1 << 31) - 1, place
        registers = one.options.get("maxnreg") or 0
        assert registers * 32 * warps <= (card.registers_per_sm or 0), place
        if one.options.get("launch_cooperative_grid"):
            assert one.grid[0] * warps <= (card.sms or 0) * (card.warps_per_sm or 0), place


def check_plan(kernel: Kernel, shape: Shape, dtype: torch.dtype, card: Device, place: str) -> None:
    """Where a cluster holds a row, its programs fit the card's SMs with their shared memory."""
    for width in {1, 16 // dtype.itemsize} if hasattr(kernel, "plan") else ():
        plan = kernel.plan(shape, dtype, width, card)
        if plan is not None:
            assert plan.shared_bytes <= (card.shared_bytes_per_block or 0), place
            assert plan.resident(width, card) >= plan.programs, place


A100, SMALLER = CARDS["a100_80gb"], CARDS["rtx_5090"]
CHOICES: list[tuple[str, Shape, torch.dtype, Device, str]] = [
    ("auto", (4096, 1024), F32, H200, "fused_multirow"),  # 4 KB
    *(("auto", (4096, cols), F32, H200, "cluster") for cols in (1025, 1028)),
    ("auto", (4096, 1001), F16, H200, "cluster"),  # no whole number of vectors
    ("auto", (4096, 511), F16, H200, "fused_multirow"),
    ("auto", (4096, 1 << 18), F32, H200, "cluster"),
    ("auto", (4096, (1 << 18) + 16), F32, H200, "cooperative"),
    ("auto", (4096, (1 << 18) + 4), F32, H200, "reduced"),  # split: no whole number of vectors
    ("auto", (16, (1 << 18) + 16), BF16, H200, "cooperative"),  # few and wide
    ("auto", (17, 1 << 20), BF16, H200, "cluster"),
    *(("auto", (m, (1 << 20) + 16), BF16, H200, "reduced") for m in (2, 4096)),
    *(("auto", (1, 1 << 18), dtype, H200, "reduced") for dtype in (F32, BF16)),
    ("auto", (1, (1 << 18) - 16), F32, H200, "cluster"),
    ("auto", (4096, 8192), F64, H200, "fused_row"),
    ("auto", (4096, 8200), F64, H200, "reduced"),
    ("auto", (8, 1 << 18), F32, A100, "cooperative"),
    *((name, (32768, 2048), BF16, H200, "cluster") for name in ("ce_auto", "ce_grad_auto")),
    *(("ce_auto", (32768, cols), BF16, H200, "cluster") for cols in (319, 2047, 4332)),
    ("ce_auto", (32768, 15), BF16, H200, "rows"),
    *((name, (8, 1 << 21), BF16, H200, "rows") for name in ("ce_auto", "ce_grad_auto")),
    ("ce_auto", (8, 128256), BF16, A100, "rows"),
    *(("logsumexp_auto", (2, cols), F32, H200, "cluster") for cols in (1001, 1 << 17)),
    *(("log_softmax_auto", (2, cols), BF16, H200, "rows") for cols in (31, 1025, 2048)),
    *(("log_softmax_auto", (2, cols), BF16, H200, "cluster") for cols in (32, 319, 4096)),
    ("log_softmax_auto", (2, 319), F32, H200, "rows"),
    ("logprob_entropy_auto", (8192, 151936), BF16, H200, "cluster"),
    *(("backward_auto", (64, n), F16, H200, "backward_cluster") for n in (385, 520, 50257)),
    *(("backward_auto", (64, n), F16, H200, "backward_multirow") for n in (127, 383, 512)),
    *(("backward_auto", (64, n), F32, H200, "backward") for n in (7, 262148)),
    ("backward_auto", (64, 262144), F32, H200, "backward_cluster"),
    ("backward_auto", (64, 131072), F32, SMALLER, "backward_cluster"),
    ("backward_auto", (64, 262144), F32, SMALLER, "backward"),
]


@pytest.mark.parametrize(("name", "shape", "dtype", "card", "wanted"), CHOICES, ids=str)
def test_auto_takes_what_was_the_fastest_of_its_kind(
    name: str, shape: Shape, dtype: torch.dtype, card: Device, wanted: str, launched: Seen
) -> None:
    kernel = built(name)
    assert kernel.unsupported(shape, dtype, card) is None or dtype is F64
    assert launched(kernel, shape, dtype, card)[0].module == wanted


def test_few_rows_are_cut_by_the_clusters_and_the_sms_of_a_card(launched: Seen) -> None:
    def cuts(cols: int, *rows: int) -> list[Shape]:
        every = [launched(built("cluster"), (m, cols), F32, H200)[0] for m in rows]
        return [(one.options["num_ctas"], one.options["num_warps"]) for one in every]

    # seven GPCs have room for a cluster of 16
    assert cuts(262144, 7, 8, 15) == [(16, 8), (8, 16), (16, 8)]
    assert cuts(32768, 1, 4096) == [(16, 4), (8, 8)]  # few rows spread wider


def hints(constants: dict[str, Any]) -> tuple[str, str]:
    """The eviction hints of a launch's loads and stores, which may be fields of one record."""
    how = constants.get("HOW")
    return (how.loads, how.stores) if how else (constants["LOADS"], constants["STORES"])


@pytest.mark.parametrize("card", [CARDS["h200"], CARDS["l40s"]], ids=["h200", "l40s"])
def test_matrices_of_one_to_eight_times_l2_are_moved_with_eviction_hints(
    card: Device, launched: Seen
) -> None:
    rows, last = (card.l2_bytes or 0) // 1024, "evict_last"
    for shape, loads, stores in (
        ((rows - 1, 256), "", ""),
        ((rows, 256), last, last),
        ((8 * rows - 1, 256), last, last),
        ((8 * rows, 256), last, ""),
    ):
        for name in ("auto", "copy_hinted"):
            [one] = launched(built(name), shape, F32, card)
            assert hints(one.constants) == (loads, stores), name
    for hint in ("keep", "keep_output"):
        [one] = launched(built("copy_triton", **{hint: True}), (4, 4), F32, card)
        assert hints(one.constants).count(last) == 1


@pytest.mark.parametrize(
    "name",
    [
        *("auto", "ce_cluster", "ce_grad_auto", "logprob_entropy_cluster"),
        *("log_softmax_cluster", "log_softmax_backward_auto"),
    ],
)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_a_batch_invariant_row_is_cut_alike_whatever_the_rows(
    name: str, dtype: torch.dtype, launched: Seen
) -> None:
    kernel = built(name)
    if name == "auto":
        first, other = (launched(kernel, (m, 32_000), dtype, H200)[0] for m in (1, 9999))
        assert first.options != other.options  # else there is no need
        kernel = built(name, batch_invariant=True)
    for cols in (1, 64, 250, 781, 1024, 4096, 32_000, 50_257, 131_072, 1 << 19, 1 << 20, 1 << 21):
        if kernel.unsupported((9, cols), dtype, H200) is not None:
            continue
        each = [launched(kernel, (m, cols), dtype, H200)[0] for m in (1, 9, 200, 9999)]
        cuts = {(one.module, *map(one.options.get, ("num_warps", "num_ctas"))) for one in each}
        assert len(cuts) == 1 or each[0].module == "rows", cols  # which programs share: see there
