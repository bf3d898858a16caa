"""What `kernels.kernel.Kernel` promises, asked of every kernel of conf/kernel that can run here.

What is special about a kernel stands in `OTHERS`, the tunables that it is asked with besides.
"""

from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from experiments.worker.counting import count
from experiments.worker.gate import check
from experiments.worker.inputs import HARD_TOLERANCE, hard, select_rows
from kernels.kernel import Kernel, Operation, as_tuple
from tests.conf import KERNELS, built
from tests.kernels.conftest import HERE, INTERPRETED, LAYOUTS, extremes, lay_out

# NumPy, under the interpreter, remarks on every -inf - -inf
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
TILED = ("three_pass", "hybrid", "online", "split", "copy_triton", "copy_in_place", "add_hinted")
HEADS = {"block_m": 32, "block_n": 16, "num_warps": 4}
# Tiles so small that rows of a few elements take several, and forms that are no kernel of their own
SMALL: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, {"block_size": 16}) for name in (*TILED, "backward", "weighted_online")),
    *((name, {"block_size": 32}) for name in ("attention_io", "exponentials")),
    *((f"{name}_online", {"block_size": 64, "num_warps": 1}) for name in ("ce", "ce_backward")),
    *((f"{name}_online", {"block_size": 64}) for name in ("logsumexp", "logprob_entropy")),
    ("online", {"block_size": 16, "reverse": True, "evict": "last_first"}),
    *(("fused_multirow", {"rows_per_program": rows}) for rows in (1, 4, 16)),
    ("backward_multirow", {"rows_per_program": 8, "num_warps": 2}),
    ("read", {"thread_bytes": 256, "num_warps": 1}),
    ("auto", {"batch_invariant": True}),
    *(("attention_online", HEADS | more) for more in ({}, {"descriptors": True, "num_stages": 2})),
    *(("attention_online", {"block_m": 16, "causal": True, "dim": dim}) for dim in (64, 128)),
    *(("attention_naive", {"softmax": name}) for name in ("naive", "torch", "fused", "cluster")),
    ("attention_naive", {"causal": True, "dim": 64}),
    *(("attention_torch", {"library": name}) for name in ("flash", "math", "efficient")),
)
# Cuts of a row that only a card can try: programs and warps, or elements of a slice and warps
CUTS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        (name, {"programs": programs, "num_warps": warps})
        for name in ("cluster", "backward_cluster", "ce_cluster", "ce_grad_cluster")
        for programs, warps in ((1, 1), (1, 4), (2, 2), (4, 8), (16, 1), (16, 16))
    ),
    *(
        (f"{name}_cluster", {"programs": 2, "num_warps": 2})
        for name in ("logprob_entropy", "log_softmax", "logsumexp")
    ),
    *(
        ("cooperative", {"block_size": size, "num_warps": warps})
        for size, warps in ((16, 4), (64, 4), (1024, 4), (2048, 8), (8192, 4), (16384, 16))
    ),
    ("attention_online", {"block_m": 128, "block_n": 64, "num_warps": 8, "descriptors": True}),
    ("fused", {"num_warps": 1, "num_stages": 5}),
    ("copy_triton", {"keep": True, "keep_output": True}),
)
FLOAT64 = ("softmax", "softmax_backward", "log_softmax", "copy", "read", "add")
NARROW = st.integers(0, 70) | st.sampled_from((8, 64))
assert_same_bits = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)
COMPILED = "inductor"  # takes seconds a shape: tried on a card, and by test_compiled here


@cache
def kernels() -> dict[str, Kernel]:
    """Each kernel by its name in conf/kernel; with other tunables besides."""
    others = {f"{name} {tunables}": built(name, **tunables) for name, tunables in SMALL + CUTS}
    return {name: built(name) for name in KERNELS} | others


def narrow(name: str) -> bool:
    """Whether its tiles are so small that wide rows take too long."""
    return name in {f"{kernel} {tunables}" for kernel, tunables in SMALL}


def runs(kernel: Kernel) -> bool:
    """Whether the kernel runs here, at a small shape."""
    quick = HERE.kind != "cpu" or kernel.backend != COMPILED
    return quick and any(kernel.unsupported((64, 64), one, HERE) is None for one in (F32, BF16))


