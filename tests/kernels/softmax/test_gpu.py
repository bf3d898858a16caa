"""What only a GPU can show of softmax's variants. `make test-gpu` runs all kernel tests on one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.worker.gate import check
from kernels.copy.copy import Copy
from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device, cuda_device
from kernels.kernel import Kernel
from kernels.peer import WIDEST_OF_LIGER
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from kernels.softmax.compiled import Compiled
from kernels.softmax.cooperative import WORDS, Cooperative, _cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.peers import FLAG_GEMS_TILE, WIDEST_WHOLE, FlagGems, Quack
from kernels.softmax.three_pass import ThreePass
from kernels.softmax.torch_softmax import TorchSoftmax
from tests.kernels.variants import LAYOUTS, PEERS, assert_softmax, extremes, lay_out, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(240),  # a hang is a failure, not a wait
]

LEAN = Online(16384, 32, reverse=True, evict="last_first")
OURS = (
    *(ThreePass(), Fused(), FusedRow(), FusedMultirow(), Hybrid(), Online(), LEAN),
    *(Cluster(), Cooperative(), Auto()),
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WIDTHS = (
    *(1, 3, 256, 760, 781, 1024, 4095, 4096, 12672, 16384, 32000, 32768, 32776, 65536),
    *(131072, 262144, 400_000, 524_288, 786_432, 1_000_003, 1 << 20, (1 << 20) + 16),
)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)
ours = pytest.mark.parametrize("kernel", OURS, ids=name)
every = pytest.mark.parametrize("kernel", [*OURS, *PEERS], ids=name)


@pytest.fixture(scope="module")
def card() -> Device:
    return cuda_device(0)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def right(kernel: Kernel, x: torch.Tensor) -> None:
    """Refused, or right: ours by the bounds of `assert_softmax`, a peer by the gate's."""
    if kernel.unsupported(tuple(x.shape), x.dtype, cuda_device(0)) is not None:
        return
    if kernel not in PEERS:
        return assert_softmax(kernel, x)
    y = kernel(x)
    assert y.is_contiguous()
    assert check(y, x.contiguous(), SOFTMAX, kernel.backend).reason is None
    return None


@every
@dtypes
def test_every_width_is_right_or_refused(kernel: Kernel, dtype: torch.dtype) -> None:
    for cols in WIDTHS:
        if isinstance(kernel, Quack) and cols > 1 << 16:
            continue  # it gives NaN at some of them, as its module says
        if isinstance(kernel, Fused) and cols > 1 << 14:
            continue  # its unrolled blocks take ptxas minutes
        # few rows are spread wider by those that spread them
        few = (1, 9) if isinstance(kernel, Cluster | Cooperative) else (9,)
        for rows in few if cols >= 1 << 17 else (*few, 300):
            right(kernel, randn(rows, cols, dtype=dtype))


@every
@dtypes
def test_every_layout_is_right(kernel: Kernel, dtype: torch.dtype) -> None:
    for layout in LAYOUTS:
        for cols in (1024, 5000):
            right(kernel, lay_out(randn(50, cols, dtype=dtype), layout))
    storage = randn(9 * 1024 + 1, dtype=dtype)
    right(kernel, storage[1:].view(9, 1024))  # rows that start off sixteen bytes


@ours
@dtypes
def test_infinities_and_nan_give_what_torch_gives(kernel: Kernel, dtype: torch.dtype) -> None:
    x = extremes().to("cuda", dtype)
    right(kernel, x)
    right(kernel, x.repeat_interleave(100, dim=1))  # so that they cross slices
    for value in (torch.finfo(dtype).min, torch.finfo(dtype).max):
        right(kernel, torch.full((3, 5000), value, dtype=dtype, device="cuda"))


