"""Rows of logits in clusters: their answers on a card, their cuts anywhere."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch

from kernels.cross_entropy import auto, cluster
from kernels.cross_entropy.auto import CeAuto, CeGradAuto, chosen, clustered
from kernels.cross_entropy.cluster import (
    CeCluster,
    CeGradCluster,
    LogprobEntropyCluster,
    RowCluster,
    has_narrow,
    narrow_cut,
)
from kernels.cross_entropy.rows import PLAIN, Options, Results
from kernels.device import Device, cuda_device
from kernels.kernel import as_tuple
from kernels.log_softmax.variants import LogSoftmaxCluster, LogSumExpCluster
from tests.kernels.conftest import H200
from tests.kernels.cross_entropy.test_rows import case, wanted

pytest.importorskip("triton")

CUDA = torch.cuda.is_available()
OPTIONS = (
    *(PLAIN, Options(label_smoothing=0.1, z_loss=1e-2, temperature=0.7)),
    *(Options(softcap=5.0, label_smoothing=0.1), Options(softcap=30.0, z_loss=1e-4)),
)
# rows, columns, programs, warps: of one lane, one warp, one program, several; odd and not
CUTS: tuple[tuple[int, int, int | None, int | None], ...] = (
    *((3, 4, 1, 1), (4, 33, 1, 1), (5, 1000, 1, 4), (5, 1001, 2, 2), (4, 2048, 2, 4)),
    *((2, 5003, 4, 16), (3, 777, 16, 1), (3, 1, 1, 1)),
)
# Rows of which a program may hold several, and wide ones, cut as they come
NARROW = ((1, 8), (3, 40), (70, 256), (9, 520), (5, 1000), (7, 2048))
WIDE = (
    *((m, n) for n in (3, 256, 781, 4096, 32000, 32776, 50257) for m in (9, 300)),
    *((m, n) for n in (65536, 128256, 151936, 262144, 261999) for m in (1, 9)),
)
cards = pytest.mark.gpu
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where tensors go; on a CPU rows are cut as for an H200, and nothing is launched."""
    if CUDA:
        return "cuda"
    for module in (auto, cluster):
        monkeypatch.setattr(module, "device_of", lambda x: H200)
    return "cpu"