HERE_RUN = [name for name, kernel in kernels().items() if runs(kernel)]
every = pytest.mark.parametrize("name", HERE_RUN)
OPERATIONS = {kernel.operation.name: kernel.operation for kernel in kernels().values()}


def of_heads(operation: Operation) -> bool:
    """Whether M counts the queries of several heads of N."""
    return operation.name.startswith(("attention", "matmul", "exponentials"))


def dtypes_of(kernel: Kernel) -> tuple[torch.dtype, ...]:
    """The dtypes that a kernel takes, and what it takes though no row is of it."""
    operation = kernel.operation
    own = kernel.backend not in ("torch", "eager") or operation.name in ("softmax", "copy")
    if not own and not of_heads(operation):
        return (F32,)  # PyTorch's 16-bit losses on a CPU are of rounded logarithms
    if operation.name in FLOAT64 and HERE.kind == "cpu" and F64 not in kernel.dtypes:
        return (*kernel.dtypes, F64)
    return kernel.dtypes


def takes(kernel: Kernel, shape: tuple[int, int], dtype: torch.dtype) -> bool:
    """Whether it runs here at a point; under the interpreter also in float64."""
    return kernel.unsupported(shape, dtype, HERE) is None or (dtype is F64 and HERE.kind == "cpu")


@st.composite
def points(draw: st.DrawFn, name: str) -> tuple[tuple[int, int], torch.dtype]:
    """A shape and a dtype that a kernel takes."""
    kernel = kernels()[name]
    operation = kernel.operation
    if of_heads(operation):
        heads, cols = draw(st.integers(1, 3)), draw(st.integers(1, 70))
        shape = (heads * cols, cols)
    else:
        wide = not narrow(name) and draw(st.booleans())
        rows = draw(st.sampled_from((1, 3) if wide else (0, 1, 2, 9, 33)))
        widths = st.sampled_from((256, 781, 2056, 4099))
        widths = widths if HERE.kind == "cpu" else widths | st.integers(1, 70_000)
        shape = (rows, draw(widths if wide else NARROW))
    dtype = draw(st.sampled_from(dtypes_of(kernel)))
    (first, *more), (answer, *_) = operation.inputs, operation.outputs
    # without a class there is no target, and the logsumexp of no column is infinite
    assume(shape[1] > 0 or (not more and answer.shape == first.shape))
    assume(takes(kernel, shape, dtype))
    return shape, dtype


def backend(kernel: Kernel) -> str:
    return "interpreter" if kernel.backend == "triton" and HERE.kind == "cpu" else kernel.backend


def laid_out(kernel: Kernel, inputs: tuple[torch.Tensor, ...], layout: str) -> list[torch.Tensor]:
    """The inputs' matrices with other strides; one that is overwritten has rows of its own.

    Libraries take heads.
    """
    repeats = kernel.overwrites is not None and layout == "one row repeated"
    library = kernel.backend == "cute" or (kernel.backend == "torch" and inputs[0].dim() > 2)
    if library or repeats:
        return list(inputs)
    return [lay_out(x, layout) if x.dim() > 1 else x for x in inputs]


def verdict_on(kernel: Kernel, inputs: Any, call: Any, factor: float = 1) -> str | None:
    """What the gate says of an answer; asserts that only what may be overwritten was."""
    asked = tuple(x.clone() for x in inputs)
    answers = as_tuple(call(*inputs))
    verdict = check(answers, asked, kernel.operation, backend(kernel), factor=factor)
    assert kernel.overwrites or all(y.is_contiguous() for y in answers)
    for array, x, before in zip(kernel.operation.inputs, inputs, asked, strict=True):
        assert array.name == kernel.overwrites or torch.equal(x.nan_to_num(), before.nan_to_num())
    return verdict.reason


@every
# The same points every time: a logsumexp that happens to be near zero has few digits
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 99))
def test_a_prepared_kernel_is_right_for_other_values_of_any_shape_and_layout(
    name: str, data: st.DataObject, layout: str, seed: int
) -> None:
    kernel = kernels()[name]
    shape, dtype = data.draw(points(name))
    first, inputs = (
        laid_out(kernel, kernel.operation.make_inputs(shape, dtype, HERE.kind, which), layout)
        for which in (seed + 100, seed)
    )
    assert verdict_on(kernel, inputs, kernel.prepare(*first)) is None


