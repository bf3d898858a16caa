"""What only a GPU can show of softmax's variants. `make test-gpu` runs all kernel tests on one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.device import Device, cuda_device
from kernels.kernel import Kernel
from kernels.peer import WIDEST_OF_LIGER
from kernels.roofs.library import Copy
from kernels.roofs.mover import CopyTriton
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import WORDS, Cooperative, _cooperative
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.library import Compiled, NaiveScript, TorchSoftmax
from kernels.softmax.peers import FLAG_GEMS_TILE, WIDEST_WHOLE, FlagGems, Quack
from tests.kernels.softmax.test_answers import OURS
from tests.kernels.variants import LAYOUTS, PEERS, assert_softmax, extremes, lay_out, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(240),  # a hang is a failure, not a wait
]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
every = pytest.mark.parametrize("kernel", [*OURS, *PEERS], ids=name)


@pytest.fixture(scope="module")
def card() -> Device:
    return cuda_device(0)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def right(kernel: Kernel, x: torch.Tensor) -> None:
    """Refused, or right."""
    if kernel.unsupported(tuple(x.shape), x.dtype, cuda_device(0)) is None:
        assert_softmax(kernel, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_batch_invariant_row_has_its_bits_in_any_matrix(dtype: torch.dtype) -> None:
    kernel = Auto(batch_invariant=True)
    for cols in (1, 100, 256, 781, 1024, 4096, 32_000, 50_257, 131_072, 300_000, 1 << 19, 1 << 20):
        x = torch.randn(200 if cols < 1 << 18 else 20, cols, device="cuda").to(dtype)
        whole = kernel(x)
        assert_softmax(kernel, x[:9])
        for rows in (1, 3, 17, 128):
            assert torch.equal(kernel(x[:rows]), whole[:rows]), (rows, cols)
            assert torch.equal(kernel.prepare(x[:rows])(x[:rows]), whole[:rows]), (rows, cols)


@pytest.mark.parametrize(
    "kernel",
    [
        *(Cluster(*cut) for cut in ((1, 1), (1, 4), (2, 2), (4, 8), (16, 1), (16, 16))),
        *(
            Cooperative(*cut)
            for cut in ((16, 4), (64, 4), (1024, 4), (2048, 8), (8192, 4), (16384, 16))
        ),
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


@pytest.mark.parametrize(
    ("kernel", "graphed"),
    [(Cluster(), False), (Cooperative(), False), (Cooperative(), True)],
    ids=["cluster", "cooperative", "graphs of cooperative"],
)
def test_two_streams_at_once_each_get_their_own_answers(kernel: Kernel, graphed: bool) -> None:
    inputs = [randn(40, 131_072) for _ in range(2)]
    call = kernel.prepare(inputs[0])
    call(inputs[0])
    # of unlike priority: the one that goes first must not keep the other from completing its grid
    streams = [torch.cuda.Stream(priority=priority) for priority in (0, -1)]
    wanted = [torch.softmax(x, dim=1) for x in inputs]
    right = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in inputs]
    graphs = [torch.cuda.CUDAGraph() for _ in inputs] if graphed else []
    answers = []
    for graph, x in zip(graphs, inputs, strict=False):
        with torch.cuda.graph(graph):
            answers.append(call(x))
    torch.cuda.synchronize()
    for _ in range(100):
        for place, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                if graphed:
                    graphs[place].replay()
                y = answers[place] if graphed else call(inputs[place])
                right[place] += (y - wanted[place]).abs().amax() < 1e-6
    torch.cuda.synchronize()
    assert [count.item() for count in right] == [100, 100]


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