@pytest.mark.parametrize(
    "kernel",
    [
        *(Cluster(*cut) for cut in ((1, 1), (1, 4), (2, 2), (4, 8), (16, 1), (16, 16))),
        *(Cooperative(*cut) for cut in ((16, 4), (64, 4), (1024, 4), (8192, 4), (16384, 16))),
        *(Cooperative(*cut, deferred=False) for cut in ((1024, 4), (2048, 8), (8192, 4))),
    ],
    ids=str,
)
def test_any_cut_of_a_row_is_right(kernel: Kernel) -> None:
    for dtype in DTYPES:
        right(kernel, extremes().to("cuda", dtype))
        right(kernel, extremes().to("cuda", dtype).repeat_interleave(100, dim=1))
    for shape in ((1, 20_000), (700, 20_000), (50, 65_536)):
        right(kernel, randn(*shape))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 40),
    cols=st.integers(1, 70_000) | st.integers(1, 400),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(DTYPES),
    scale=st.sampled_from([1.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_any_shape_and_stride_gives_the_answer_of_float64(
    rows: int, cols: int, layout: str, dtype: torch.dtype, scale: float, seed: int
) -> None:
    generator = torch.Generator("cuda").manual_seed(seed)
    x = (torch.randn(rows, cols, device="cuda", generator=generator) * scale).to(dtype)
    for kernel in (Cluster(), Auto()):
        right(kernel, lay_out(x, layout))


@pytest.mark.parametrize(
    "kernel", [*OURS, TorchSoftmax(), NaiveScript(), Compiled(), Copy(), CopyTriton()], ids=name
)
def test_matrix_beyond_two_to_the_31_elements(kernel: Kernel, card: Device) -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free device memory")
    shape = (600_000, 4096) if isinstance(kernel, FusedMultirow) else (300_000, 8192)
    if isinstance(kernel, Cooperative):
        shape = (2100, 1 << 20)
    if kernel.unsupported(shape, torch.float16, card) is not None:
        pytest.skip("refused")
    x = randn(*shape, dtype=torch.float16)
    y, boundary = kernel(x), -(-(1 << 31) // shape[1])
    for rows in (slice(0, 2), slice(boundary - 8, boundary + 8), slice(-2, None)):
        wanted = kernel.operation.reference(x[rows])
        torch.testing.assert_close(y[rows].double(), wanted, rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("kernel", [*OURS, *PEERS, NaiveScript(), Compiled()], ids=name)
def test_a_prepared_call_allocates_only_its_answer_on_the_current_stream(
    kernel: Kernel, card: Device
) -> None:
    x = randn(512, 1024)
    if kernel.unsupported((512, 1024), x.dtype, card):
        pytest.skip("refused")
    call = kernel.prepare(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda._sleep(100_000_000)  # a launch on another stream would overtake this
        z = x * 0 + 1
        y = call(z)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before == y.nbytes + z.nbytes
    torch.testing.assert_close(y, torch.full_like(y, 1 / 1024))


@every
@pytest.mark.parametrize("shape", [(512, 1024), (9, 131072)])
def test_replays_of_a_graph_follow_the_input_whatever_runs_between(
    kernel: Kernel, shape: tuple[int, int], card: Device
) -> None:
    if kernel.unsupported(shape, torch.float32, card):
        pytest.skip("refused")
    x = randn(*shape)
    call = kernel.prepare(x)
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = call(x)
        second = call(first)
    for turn in range(60):
        x.normal_()
        graph.replay()
        if turn % 3 == 0:
            call(x)
        wanted = torch.softmax(x, dim=1)
        torch.testing.assert_close(first, wanted)
        torch.testing.assert_close(second, torch.softmax(wanted, dim=1))


@pytest.mark.parametrize("kernel", [Cluster(), Cooperative(1024)], ids=name)
def test_the_same_answer_to_the_last_bit_every_time(kernel: Kernel) -> None:
    x = randn(300, 65_536)
    call = kernel.prepare(x)
    first = call(x)
    assert all(torch.equal(call(x), first) for _ in range(50))


@pytest.mark.parametrize("kernel", [Cluster(), Cooperative()], ids=name)
def test_two_streams_at_once_each_get_their_own_answers(kernel: Kernel) -> None:
    inputs = [randn(40, 131_072) for _ in range(2)]
    call = kernel.prepare(inputs[0])
    # of unlike priority: the one that goes first must not keep the other from completing its grid
    streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
    wanted = [torch.softmax(x, dim=1) for x in inputs]
    right = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(100):
        for stream, x, y, count in zip(streams, inputs, wanted, right, strict=True):
            with torch.cuda.stream(stream):
                count += (call(x) - y).abs().amax() < 1e-6
    torch.cuda.synchronize()
    assert [count.item() for count in right] == [100, 100]


def test_two_graphs_of_one_prepared_call_run_at_once() -> None:
    inputs = [randn(40, 131_072) for _ in range(2)]
    call = Cooperative().prepare(inputs[0])
    call(inputs[0])
    graphs, answers = [], []
    for x in inputs:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            answers.append(call(x))
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(100):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for x, y in zip(inputs, answers, strict=True):
        torch.testing.assert_close(y, torch.softmax(x, dim=1))


def test_graphs_of_the_compiler_warm_up_record_and_replay_cooperative() -> None:
    x = randn(3, 131_072)
    call = Cooperative().prepare(x)  # its words come into being as the compiler warms up

    schema = "(Tensor x) -> Tensor"
    operator = torch.library.custom_op("tests::cooperative", call, mutates_args=(), schema=schema)
    operator.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: 2 * operator(x), mode="reduce-overhead", fullgraph=True)
    for _ in range(5):
        torch.testing.assert_close(compiled(x.normal_()), 2 * torch.softmax(x, dim=1))


def test_the_widest_row_that_cooperative_does_not_refuse_runs(card: Device) -> None:
    assert card.sms is not None
    cols = 2 * card.sms * 16384
    for wide in (cols, cols - 5):
        assert Cooperative().unsupported((3, wide), torch.float32, card) is None
        assert_softmax(Cooperative(), randn(3, wide))
    assert "at once" in str(Cooperative().unsupported((3, cols + 1), torch.float32, card))


def test_a_grid_that_cannot_be_resident_is_refused_and_not_hung() -> None:
    x = randn(2, 1 << 20)
    y, programs = torch.empty_like(x), 1 << 14
    words = torch.zeros(WORDS * programs, dtype=torch.int64, device="cuda")
    with pytest.raises(RuntimeError, match="too many blocks in cooperative launch"):
        _cooperative[(programs,)](
            *(x, y, words, 2, 1 << 20, x.stride(0), 1, programs, 64),
            **{"SLOTS": programs, "BLOCK": 64, "DEFERRED": False, "LOADS": "", "STORES": ""},
            num_warps=4,
            launch_cooperative_grid=True,
        )
    assert_softmax(Cooperative(), x)  # the context is as it was


def test_quack_is_refused_only_where_the_library_fails(card: Device) -> None:
    for cols in (781, 1 << 20):
        reason = Quack().unsupported((2, cols), torch.float32, card)
        if reason is None or "QuACK" not in reason:
            pytest.skip(reason or "a card with room for it")
        with pytest.raises(Exception) as failed:  # noqa: PT011
            Quack()(randn(2, cols)).sum().item()
        assert "illegal" not in str(failed.value)


def test_liger_takes_rows_up_to_the_width_that_its_model_says() -> None:
    settings_of = pytest.importorskip("liger_kernel.ops.utils").calculate_settings
    block, _ = settings_of(WIDEST_OF_LIGER)
    assert block == WIDEST_OF_LIGER  # so that its looping kernel is never launched
    with pytest.raises(RuntimeError, match="exceeds"):
        settings_of(WIDEST_OF_LIGER + 1)


def test_flag_gems_takes_the_tile_that_its_model_says(card: Device) -> None:
    if FlagGems().unsupported((2, 64), torch.float32, card):
        pytest.skip("refused")
    from flag_gems.runtime import get_heuristic_config

    tile = get_heuristic_config("softmax_inner")["TILE_N"]
    assert tile({"N": WIDEST_WHOLE}) == WIDEST_WHOLE
    assert tile({"N": WIDEST_WHOLE + 1}) == FLAG_GEMS_TILE