@every
def test_each_dtype_keeps_its_digits(name: str) -> None:
    kernel, shape = kernels()[name], (6, 6) if narrow(name) else (2, 2100)
    shape = (60, 60) if of_heads(kernel.operation) else shape
    for dtype in dtypes_of(kernel):
        if takes(kernel, shape, dtype):
            inputs = kernel.operation.make_inputs(shape, dtype, HERE.kind, 3)
            assert verdict_on(kernel, inputs, kernel) is None


OF_LOGITS = [name for name in HERE_RUN if kernels()[name].operation.logits]


@pytest.mark.parametrize("name", OF_LOGITS)
def test_rows_that_break_unsafe_kernels_are_right(name: str) -> None:
    kernel = kernels()[name]
    operation, shape = kernel.operation, (12, 96)
    inputs = list(operation.make_inputs(shape, F32, HERE.kind, 0))
    for place, array in enumerate(operation.inputs):
        kinds = operation.logits.get(array.name, ())
        for row in range(len(inputs[place]) if kinds else 0):
            inputs[place][row] = hard(inputs[place][row], kinds[row % len(kinds)])
    assert verdict_on(kernel, inputs, kernel, HARD_TOLERANCE) is None


def by_torch(operation: Operation, x: torch.Tensor, *others: torch.Tensor) -> Any:
    """PyTorch's answers in float64, where the formula of an operation has others for infinities."""
    leaf = x.double().requires_grad_()
    if operation.name.startswith("cross_entropy"):
        loss = F.cross_entropy(leaf, *others, reduction="none")
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return (loss.detach(), gradient)[: len(operation.outputs)]
    if operation.name.startswith("logprob_entropy"):
        logprob = leaf.log_softmax(1).gather(1, others[0][:, None])[:, 0].detach()
        entropy = torch.special.entr(torch.softmax(leaf.detach(), 1)).sum(1)
        return logprob, entropy, *operation.reference(x, *others)[2:]
    return as_tuple(operation.reference(x, *others))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in HERE_RUN
        if (name in OF_LOGITS or kernels()[name].operation.name == "copy")
        and not (kernels()[name].packages or kernels()[name].backend == COMPILED)
        and name not in ("logprob_entropy_torch", "logprob_entropy_grad_torch")  # 0·−inf
    ],
)
@pytest.mark.parametrize("repeats", [1, 411], ids=["narrow", "wide"])
def test_infinities_and_nan_come_out_as_from_pytorch(name: str, repeats: int) -> None:
    kernel = kernels()[name]
    rows = extremes().to(HERE.kind)
    if repeats > 1:
        rows = rows[[0, 3, 6]].repeat_interleave(repeats, dim=1)
        runs_wide = kernel.unsupported(tuple(rows.shape), BF16, HERE) is None
        if narrow(name) or kernel.backend != "triton" or not runs_wide:
            pytest.skip("takes no such rows, or too long")
    if kernel.operation.name.startswith("logprob_entropy"):
        rows = rows[~rows.isposinf().any(1)]  # a probability of inf / inf is no promise
    for dtype in (F32, BF16) if repeats == 1 else (F32,):
        _, *others = kernel.operation.make_inputs(tuple(rows.shape), dtype, HERE.kind, 0)
        x = rows.to(dtype)
        wanted = by_torch(kernel.operation, x, *others)
        answers = as_tuple(kernel(x.clone(), *others))
        close = {"rtol": 1e-4, "atol": 1e-5} if dtype is F32 else {"rtol": 4e-2, "atol": 1e-2}
        for y, due in zip(answers, wanted, strict=True):
            torch.testing.assert_close(y.double(), due, **close, equal_nan=True)


def too_long(name: str, shape: tuple[int, int]) -> bool:
    """Unrolled blocks take ptxas minutes; five stages of a wider row do not fit shared memory."""
    widest = {"fused": 1 << 14, "fused {": 1 << 12}.get(name[:7], shape[1])
    return name == "hybrid_whole" or shape[1] > widest


