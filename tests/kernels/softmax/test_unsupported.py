"""What each variant cannot do is said in one sentence before anything is launched."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from kernels.cross_entropy.peers import CeBackwardQuack, CeGradQuack, CeQuack
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.read.operation import STRETCH
from kernels.read.read_triton import ReadTriton
from kernels.roofs.mover import CopyTriton
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import NOT_HERE, Cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.hybrid import FusedRow, Hybrid, ThreePass
from kernels.softmax.online import Online
from kernels.softmax.peers import FlagGems, Helion, Liger, Quack
from kernels.softmax_backward.library import BackwardFlagGems, BackwardLiger, BackwardQuack
from tests.conftest import ROOT
from tests.kernels.variants import COPIES, PEERS, SOFTMAXES, name

EVERY = SOFTMAXES + COPIES
F16, F32, F64 = torch.float16, torch.float32, torch.float64
BF16, CPU = torch.bfloat16, Device(kind="cpu", name="cpu")
CE_QUACK = (CeQuack(), CeGradQuack(), CeBackwardQuack())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every package were here; nothing of them may be imported."""
    monkeypatch.setattr("kernels.kernel.distribution", lambda package: package)
    monkeypatch.setattr("kernels.peer.find_spec", lambda module: module)
    monkeypatch.setenv("TRITON_INTERPRET", "1")


Case = tuple[Kernel, tuple[int, ...], torch.dtype, dict[str, Any], str | None]
# in place of an H200's
NO_CLUSTERS = {"capability": (8, 9)}
NO_GPU = {"kind": "cpu", "capability": None, "registers_per_sm": None}
CASES: list[Case] = [
    (Fused(), (4096, 32768), F32, {}, None),
    # what shared memory cannot hold is launched all the same: the card decides
    *((kernel, (4096, 65536), F32, {}, None) for kernel in (Fused(), Fused(num_stages=2))),
    (Fused(), (1, (1 << 20) + 1), F32, NO_GPU, "Triton's largest block, 1048576"),
    (FusedRow(), (4096, 65536), F32, {}, None),
    (FusedRow(), (4096, 131072), F32, {}, "a row of 131072 takes 131072 registers (padded to 131"),
    (FusedRow(), (1, (1 << 20) + 1), F32, NO_GPU, "Triton's largest block, 1048576"),
    *((kernel, (4096, 1 << 24), F32, {}, None) for kernel in (Hybrid(), Online(), ThreePass())),
    (FusedMultirow(), (4096, 4096), F64, {}, None),
    (FusedMultirow(), (4096, 4097), F16, {}, "takes rows of at most 4096 elements, not 4097"),
    (FusedMultirow(64, 8), (4096, 512), F32, {}, None),
    (FusedMultirow(64, 4), (4096, 513), F32, {}, "num_warps=4 leave a lane 512 elements of rows"),
    *(
        (kernel, (1 << 31, 1), F16, {}, "2147483647")
        for kernel in (ThreePass(), FusedRow(), Online(), CopyTriton(), FusedMultirow(1))
    ),
    *((Cooperative(), shape, F32, {}, None) for shape in ((1, 1), (0, 5), (1, 264 * 16384))),
    (Cooperative(), (1, 264 * 16384 + 1), F32, {}, "takes 529 programs of 8192 elements at once"),
    (Cooperative(1024), (9, 1320 * 1024 + 1), F32, {}, "holds 1320"),
    (Cooperative(1024, 32), (9, 132 * 1024 + 1), F32, {}, "holds 132"),
    (Cooperative(32768, 4), (9, 8), F32, {}, "holds 0"),
    (Cooperative(), (1, 133 * 16384), F32, {"sms": 66}, "holds 264"),
    (Cooperative(), (2, 3), F64, {}, "takes float32, float16, bfloat16, not float64"),
    (Cooperative(), (2, 3), F32, NO_GPU, NOT_HERE),
    *((Cluster(), (4096, cols), F16, {}, None) for cols in (1, 50257, 524288, 1 << 20)),
    (Cluster(), (4096, 1024), F32, {"capability": (8, 0)}, "sm_90 or newer"),
    (Cluster(), (4096, 1024), F64, {}, "not float64"),
    (Cluster(), (4096, (1 << 20) + 4), F32, {}, "do not fit"),
    (Cluster(), (4096, (1 << 19) + 1), F32, {}, None),
    (Cluster(), (4, 1 << 20), F32, {"capability": (12, 0), "name": "a card"}, "fit on a card"),
    (Cluster(16), (4, 4096), F32, {"capability": (12, 0), "name": "a card"}, "a card has up to 8"),
    (Cluster(), (1 << 30, 65536), F32, {}, "2147483647 programs; here it is 16 a row"),
    (ReadTriton(), (1 << 30, 2 * STRETCH), F32, {}, "counts stretches"),
    (ReadTriton(), (1 << 31, 1), F16, {}, "stretches"),
    (Liger(), (4, 65536), F64, NO_CLUSTERS, None),
    (Liger(), (4, 65537), F32, {}, "Liger takes rows of at most 65536, not 65537"),
    (Liger(), (4, 64), F32, NO_GPU, None),
    (FlagGems(), (4, 1 << 20), F32, NO_CLUSTERS, None),
    (FlagGems(), (4, 64), F64, {}, "takes float32, float16, bfloat16, not float64"),
    (FlagGems(), (4, 64), F32, NO_GPU, "FlagGems cannot be imported without one"),
    (Quack(), (4, 780), F32, {}, None),
    (Quack(), (4, 780), F16, {}, "QuACK takes rows of a multiple of 8 float16, not of 780"),
    (Quack(), (4, 917504), F32, {}, None),
    (Quack(), (4, 1 << 20), F32, {}, "takes 263176 bytes of shared memory in each block of"),
    (Quack(), (4, 64), F32, NO_CLUSTERS, "needs compute capability 9.0, for clusters; this device"),
    (Quack(), (4, 64), F32, NO_GPU, "needs a CUDA device"),
    (Helion(), (4, 1 << 20), F16, NO_CLUSTERS, None),
    (Helion(), (4, 64), F32, NO_GPU, "needs a CUDA device"),
    *((kernel, (8, 50257), BF16, {}, "QuACK takes rows of a multiple of 8") for kernel in CE_QUACK),
    (BackwardQuack(), (4, 458752), F32, {}, None),
    (BackwardQuack(), (4, 524288), F32, {}, "takes 263176 bytes of shared memory in each block of"),
    (BackwardLiger(), (4, 65537), F32, {}, "Liger takes rows of at most 65536, not 65537"),
    (BackwardFlagGems(), (4, 64), F32, NO_GPU, "FlagGems cannot be imported without one"),
]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{name(case[0])} {case[1:4]}")
def test_what_a_variant_cannot_do_is_said(h200: Device, case: Case) -> None:
    kernel, shape, dtype, change, reason = case
    said = kernel.unsupported(shape, dtype, dataclasses.replace(h200, **change))
    if reason is None:
        assert said is None
    else:
        assert said is not None
        assert reason in said
        assert "\n" not in said


