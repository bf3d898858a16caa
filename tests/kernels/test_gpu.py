"""What only a GPU can show. `make test-gpu` runs these and every other kernel test on it."""

from __future__ import annotations

import pytest
import torch

from kernels.copy.copy import Copy
from kernels.copy.copy_triton import CopyTriton
from kernels.device import cuda_device
from kernels.kernel import Kernel
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from kernels.softmax.compiled import Compiled
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.three_pass import ThreePass
from kernels.softmax.torch_softmax import TorchSoftmax
from tests.kernels.variants import assert_softmax, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LEAN = Online(16384, 32, reverse=True, evict="last_first", rows_in_flight="l2")
TRITON = (
    *(ThreePass(), Fused(), FusedRow(), FusedMultirow(), Hybrid(), Online(), LEAN),
    *(Cluster(), Auto()),
)
WIDTHS = (1, 3, 256, 781, 1024, 4095, 4096, 12672, 16384, 32000, 32768, 65536, 131072, 262144)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=name)
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("kernel", TRITON, ids=name)
def test_every_width_is_right_or_refused(kernel: Kernel, cols: int, dtype: torch.dtype) -> None:
    if kernel.unsupported((300, cols), dtype, cuda_device(0)):
        pytest.skip("refused")
    assert_softmax(kernel, torch.randn(300, cols, device="cuda", dtype=dtype))


@pytest.mark.parametrize(
    "kernel", [*TRITON, TorchSoftmax(), NaiveScript(), Compiled(), Copy(), CopyTriton()], ids=name
)
def test_matrix_beyond_two_to_the_31_elements(kernel: Kernel) -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")
    shape = (600_000, 4096) if isinstance(kernel, FusedMultirow) else (300_000, 8192)
    x = torch.randn(shape, device="cuda", dtype=torch.float16)
    y = kernel(x)
    for rows in (slice(0, 64), slice(262_100, 262_200), slice(-64, None)):
        wanted = kernel.operation.reference(x[rows])
        torch.testing.assert_close(y[rows].double(), wanted, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("kernel", [*TRITON, NaiveScript(), Compiled()], ids=name)
def test_prepared_call_allocates_only_its_answer(kernel: Kernel) -> None:
    x = torch.randn(512, 1024, device="cuda")
    call = kernel.prepare(x)
    call(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = call(x)
    assert torch.cuda.memory_allocated() - before == y.nbytes


@pytest.mark.parametrize("kernel", TRITON, ids=name)
def test_prepared_call_can_be_captured_in_a_graph(kernel: Kernel) -> None:
    x = torch.randn(512, 1024, device="cuda")
    call = kernel.prepare(x)
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x, dim=1))