def test_float64_statistics_leave_only_the_last_rounding() -> None:
    x = torch.randn(2, 9000, generator=torch.Generator().manual_seed(1)).to(HERE.kind)
    right = torch.softmax(x.double(), 1)
    wide = built("online", accumulate="float64")(x).double()
    usual = kernels()["online"](x).double()
    assert ((wide - right) / right).abs().mean() < ((usual - right) / right).abs().mean()
    # at most the odd tie falls to the other side
    assert float((wide != right.float().double()).double().mean()) < 2e-4


@pytest.mark.parametrize("name", [name for name in HERE_RUN if not kernels()[name].packages])
def test_bits_are_repeated_and_a_row_does_not_depend_on_how_many_come_along(name: str) -> None:
    kernel, shape = kernels()[name], (12, 20) if narrow(name) else (12, 300)
    shape = (60, 20) if of_heads(kernel.operation) else shape
    shapes = [shape] if HERE.kind == "cpu" or narrow(name) else [shape, (300, 50_257), (40, 65_536)]
    for shape in shapes:
        if kernel.unsupported(shape, BF16, HERE) is not None or too_long(name, shape):
            continue
        inputs = kernel.operation.make_inputs(shape, BF16, HERE.kind, 5)
        call = kernel.prepare(*inputs)
        first = [y.clone() for y in as_tuple(call(*(x.clone() for x in inputs)))]
        for _ in range(1 if HERE.kind == "cpu" else 50):
            assert_same_bits(as_tuple(call(*(x.clone() for x in inputs))), first)
        if kernel.backend != "triton" or kernel.operation.name.startswith("softmax"):
            continue  # a softmax is asked for it: see test_functions.py
        some = range(20 if of_heads(kernel.operation) else 5)
        part = select_rows(kernel.operation, inputs, range(1) if inputs[0].dim() > 2 else some)
        assert_same_bits(as_tuple(kernel(*part)), [y[: len(part[0])] for y in first])


OF_A_MATRIX = [
    name
    for name in HERE_RUN
    if [array.name for array in kernels()[name].operation.inputs] == ["x"]
    and kernels()[name].backend == "triton"
]


@pytest.mark.parametrize("name", OF_A_MATRIX)
@pytest.mark.parametrize("strides", [(2**30, 1), (1, 2**30)], ids=["rows", "columns"])
def test_offsets_are_64_bit(name: str, strides: tuple[int, int]) -> None:
    kernel = kernels()[name]
    try:  # the last element starts where 32 bits end; most of the memory is never touched
        storage = torch.empty(2**31 + 64, dtype=F16, device=HERE.kind)
    except RuntimeError as error:
        pytest.skip(f"no room for 4 GiB: {error}")
    x = storage.as_strided((3, 40) if strides[1] == 1 else (40, 3), strides)
    x.copy_(torch.randn(x.shape, generator=torch.Generator().manual_seed(0)))
    assert verdict_on(kernel, (x,), kernel) is None


@pytest.mark.parametrize("name", KERNELS)
def test_no_elements_are_an_answer_without_any_package(name: str) -> None:
    kernel = kernels()[name]
    operation = kernel.operation
    for shape in ((0, 16), (16, 0)):
        if of_heads(operation) or (0 in shape[1:] and len(operation.inputs) > 1):
            continue  # no class, no target
        inputs = operation.make_inputs(shape, F32, HERE.kind, 0)
        for call in (kernel, kernel.prepare(*inputs)):
            answers = as_tuple(call(*inputs))
            due = operation.layout(operation.outputs, shape, F32)
            assert [tuple(y.shape) for y in answers] == [size for size, _ in due]


@pytest.mark.skipif(not INTERPRETED, reason="counts are taken under the interpreter")
@pytest.mark.parametrize(("name", "tunables"), [*((n, {}) for n in KERNELS), *SMALL], ids=str)
def test_what_it_declares_to_move_is_what_it_moves(name: str, tunables: dict[str, Any]) -> None:
    kernel = built(name, **tunables)
    heads = of_heads(kernel.operation)
    for shape in [(66, 33)] if heads else [(26, 14), (3, 97) if tunables else (1, 4200)]:
        record = count(name, kernel, shape, torch.float16, HERE)
        if record.method == "none":
            reasons = ("not countable: ", "needs ", "takes ", "on a CPU")
            assert str(record.reason).startswith(reasons)
        elif "naive" not in (name, tunables.get("softmax")) and tunables.get("library") != "math":
            # `naive` counts a row's numbers otherwise, "math" is not one operation
            twice = name == "kl_grad_auto" and shape[1] > 1000  # it declares what a cluster reads
            said = record.difference or "moves what it declares"
            assert (record.difference is None) is not twice, f"{name} at {shape}: {said}"


