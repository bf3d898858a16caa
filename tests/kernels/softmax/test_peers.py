"""The public kernels are described and refused without their packages, and right with them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import Device
from kernels.kernel import Kernel
from kernels.softmax.peers.flag_gems import FlagGems
from kernels.softmax.peers.liger import WIDEST, Liger
from kernels.softmax.peers.quack import Quack
from tests.conftest import ROOT
from tests.kernels.inputs import LAYOUTS, lay_out, matrices
from tests.kernels.variants import PEERS, assert_softmax, name

F16, F32, F64 = torch.float16, torch.float32, torch.float64
CPU = Device(kind="cpu", name="cpu")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every package were here; nothing of them may be imported."""
    monkeypatch.setattr("kernels.kernel.distribution", lambda package: package)
    monkeypatch.setattr("kernels.softmax.peers.quack.find_spec", lambda module: module)


@pytest.mark.parametrize("kernel", PEERS, ids=name)
def test_an_absent_package_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, h200: Device, kernel: Kernel
) -> None:
    def absent(package: str) -> None:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("kernels.kernel.distribution", absent)
    said = f"needs {kernel.packages[0]} of the extra peers, not installed here; run make peers"
    assert kernel.unsupported((4, 64), F32, h200) == said


DESCRIBED = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("liger_kernel", "flag_gems", "quack"):
            print("imports", name)
sys.meta_path.insert(0, Watch())
import torch
import kernels.kernel
from kernels.device import Device
from tests.kernels.variants import PEERS
kernels.kernel.distribution = str  # as if all were installed
for kernel in PEERS:
    print(kernel.traffic(), kernel.on_chip_elements())
    kernel.unsupported((4, 64), torch.float32, Device("cuda", "x", (9, 0)))
"""


def test_describing_peers_imports_none_of_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DESCRIBED], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "imports" not in done.stdout
    assert len(done.stdout.splitlines()) == len(PEERS)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("kernel", "cols", "dtype", "reason"),
    [
        (Liger(), 65536, F64, None),
        (Liger(), 65537, F32, "Liger takes rows of at most 65536, not 65537"),
        (FlagGems(), 1 << 20, F32, None),
        (FlagGems(), 64, F64, "takes float32, float16, bfloat16, not float64"),
        (Quack(), 64, F64, "takes float32, float16, bfloat16, not float64"),
        (Quack(), 780, F32, None),
        (Quack(), 780, F16, "QuACK takes rows of a multiple of 8 float16, not of 780"),
        (Quack(), 781, F32, "QuACK takes rows of a multiple of 4 float32, not of 781"),
        (Quack(), 917504, F32, None),
        (Quack(), 1 << 20, F16, None),
        (
            Quack(),
            1 << 20,
            F32,
            "a row of 1048576 takes 263176 bytes of shared memory in each block of "
            "QuACK's largest cluster, and this device gives a block 232448",
        ),
    ],
    ids=str,
)
def test_peers_refuse_what_their_libraries_refuse(
    h200: Device, kernel: Kernel, cols: int, dtype: torch.dtype, reason: str | None
) -> None:
    assert kernel.unsupported((4, cols), dtype, h200) == reason


@pytest.mark.usefixtures("installed")
def test_cards_that_a_library_cannot_use_are_refused(
    monkeypatch: pytest.MonkeyPatch, h200: Device
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    ada = dataclasses.replace(h200, capability=(8, 9))
    assert Liger().unsupported((4, 64), F32, ada) is None
    assert FlagGems().unsupported((4, 64), F32, ada) is None
    assert Quack().unsupported((4, 64), F32, ada) == (
        "needs compute capability 9.0, for clusters; this device has 8.9"
    )
    assert Liger().unsupported((4, 64), F32, CPU) is None
    assert "cannot be imported without" in (FlagGems().unsupported((4, 64), F32, CPU) or "")
    assert Quack().unsupported((4, 64), F32, CPU) == "needs a CUDA device"


@pytest.mark.usefixtures("installed")
def test_cutlass_that_no_pth_file_put_on_the_path_is_one_line(
    monkeypatch: pytest.MonkeyPatch, h200: Device
) -> None:
    monkeypatch.setattr("kernels.softmax.peers.quack.find_spec", lambda module: None)
    assert "dsl_packages on PYTHONPATH" in (Quack().unsupported((4, 64), F32, h200) or "")


@pytest.mark.parametrize("kernel", PEERS, ids=name)
@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)], ids=str)
def test_empty_matrix_needs_no_package(kernel: Kernel, shape: tuple[int, int]) -> None:
    y = kernel(torch.empty(shape, dtype=F16))
    assert (tuple(y.shape), y.dtype) == (shape, F16)


@settings(max_examples=30, deadline=None)
@given(x=matrices(), layout=st.sampled_from(LAYOUTS))
def test_liger_gives_any_matrix_the_answer_of_float64(
    device: str, x: torch.Tensor, layout: str
) -> None:
    pytest.importorskip("liger_kernel")
    assert_softmax(Liger(), lay_out(x.to(device), layout))


def test_liger_is_refused_exactly_where_the_library_raises() -> None:
    settings_of = pytest.importorskip("liger_kernel.ops.utils").calculate_settings
    assert settings_of(WIDEST)[0] == WIDEST  # one block, so its looping kernel is never launched
    with pytest.raises(RuntimeError, match="exceeds"):
        settings_of(WIDEST + 1)
