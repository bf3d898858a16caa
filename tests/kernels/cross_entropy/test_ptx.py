"""The PTX of cross-entropy's kernels for an H200; no GPU is needed (`make test-ptx`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from kernels.cross_entropy import rows
from kernels.cross_entropy.rows import (
    AT_ONCE,
    Options,
    backward,
    both,
    forward,
    logprob_entropy,
    reduce_losses,
)
from kernels.log_softmax.rows import log_softmax
from tests.kernels.conftest import H200
from tests.kernels.test_ptx import to_ptx

pytestmark = pytest.mark.ptx

POINTERS = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.float64: "*fp64"}
POINTERS |= {torch.int64: "*i64"}


class Launches(list[tuple[str, str, Any]]):
    """Stands for `launch`: compiles each, and keeps its kernel's name, PTX and metadata.

    Attributes:
        whole: Whether down to PTX; else Triton only reads each kernel, which takes a tenth.
    """

    whole = True

    def __call__(
        self,
        kernel: Any,
        grid: Sequence[int],
        arguments: Sequence[Any],
        constants: Mapping[str, Any],
        **options: Any,
    ) -> None:
        types: dict[str, str] = {}
        fixed, attributes = dict(constants), {}
        for place, (parameter, given) in enumerate(zip(kernel.arg_names, arguments, strict=False)):
            whole = None
            if given is None or (isinstance(given, int) and given == 1):
                fixed[parameter] = given
            elif isinstance(given, torch.Tensor):
                types[parameter], whole = POINTERS[given.dtype], given.data_ptr() % 16 == 0
            elif isinstance(given, float):
                types[parameter] = "fp64"
            else:
                types[parameter], whole = "i32", given % 16 == 0
            if whole:
                attributes[(place,)] = [["tt.divisibility", 16]]
        signature = {p: "constexpr" if p in fixed else types[p] for p in kernel.arg_names}
        source, target = ASTSource(kernel, signature, fixed, attributes), GPUTarget("cuda", 90, 32)
        if self.whole:
            self.append((kernel.fn.__name__, *to_ptx(source, options)))
            return
        backend, context = make_backend(target), ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        parsed = backend.parse_options(options)
        implementations = backend.get_codegen_implementation(parsed)
        source.make_ir(target, parsed, implementations, backend.get_module_map(), context)
        self.append((kernel.fn.__name__, "", None))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Launches:
    made = Launches()
    monkeypatch.setattr(rows, "launch", made)
    monkeypatch.setattr(rows, "device_of", lambda x: H200)
    return made


def point(
    m: int, n: int, dtype: torch.dtype, stride: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = torch.empty(m, stride or n, dtype=dtype)[:, :n]
    return logits, torch.zeros(m, dtype=torch.int64), torch.empty(m), torch.empty(m)


def widths(ptx: str, what: str) -> set[str]:
    """Of the loads or stores of global memory, how wide they are, hints left out."""
    return {found.rpartition(".global")[2] for found in re.findall(rf"{what}\.global[.:\w]*", ptx)}


def matrix_moves(ptx: str, what: str) -> int:
    return len(re.findall(rf"{what}\.global[.:\w]*\.v4\.b32", ptx))


@pytest.mark.parametrize(
    ("n", "strided", "dtype"),
    [(1, False, torch.float64), (33, False, torch.bfloat16), (20_000, True, torch.float32)],
)
def test_rows_compile_however_they_are_read(
    n: int, strided: bool, dtype: torch.dtype, launched: Launches
) -> None:
    launched.whole = False
    storage = torch.empty(2 * 4 * n, dtype=dtype)
    logits = storage.view(4, -1)[:, ::2] if strided else storage[: 4 * n].view(4, n)
    target, loss, lse = torch.zeros(4, dtype=torch.int64), torch.empty(4), torch.empty(4)
    options, weight = Options(0, 0.1, 30.0, 0.7, 1e-4), torch.empty(n)
    for some, of_class in ((Options(), None), (options, weight)):
        forward(logits, target, some, of_class, loss=loss, lse=lse)
        backward(logits, target, lse, loss, some, of_class, dlogits=logits)
        both(logits, target, None, some, of_class, loss=loss, lse=lse, dlogits=logits)
    forward(logits, target, loss=loss, lse=None)
    backward(logits, target, lse, loss[0], dlogits=logits, mean=True)
    reduce_losses(loss, target, Options(), None, True, out=loss, kept=lse)
    logprob_entropy(logits, target, logprob=loss, entropy=lse)
    log_softmax(logits, y=logits)
    # of few wide rows programs share one, and a gradient with its loss is a launch of its own
    assert len(launched) == 11 + 10 * strided


ODD_OR_NOT = pytest.mark.parametrize(
    ("n", "stride", "dtype"),
    [(50257, 50304, torch.bfloat16), (1001, 0, torch.bfloat16), (128256, 0, torch.float32)],
)


@ODD_OR_NOT
def test_logits_are_read_by_whole_vectors_wherever_a_row_begins(
    n: int, stride: int, dtype: torch.dtype, launched: Launches
) -> None:
    logits, target, loss, lse = point(4096, n, dtype, stride)
    forward(logits, target, loss=loss, lse=lse)
    if n == 50257:
        logprob_entropy(logits, target, logprob=loss, entropy=lse)
    ends = bool(n % (16 // dtype.itemsize))
    single = r"ld\.global\.b16" if dtype == torch.bfloat16 else r"ld\.global\.b32"
    for _, ptx, _ in launched:
        assert matrix_moves(ptx, "ld") >= 4
        # the target's logit, and an element or two of a row's ends
        assert len(re.findall(single, ptx)) <= (3 if ends else 1)
        assert ".local" not in ptx, "registers were spilled"
    # else what was fused for one kernel, and not for another, would round unlike it
    assert [ptx.count("fma.rn.f32") > 0 for _, ptx, _ in launched] == [False, True][: len(launched)]


@ODD_OR_NOT
def test_gradients_are_moved_by_whole_vectors(
    n: int, stride: int, dtype: torch.dtype, launched: Launches
) -> None:
    logits, target, loss, lse = point(4096, n, dtype, stride)
    backward(logits, target, lse, loss, dlogits=logits)
    both(logits, target, None, loss=loss, lse=lse, dlogits=logits)
    for kernel, ptx, _ in launched:
        reads, writes = matrix_moves(ptx, "ld"), matrix_moves(ptx, "st")
        # of a gradient twice: with a target in the tile, or none
        assert (2 * reads >= writes > 0) if kernel == "_elements" or n == 1001 else writes == 0
        assert len(re.findall(r"st\.global\.b16", ptx)) <= 1, "cut stores"
        assert ".local" not in ptx


@pytest.mark.parametrize("n", [256, 2048])
def test_narrow_rows_are_a_warps_own(n: int, launched: Launches) -> None:
    logits, target, loss, lse = point(4096, n, torch.bfloat16)
    forward(logits, target, loss=loss, lse=lse)
    ((_, ptx, _),) = launched
    assert ptx.rindex("ld.global") < ptx.index("bar.sync"), "warps wait for each other"
    assert matrix_moves(ptx, "ld") == max(AT_ONCE, -(-n // 256)), "of one row, or of several"


def test_few_rows_are_shared_and_joined(launched: Launches) -> None:
    launched.whole = False
    for m, kernels in ((4096, ["_rows"]), (64, ["_rows", "_join"])):
        launched.clear()
        logits, target, loss, lse = point(m, 128256, torch.bfloat16)
        forward(logits, target, loss=loss, lse=lse)
        assert [name for name, _, _ in launched] == kernels


@pytest.mark.parametrize(
    "call",
    [
        lambda x, t, a, b, o: forward(x, t, o, loss=a, lse=b),
        lambda x, t, a, b, o: backward(x, t, b, a, o, dlogits=x),
    ],
)
def test_an_option_that_is_off_costs_no_exponential(
    call: Callable[..., None], launched: Launches
) -> None:
    logits, target, loss, lse = point(4096, 128256, torch.bfloat16)
    all_on = Options(0, 0.1, 30.0, 0.7, 1e-4)
    for options in (Options(), Options(label_smoothing=0.1, z_loss=1e-4, temperature=0.7), all_on):
        call(logits, target, loss, lse, options)
    plain, linear, capped = (ptx.count("ex2.approx") for _, ptx, _ in launched)
    assert plain == linear < capped
    assert not re.search(r"div\.[.\w]*f32", launched[0][1])