# PyTorch's own round some 16-bit answers twice; a whole block of 65536 takes ptxas minutes
REAL = [
    name
    for name in HERE_RUN
    if (kernels()[name].backend not in ("torch", "eager", "torchscript") and name != "hybrid_whole")
    or name.startswith("attention")
]
# Peers whose answers of such a dtype are wrong at some of these shapes, where rows say `incorrect`:
# Liger multiplies y, dy and their sum in the dtype of y; fla's gradient misses few elements
WRONG = {"backward_liger": (F16, BF16), "ce_grad_fla": (F32,), "tileops": (F32,)}
OF_SOFTMAX = [
    name
    for name in (*REAL, "naive_script")
    if name in HERE_RUN and kernels()[name].operation.name == "softmax" and not narrow(name)
]


@pytest.mark.gpu
@pytest.mark.timeout(240)  # a hang is a failure, not a wait
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_real_widths_on_a_card(name: str, dtype: torch.dtype) -> None:
    kernel, ran = kernels()[name], 0
    shapes = [(70, cols) for cols in (3, 256, 781, 4096, 32_000, 50_257, 128_256, 262_144)]
    if kernel.operation.name == "softmax" and kernel.backend == "triton":
        shapes += [(300, cols) for cols in (1, 760, 1024, 4095, 12_672, 16_384, 32_776, 65_536)]
        widest = (131_072, 400_000, 524_288, 786_432, 1_000_003, 1 << 20, (1 << 20) + 16)
        shapes += [(rows, cols) for cols in widest for rows in (1, 9)]
    if of_heads(kernel.operation):
        shapes = [(3 * length, length) for length in (1, 2, 127, 1000, 4096)]
    wrong: dict[tuple[int, int], str] = {}
    for shape in shapes:
        if too_long(name, shape) or shape[1] > (4096 if narrow(name) else 1 << 21):
            continue
        if kernel.unsupported(shape, dtype, HERE) is None:
            inputs = kernel.operation.make_inputs(shape, dtype, HERE.kind, 1)
            # a sum in one order over so many tiles is off by more roundings
            factor = 2 if shape[1] > 1 << 19 else 1
            reason = verdict_on(kernel, inputs, kernel.prepare(*inputs), factor)
            wrong |= {shape: reason} if reason else {}
            ran += 1
    if not ran:
        pytest.skip("takes none of these shapes")
    if dtype in WRONG.get(name, ()):
        assert wrong, f"{name} is right in {dtype} everywhere: take it out of WRONG"
    else:
        assert not wrong


