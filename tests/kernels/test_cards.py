"""On every card each kernel has a plan that the card allows, or a sentence why not.

Sources of the limits: CUDA C++ Programming Guide, technical specifications per compute capability
(registers, shared memory, warps); NVIDIA's datasheets and architecture whitepapers (SMs, L2).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from experiments.data.jobs import CONF, GridConfig, named_grids, read_yaml
from experiments.worker.describe import build_kernel
from kernels.cluster.cut import LANES, Cut
from kernels.cross_entropy.auto import Chooses, chosen
from kernels.cross_entropy.cluster import CeGradCluster, RowCluster, registers_of
from kernels.device import Device, largest_cluster
from kernels.kernel import Kernel
from kernels.softmax.auto import Auto, choice
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import Cooperative, slices_of
from kernels.softmax_backward.backward_auto import BackwardAuto, in_vectors_by
from kernels.softmax_backward.rows import BackwardCluster
from kernels.vectors import LONGEST
from tests.conf import KERNELS
from tests.conf import kernel as kernel_config

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
Shape = tuple[int, int]
# name, capability, SMs, KiB of shared memory of an SM and at most of a block, warps, MiB of L2
LIMITS = (
    ("A100", (8, 0), 108, (164, 163), 64, 40),
    ("L40S", (8, 9), 142, (100, 99), 48, 96),
    ("RTX 4090", (8, 9), 128, (100, 99), 48, 72),
    ("RTX 5090", (12, 0), 170, (100, 99), 48, 96),
    ("H100 SXM", (9, 0), 132, (228, 227), 64, 50),
    ("H100 PCIe", (9, 0), 114, (228, 227), 64, 50),
    ("H200", (9, 0), 132, (228, 227), 64, 60),
    ("B200", (10, 0), 148, (228, 227), 64, 126),
)
CARDS = {
    name: Device(
        kind="cuda",
        name=name,
        capability=capability,
        sms=sms,
        warp_size=32,
        registers_per_sm=65536,
        shared_bytes_per_sm=shared[0] << 10,
        shared_bytes_per_block=shared[1] << 10,
        warps_per_sm=warps,
        l2_bytes=l2 << 20,
    )
    for name, capability, sms, shared, warps, l2 in LIMITS
}


@cache
def kernels() -> dict[str, Kernel]:
    """Every kernel of conf/kernel that is described without its package."""
    return {name: build_kernel(kernel_config(name)) for name in KERNELS}


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


def plans(kernel: Kernel, shape: Shape, dtype: torch.dtype, card: Device) -> list[tuple[Cut, int]]:
    """The cuts that a kernel may launch, with the width of their vectors: whole, or an element."""
    whole = LONGEST // dtype.itemsize
    if isinstance(kernel, BackwardCluster):
        return [(one, 2 * whole) for one in [kernel.plan(shape, dtype, whole, card)] if one]
    if isinstance(kernel, Cluster | RowCluster):
        found = [(kernel.plan(shape, dtype, width, card), width) for width in (whole, 1)]
        return [(one, width) for one, width in found if one]
    return []


def choices(kernel: Kernel, shape: Shape, dtype: torch.dtype, card: Device) -> list[Any]:
    """What a kernel that chooses takes, or the kernel itself."""
    width = LONGEST // dtype.itemsize
    if isinstance(kernel, Auto):
        both = [(one, fixed) for one in (width, 1) for fixed in (False, True)]
        return [choice(shape, dtype, card, *one) for one in both]
    if isinstance(kernel, Chooses):
        return [chosen(kernel, shape, dtype, card, one, False) for one in (width, 1)]
    if isinstance(kernel, BackwardAuto):
        return [one for one in [in_vectors_by(shape, dtype, card)] if one]
    return [kernel]


@pytest.mark.parametrize("named", CARDS)
def test_no_launch_asks_for_more_than_the_card_has(named: str) -> None:
    card = CARDS[named]
    asked = refused = 0
    for name, kernel in kernels().items():
        for shape in shapes():
            for dtype in DTYPES.values():
                place = f"{name} {shape} {dtype} on {card.name}"
                reason = kernel.unsupported(shape, dtype, card)
                asked += 1
                if reason is not None:
                    refused += 1
                    assert 0 < len(reason) < 300, place
                    assert "\n" not in reason, place
                    continue
                for one in choices(kernel, shape, dtype, card):
                    assert one.unsupported(shape, dtype, card) is None, f"{place}: {one}"
                    check(one, shape, dtype, card, place)
    assert 0 < refused < asked


def check(kernel: Kernel, shape: Shape, dtype: torch.dtype, card: Device, place: str) -> None:
    """Programs, registers, shared memory and clusters within what the card has."""
    registers_per_sm, shared = card.registers_per_sm or 0, card.shared_bytes_per_block or 0
    for plan, width in plans(kernel, shape, dtype, card):
        assert plan.programs <= largest_cluster(card), place
        assert plan.warps <= 32, place
        assert plan.shared_bytes <= shared, place
        assert plan.resident(width, card) >= plan.programs, place
        whole = shape[1] // width * width  # the ends of a row are not part of a chunk
        assert (plan.chunks - 1) * plan.chunk < max(whole, 1) <= plan.chunks * plan.chunk, place
        if isinstance(kernel, Cluster):
            held = (plan.chunks - plan.shared) * width  # elements in registers of a thread
            assert held * (dtype.itemsize if plan.packed else 4) <= 256, place
            slots = 8 * (plan.programs * plan.warps + 1)
            assert plan.shared * plan.warps * LANES * 16 + slots + 1024 <= 227 << 10, place
        if isinstance(kernel, RowCluster):
            gradient = isinstance(kernel, CeGradCluster)
            registers = registers_of(plan, card, gradient, False)
            assert (registers or 0) * 32 * plan.warps <= registers_per_sm, place
    if isinstance(kernel, Cooperative) and 0 not in shape:
        slices = slices_of(shape[1], card, True)
        assert slices.number <= slices.held, place
        assert slices.number * slices.width >= shape[1] > (slices.number - 1) * slices.width, place
        assert slices.width <= slices.block <= 2 * slices.width, place
        assert (
            slices.registers(slices.groups(shape[0]), card) * 32 * slices.warps <= registers_per_sm
        ), place


def test_a_card_of_small_clusters_gets_them_or_a_sentence() -> None:
    card, kernel = CARDS["RTX 5090"], BackwardCluster()
    for cols, dtype, programs in ((131072, torch.float32, 8), (196608, torch.bfloat16, 8)):
        plan = kernel.plan((64, cols), dtype, LONGEST // dtype.itemsize, card)
        assert plan is not None
        assert plan.programs == programs
    reason = str(kernel.unsupported((64, 262144), torch.float32, card))
    assert reason.endswith("rows of 262144 do not fit on RTX 5090")
    assert in_vectors_by((64, 262144), torch.float32, card) is None
    assert "RTX 5090 has up to 8" in str(Cluster(16).unsupported((4, 4096), torch.float32, card))