@pytest.mark.parametrize("kernel", EVERY, ids=name)
def test_a_matrix_of_floats_is_taken_whatever_its_shape_and_nothing_else(
    h200: Device, kernel: Kernel
) -> None:
    assert "3 dimensions" in (kernel.unsupported((2, 3, 4), F32, h200) or "")
    assert "int32" in (kernel.unsupported((2, 3), torch.int32, h200) or "")
    for shape in ((0, 5), (5, 0), (1, 1), (1823, 781)):
        for dtype in (F32, F16, torch.bfloat16, F64):
            assert kernel.unsupported(shape, dtype, h200) is None


def test_what_is_missing_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, h200: Device, installed: None
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    for kernel in EVERY:
        said = str(kernel.unsupported((2, 3), F32, CPU))
        assert ("CUDA" in said) == (kernel.backend == "triton")
    monkeypatch.setattr("kernels.peer.find_spec", lambda module: None)  # by no .pth file
    assert "dsl_packages on PYTHONPATH" in str(Quack().unsupported((4, 64), F32, h200))
    monkeypatch.setattr("kernels.kernel.distribution", Mock(side_effect=PackageNotFoundError))
    for kernel in PEERS:
        said = f"needs {kernel.packages[0]} of the extra peers, not installed here; run make peers"
        assert kernel.unsupported((4, 64), F32, h200) == said


DESCRIBED = """
import sys
sys.modules["triton"] = None  # as where it is not installed
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("liger_kernel", "flag_gems", "quack", "helion"):
            print("imports", name)
sys.meta_path.insert(0, Watch())
import torch
import kernels.kernel
from kernels.cross_entropy.peers import CeBackwardQuack, CeGradQuack, CeQuack
from kernels.device import Device
from tests.kernels.variants import COPIES, PEERS, SOFTMAXES

for kernel in SOFTMAXES + COPIES:
    said = kernel.unsupported((2, 3), torch.float32, Device(kind="cpu", name="cpu"))
    assert (said is not None and "not installed" in said) == (kernel.backend == "triton"), said
kernels.kernel.distribution = str  # as if all were installed
for kernel in PEERS:
    kernel.traffic(), kernel.on_chip_elements()
    kernel.unsupported((4, 64), torch.float32, Device("cuda", "x", (9, 0)))
print("described")
"""


def test_variants_are_described_without_triton_and_peers_without_importing_them() -> None:
    run = subprocess.run(
        [sys.executable, "-c", DESCRIBED], cwd=ROOT, capture_output=True, text=True
    )
    assert run.stdout.strip() == "described", run.stderr[-2000:]