def logits_of(
    rows: int, cols: int, dtype: torch.dtype, place: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of `case` with the first and last column as targets, and some −inf in wide rows."""
    logits, target = case(rows, cols, dtype, place, seed=cols)
    target[0], target[-1] = 0, cols - 1
    if cols > 1000:
        logits[-1, : cols - 3] = -torch.inf
    return logits, target


def numbers(rows: int, place: str) -> torch.Tensor:
    return torch.full((rows,), 7.0, device=place)


def near(found: torch.Tensor, reference: torch.Tensor) -> None:
    rtol = {torch.float32: 3e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[found.dtype]
    torch.testing.assert_close(found.double(), reference, rtol=rtol, atol=3e-6, equal_nan=True)


def same(found: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the bits are the same; NaN is NaN."""
    return torch.equal(found.isnan(), other.isnan()) and torch.equal(
        found.nan_to_num(), other.nan_to_num()
    )


@cards
@every_option
@dtypes
def test_loss_and_gradient_are_those_of_float64(
    dtype: torch.dtype, options: Options, place: str
) -> None:
    for rows, cols, programs, warps in (*CUTS, *((m, n, None, None) for m, n in NARROW + WIDE)):
        logits, target = logits_of(rows, cols, dtype, place)
        kernel, alone = CeGradCluster(programs, warps), CeCluster(programs, warps)
        each, one = torch.linspace(-1, 2, rows, device=place), torch.full((1,), 0.3).to(place)
        for dloss in (each, one) if programs == 2 else (each,):
            loss, lse = numbers(rows, place), numbers(rows, place)
            dlogits = torch.full_like(logits, 7)
            given: dict[str, Any] = {"target": target, "dloss": dloss, "loss": loss, "lse": lse}
            kernel.run(logits, options, **given, dlogits=dlogits)
            right = wanted(logits, target, options, dloss=dloss)
            for found, reference in zip((loss, lse, dlogits), right, strict=True):
                near(found, reference)
        over = logits.clone()
        kernel.run(over, options, **given, dlogits=over)
        assert same(over, dlogits), "in place it is another one"
        found, lse = numbers(rows, place), None if programs else numbers(rows, place)
        alone.run(logits, options, target=target, loss=found, lse=lse)
        near(found, right[0])
        if lse is not None:
            near(lse, right[1])
        if programs and options == PLAIN:  # else the compiler contracts the two kernels apart
            assert same(found, loss), "without a gradient it is another one"


@cards
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_log_softmax_logsumexp_and_entropy_are_those_of_float64(
    dtype: torch.dtype, place: str
) -> None:
    cuts = (*CUTS, *((rows, cols, None, None) for rows, cols in NARROW))
    for (rows, cols, programs, warps), temperature in product(cuts, (1.0, 0.7)):
        logits, target = logits_of(rows, cols, dtype, place)
        reference = (logits.double() / temperature).log_softmax(1)
        inside = (target >= 0) & (target < cols)
        chosen = reference.gather(1, torch.where(inside, target, 0)[:, None]).squeeze(1)
        logprob, entropy, lse, alone = (numbers(rows, place) for _ in range(4))
        options = Options(temperature=temperature)
        LogprobEntropyCluster(programs, warps).run(
            *(logits, options), target=target, logprob=logprob, entropy=entropy, lse=lse
        )
        near(logprob, chosen.masked_fill(~inside, math.nan))
        near(entropy, -(reference.exp() * reference).nan_to_num(0.0).sum(1))
        near(lse, (logits.double() / temperature).logsumexp(1))
        y = torch.full_like(logits, 7)
        LogSoftmaxCluster(programs, warps).run(logits, options, y=y)
        near(y, reference)
        LogSumExpCluster(programs, warps).run(logits, options, lse=alone)
        assert torch.equal(alone, lse)


def test_narrow_rows_are_whole_vectors_and_nothing_as_wide_is_written(place: str) -> None:
    wide = torch.zeros(4, 4096, dtype=torch.bfloat16, device=place)
    for x, several in (
        *((wide[:, :2048], True), (wide[:, :1000], True), (wide[:, 8:1000], True)),
        *((wide[:, :2056], False), (wide[:, :1001], False), (wide[:, 1:1001], False)),
        *((wide[:, :1000:2], False), (wide[:0, :1000], False)),
    ):
        assert has_narrow(x) == several, (x.shape, x.stride())
    for cols, lanes, chunks in ((8, 8, 1), (256, 8, 4), (512, 8, 8), (1000, 16, 8), (2048, 32, 8)):
        plan = narrow_cut(cols // 8, 8, 2)
        assert (plan.chunk // 8, plan.chunks) == (lanes, chunks)


@cards
@pytest.mark.parametrize(
    "kernel", [CeGradCluster(2, 2), CeGradCluster(1, 1), CeGradCluster()], ids=str
)
@pytest.mark.parametrize("options", [PLAIN, Options(softcap=5.0)], ids=["plain", "capped"])
@dtypes
def test_infinities_and_nan_give_what_torch_gives_and_a_capped_infinity_is_a_number(
    kernel: CeGradCluster, options: Options, dtype: torch.dtype, place: str
) -> None:
    for cols in (1000, 1001):
        logits = torch.randn(6, cols, generator=torch.Generator().manual_seed(0)).to(dtype)
        logits[0] = -torch.inf
        logits[1, 500] = torch.inf
        logits[2, 999] = torch.nan
        logits[3, 7] = -torch.inf  # the target's
        logits[4, :900] = -torch.inf
        logits[5] = torch.nan  # ignored
        target = torch.tensor([3, 500, 0, 7, 950, -100]).to(place)
        logits = logits.to(place)
        loss, gradient = numbers(6, place), torch.empty_like(logits)
        kernel.run(logits, options, target=target, loss=loss, dlogits=gradient)
        right = wanted(logits, target, options)
        near(loss, right[0])
        near(gradient, right[2])
        CeCluster(kernel.programs, kernel.num_warps).run(logits, options, target=target, loss=loss)
        near(loss, right[0])
        if options == PLAIN:
            LogSumExpCluster(kernel.programs, kernel.num_warps).run(logits, lse=loss)
            near(loss, logits.double().logsumexp(1))


@cards
@pytest.mark.parametrize("softcap", [1.0, 30.0, 1e6])
def test_a_capped_logit_has_an_error_of_a_few_spacings(softcap: float) -> None:
    edges = torch.tensor([0.0, 1e-30, 8.75, 8.7, 9.1, 1e4])
    x = torch.cat([edges, torch.linspace(0, 9, 20_001), torch.logspace(-20, 1.5, 20_001)])
    x = torch.cat([x, -x]).double().mul(softcap).float().to("cuda")[:, None]
    loss, lse = numbers(len(x), "cuda"), numbers(len(x), "cuda")
    target = torch.zeros(len(x), dtype=torch.int64, device="cuda")
    CeCluster().run(x, Options(softcap=softcap), target=target, loss=loss, lse=lse)
    right = softcap * torch.tanh(x[:, 0].double() / softcap)  # a row of one logit is its own lse
    spacing = torch.finfo(torch.float32).eps
    torch.testing.assert_close(lse.double(), right, rtol=8 * spacing, atol=0)


def test_where_it_does_not_fit_is_said(place: str) -> None:
    device = cuda_device(0) if CUDA else H200
    half = torch.bfloat16
    kernels: tuple[RowCluster, ...] = (CeCluster(), CeGradCluster(), LogSoftmaxCluster())
    for kernel in kernels:
        assert kernel.unsupported((8192, 262144), half, device) is None
        assert kernel.unsupported((8192, 262144), torch.float32, device) is None
        assert kernel.unsupported((1, 50257), half, device) is None
        assert "do not fit" in str(kernel.unsupported((1, 1 << 22), half, device))
        cuts = {kernel.plan((rows, 50257), half, 8, device) for rows in (1, 64, 8192)}
        assert len(cuts) == 1, "a row's bits depend on how many rows there are"
        assert "clusters" in str(kernel.unsupported((1, 64), half, Device("cuda", "old")))
    plan = CeCluster(16, 8).plan((8192, 4096), half, 8, device)
    assert plan is not None
    assert (plan.programs, plan.warps) == (16, 8)
    logits = torch.zeros(2, 64, device=place)
    assert clustered(logits, Results(dlogits=logits))
    assert not clustered(logits, Results(dlogits=logits), weight=logits[0])
    wide = logits[:, :1].to(half).expand(2, 600_000)
    assert not clustered(wide, Results()), "read by one element, its rows do not fit"


def test_auto_takes_the_cluster_where_it_was_the_faster_one() -> None:
    half, old = torch.bfloat16, Device("cuda", "NVIDIA A100", (8, 0), sms=108)
    loss, both = CeAuto(), CeGradAuto()
    for one, shape, device, width, by_cluster in (
        *((loss, (1, 32000), H200, 8, True), (loss, (8192, 128256), H200, 8, True)),
        *((loss, (32768, 2048), H200, 8, True), (both, (32768, 2048), H200, 8, True)),
        *((loss, (32768, 2047), H200, 8, False), (both, (32768, 2047), H200, 8, True)),
        *((loss, (8, 1 << 21), H200, 8, False), (both, (8, 1 << 21), H200, 8, False)),
        *((loss, (8, 1 << 20), H200, 1, False), (loss, (8, 128256), old, 8, False)),
    ):
        kernel = chosen(one, shape, half, device, width, shape[1] % 8 == 0)
        assert kernel is (one.cluster if by_cluster else one.online), (one, shape, width)
        assert one.unsupported(shape, half, device) is None


def test_which_kernel_reads_rows_once_follows_from_width_and_dtype(place: str) -> None:
    for cols, dtype, by_cluster in (
        *((2047, torch.bfloat16, False), (2049, torch.bfloat16, True)),
        *((2048, torch.bfloat16, True), (1001, torch.float32, False)),
        *((1 << 17, torch.float32, True), (1 << 21, torch.float32, False)),
        (4096, torch.float64, False),
    ):
        x = torch.empty(2, cols, dtype=dtype, device=place)
        assert clustered(x, Results()) == by_cluster, (cols, dtype)
    wide = torch.empty(2, 4096, dtype=torch.bfloat16, device=place)
    assert clustered(wide, Results(y=wide))
    assert not clustered(wide[:, :2048], Results(y=wide[:, :2048]))
    assert not clustered(wide, Results(), torch.ones(4096, device=place))


@cards
@pytest.mark.parametrize("cols", [40, 256, 2048, 50257])
def test_the_same_bits_every_time_and_whatever_rows_come_along(cols: int) -> None:
    logits, target = logits_of(300, cols, torch.bfloat16, "cuda")
    for kernel in (CeGradCluster(), CeCluster()):
        first = as_tuple(kernel(logits, target))
        for rows in (*[300] * 50, 7, 2):
            for found, whole in zip(
                as_tuple(kernel(logits[:rows], target[:rows])), first, strict=True
            ):
                assert same(found, whole[:rows])