@pytest.mark.gpu
@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("name", [name for name in REAL if not narrow(name)])
def test_a_matrix_beyond_two_to_the_31_elements(name: str) -> None:
    kernel = kernels()[name]
    operation = kernel.operation
    if of_heads(operation) or len([a for a in operation.inputs if len(a.shape) == 2]) > 1:
        pytest.skip("several matrices of that size")
    if name == "ce_flag_gems":
        pytest.skip("FlagGems' loss is wrong there, on an H200")
    for shape in ((300_000, 8192), (600_000, 4096), (2100, 1 << 20)):
        if kernel.unsupported(shape, F16, HERE) is None:
            break
    else:
        pytest.skip("refused")
    inputs = operation.make_inputs(shape, F16, HERE.kind, 0)
    boundary = -(-(1 << 31) // shape[1])
    parts = [range(2), range(boundary - 8, boundary + 8), range(shape[0] - 2, shape[0])]
    asked = [select_rows(operation, inputs, part) for part in parts]
    answers = as_tuple(kernel(*inputs))
    for part, given_ in zip(parts, asked, strict=True):
        found = tuple(y[part.start : part.stop] for y in answers)
        assert check(found, given_, operation, backend(kernel)).reason is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", OF_SOFTMAX)
def test_a_prepared_call_allocates_only_its_answer_on_the_current_stream(name: str) -> None:
    kernel, x = kernels()[name], torch.randn(512, 1024, device="cuda")
    if kernel.unsupported((512, 1024), x.dtype, HERE):
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


@pytest.mark.gpu
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", OF_SOFTMAX)
@pytest.mark.parametrize("shape", [(512, 1024), (9, 131072)], ids=str)
def test_replays_of_a_graph_follow_the_input_whatever_runs_between(
    name: str, shape: tuple[int, int]
) -> None:
    kernel = kernels()[name]
    if kernel.unsupported(shape, F32, HERE) or name in ("naive_script", "fused"):
        pytest.skip("refused, or not captured")
    x = torch.randn(*shape, device="cuda")
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


@pytest.mark.gpu
@pytest.mark.timeout(240)
@pytest.mark.parametrize("graphed", [False, True], ids=["launched", "graphed"])
@pytest.mark.parametrize("name", ["cluster", "cooperative"])
def test_two_streams_at_once_each_get_their_own_answers(name: str, graphed: bool) -> None:
    inputs = [torch.randn(40, 131_072, device="cuda") for _ in range(2)]
    call = kernels()[name].prepare(inputs[0])
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


@pytest.mark.gpu
def test_graphs_of_the_compiler_warm_up_record_and_replay_cooperative() -> None:
    x = torch.randn(3, 131_072, device="cuda")
    call = kernels()["cooperative"].prepare(x)  # its words come into being in the warm-up
    schema = "(Tensor x) -> Tensor"
    operator = torch.library.custom_op("tests::cooperative", call, mutates_args=(), schema=schema)
    operator.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: 2 * operator(x), mode="reduce-overhead", fullgraph=True)
    for _ in range(5):
        torch.testing.assert_close(compiled(x.normal_()), 2 * torch.softmax(x, dim=1))


@pytest.mark.gpu
def test_the_widest_row_that_cooperative_does_not_refuse_runs() -> None:
    kernel, cols = kernels()["cooperative"], 2 * (HERE.sms or 0) * 8192
    assert kernel.unsupported((3, cols), F32, HERE) is None
    inputs = kernel.operation.make_inputs((3, cols), F32, "cuda", 0)
    assert verdict_on(kernel, inputs, kernel, 2) is None
    assert "at once" in str(kernel.unsupported((3, cols + 16), F32, HERE))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_the_gate_takes_the_right_answer_and_no_other(operation: str, dtype: torch.dtype) -> None:
    of = OPERATIONS[operation]
    inputs = of.make_inputs((120, 40), dtype, HERE.kind, 0)
    due = of.layout(of.outputs, (120, 40), dtype)
    right = [y.to(own) for y, (_, own) in zip(as_tuple(of.reference(*inputs)), due, strict=True)]
    wrong = {
        "of zeros": [torch.zeros_like(y) for y in right],
        "a fiftieth too large": [y * 1.02 for y in right],
        "of other rows": [y.flip(0) for y in right],
        "of the squared input": as_tuple(of.reference(inputs[0].square(), *inputs[1:])),
    }
    assert check(tuple(right), inputs, of, "torch").reason is None
    for kind, answer in wrong.items():
        answer = tuple(y.to(own) for y, (_, own) in zip(answer, due, strict=True))
        assert check(answer, inputs, of, "torch").reason is not None, f"an answer {kind} passes"


def test_pytorchs_gradient_is_held_to_what_rounded_log_probabilities_give() -> None:
    kernel = kernels()["ce_grad_torch"]
    operation = kernel.operation
    logits, target = operation.make_inputs((40, 50_000), BF16, "cpu", 0)
    logp = logits.double().log_softmax(1)
    rounded = logp.to(BF16).double().exp()  # as a GPU keeps it for the backward pass
    rounded.scatter_add_(1, target[:, None], torch.full((40, 1), -1.0, dtype=F64))
    answer = -logp.gather(1, target[:, None])[:, 0].float(), rounded.to(BF16)
    assert check(answer, (logits, target), operation, kernel.backend).reason is None
    assert "1.5 spacings" in str(check(answer, (logits, target), operation, "triton").reason)


def test_kernels_run_here() -> None:
    assert len(HERE_RUN) > (60 if INTERPRETED or HERE.kind == "cuda" else 20)
