"""The streaming kernels of `kernels.cross_entropy.rows` against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.worker.counting import requested
from experiments.worker.gate import check
from kernels.cross_entropy.library import CeGradTorch
from kernels.cross_entropy.online import CeOnline
from kernels.cross_entropy.rows import (
    PLAIN,
    Options,
    Tiles,
    backward,
    cut,
    reduce_losses,
    run,
    scale_of_mean,
)
from kernels.vectors import layout
from tests.kernels.variants import DTYPES, LAYOUTS, lay_out, name

INF, NAN = float("inf"), float("nan")
SMALL = Tiles(block_size=256, num_warps=1)  # several tiles and chunks of a row of 2500
ALL = Options(0, 0.1, 5.0, 0.7, 1e-2)
Answer = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # loss, lse, gradient


def z_of(x: torch.Tensor, options: Options) -> torch.Tensor:
    capped = options.softcap * torch.tanh(x / options.softcap) if options.softcap else x
    return capped / options.temperature


def wanted(
    logits: torch.Tensor,
    target: torch.Tensor,
    options: Options = PLAIN,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
) -> Answer:
    """Loss, lse and gradient by PyTorch, in float64; NaN where a target is no class."""
    leaf = logits.double().requires_grad_()
    z = z_of(leaf, options)
    lse = z.logsumexp(1)
    ignored = target == options.ignore_index
    wrong = ~ignored & ((target < 0) | (target >= logits.shape[1]))
    loss = F.cross_entropy(
        z,
        target.masked_fill(wrong, 0),
        weight=None if weight is None else weight.double(),
        ignore_index=options.ignore_index,
        label_smoothing=options.label_smoothing,
        reduction="none",
    )
    loss = loss + torch.where(ignored, 0.0, options.z_loss * lse.square())
    over = torch.ones_like(loss) if dloss is None else dloss.double().expand_as(loss)
    (gradient,) = torch.autograd.grad(loss, leaf, over)
    gradient = gradient.masked_fill(ignored[:, None], 0).masked_fill(wrong[:, None], NAN)
    return loss.detach().masked_fill(wrong, NAN), lse.detach().masked_fill(ignored, 0), gradient


def of_rows(x: torch.Tensor) -> torch.Tensor:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.full((x.shape[0],), NAN, dtype=wide, device=x.device)


def separately(
    logits: torch.Tensor,
    target: torch.Tensor,
    options: Options = PLAIN,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
    tiles: Tiles = Tiles(),  # noqa: B008, frozen
) -> Answer:
    loss, lse, dlogits = of_rows(logits), of_rows(logits), torch.empty_like(logits)
    run(logits, options, target=target, weight=weight, loss=loss, lse=lse, tiles=tiles)
    backward(logits, target, lse, dloss, options, weight, dlogits=dlogits)
    return loss, lse, dlogits


def in_place(
    logits: torch.Tensor,
    target: torch.Tensor,
    options: Options = PLAIN,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
) -> Answer:
    loss, lse, over = of_rows(logits), of_rows(logits), logits.clone()
    given = {"target": target, "weight": weight, "dloss": dloss}
    run(over, options, **given, loss=loss, lse=lse, dlogits=over)
    return loss, lse, over


def assert_close(found: Answer, right: Answer, dtype: torch.dtype) -> None:
    fine = 1e-10 if dtype == torch.float64 else 2e-5
    for y, reference in zip(found[:2], right[:2], strict=True):
        torch.testing.assert_close(y.double(), reference, rtol=fine, atol=fine, equal_nan=True)
    # one rounding to the dtype, or the interpreter's cut of bfloat16
    rtol = fine + torch.finfo(dtype).eps
    atol = fine + torch.finfo(dtype).smallest_normal
    torch.testing.assert_close(found[2].double(), right[2], rtol=rtol, atol=atol, equal_nan=True)


def case(
    rows: int, cols: int, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and targets; of more than three rows, one is ignored and one has no class."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, cols, generator=generator, dtype=torch.float64) * 3
    target = torch.randint(max(cols, 1), (rows,), generator=generator)
    if rows > 3:
        target[1:3] = torch.tensor([-100, cols])
    return logits.to(device, dtype), target.to(device)


CUDA = torch.cuda.is_available()
widths = st.sampled_from((1, 2, 13, 16, 33, 250, 1001, 2500))
if CUDA:
    widths |= st.sampled_from((2048, 2049, 16_384, 16_385, 50_257, 128_256, 262_144))
    widths |= st.integers(1, 70_000)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("dtype", DTYPES, ids=name)  # apart: on a card nearly each example compiles
@settings(max_examples=20 if CUDA else 6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(0, 70 if CUDA else 6),
    cols=widths,
    options=st.builds(
        Options,
        ignore_index=st.sampled_from((-100, 0, 2)),
        label_smoothing=st.sampled_from((0.0, 0.1, 1.0)),
        softcap=st.sampled_from((0.0, 5.0)),
        temperature=st.sampled_from((1.0, 0.7)),
        z_loss=st.sampled_from((0.0, 1e-2)),
    ),
    tiles=st.sampled_from((Tiles(), SMALL)),
    layout=st.sampled_from(LAYOUTS),
    weighted=st.booleans(),
    dloss=st.sampled_from(("ones", "one", "each")),
    seed=st.integers(0, 99),
)
def test_loss_and_gradient_with_any_options_are_pytorchs(
    device: str,
    rows: int,
    cols: int,
    dtype: torch.dtype,
    options: Options,
    tiles: Tiles,
    layout: str,
    weighted: bool,
    dloss: str,
    seed: int,
) -> None:
    logits, target = case(rows, cols, dtype, device, seed)
    logits = lay_out(logits, layout)
    torch.manual_seed(seed)
    weight = torch.rand(cols, device=device) if weighted else None
    given = {"ones": None, "one": torch.randn(1), "each": torch.randn(rows)}[dloss]
    over = None if given is None else given.to(device)
    right = wanted(logits, target, options, weight, over)
    assert_close(separately(logits, target, options, weight, over, tiles), right, dtype)
    assert_close(in_place(logits, target, options, weight, over), right, dtype)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 5e-7), (torch.float64, 1e-13)])
def test_a_capped_logit_keeps_its_digits_however_small(
    device: str, dtype: torch.dtype, rtol: float
) -> None:
    logits = torch.logspace(-6, 2.5, 200, dtype=dtype, device=device)[:, None]  # z is the lse
    target, options = torch.zeros(200, dtype=torch.int64, device=device), Options(softcap=30.0)
    lse = separately(logits, target, options)[1]
    right = z_of(logits.double(), options)[:, 0]
    torch.testing.assert_close(lse.double(), right, rtol=rtol, atol=0)


@pytest.mark.parametrize("cols", [300, 16_401])
def test_a_gradient_and_log_softmax_keep_their_digits_however_large_the_logits(
    device: str, cols: int
) -> None:
    logits, target = case(3, cols, torch.float32, device)
    logits += 1e4  # a float32 near it has a spacing of 1e-3
    found, right = in_place(logits, target)[2].double(), wanted(logits, target)[2]
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-12)
    y = torch.empty_like(logits)
    run(logits, y=y)
    torch.testing.assert_close(y.double(), logits.double().log_softmax(1), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("cols", "dtype"), [(16_401, torch.bfloat16), (24_576, torch.float32)])
def test_wide_rows_of_which_a_tile_is_a_part(device: str, cols: int, dtype: torch.dtype) -> None:
    logits, target = case(3, cols, dtype, device)
    target[1] = -100
    right = wanted(logits, target)
    assert_close(separately(logits, target), right, dtype)
    assert_close(in_place(logits, target), right, dtype)


@pytest.mark.parametrize("cols", [5, 300, 16_401])
def test_infinite_and_missing_numbers_are_pytorchs(device: str, cols: int) -> None:
    logits, target = case(9, cols, torch.float32, device)
    target[:] = cols // 2
    logits[0, 1:] = -INF  # but one
    logits[1] = -INF
    logits[2, cols // 2] = -INF  # the target's
    logits[3, cols - 1] = INF
    logits[4, cols // 2] = INF
    logits[5, 0] = NAN
    logits[6] = 3e38
    logits[7] = -3e38
    logits[8], target[8] = NAN, -100
    right = wanted(logits, target)
    loss, lse, dlogits = separately(logits, target)
    torch.testing.assert_close(loss.double(), right[0], equal_nan=True, rtol=1e-5, atol=1e-5)
    some = [0, 1, 2, 3, 4, 5, 8]  # an lse of 3e38 keeps nothing of the sum
    torch.testing.assert_close(
        dlogits[some].double(), right[2][some], equal_nan=True, rtol=1e-5, atol=1e-6
    )
    again = in_place(logits, target)
    torch.testing.assert_close(again[0], loss, equal_nan=True, rtol=0, atol=1e-5)
    # from the maximum, not from an lse
    torch.testing.assert_close(again[2].double(), right[2], equal_nan=True, rtol=1e-5, atol=1e-6)
    assert loss[2] == INF
    assert lse[1] == -INF


@pytest.mark.parametrize(
    ("rows", "cols", "options"),
    [
        *((3, 33, ALL), (3, 2049, PLAIN), (3, 2049, ALL), (3, 16_401, ALL)),
        *(pytest.param(2000, n, PLAIN, marks=pytest.mark.gpu) for n in (1001, 50_257, 128_256)),
    ],
)
def test_a_rows_bits_depend_neither_on_m_nor_on_who_reads_it(
    device: str, rows: int, cols: int, options: Options
) -> None:
    logits, target = case(rows, cols, torch.bfloat16, device)
    alone = separately(logits, target, options)
    # so few that programs share a row, and more
    for few in (1, 3, 64, 700, rows) if rows > 3 else (1,):
        some = separately(logits[:few], target[:few], options)
        for a, b in zip(alone, some, strict=True):
            assert torch.equal(a[:few].nan_to_num(), b.nan_to_num())
    few = min(rows, 9)
    for split in (2, 16):
        shared = separately(logits[:few], target[:few], options, tiles=Tiles(split=split))
        for a, b in zip(alone, shared, strict=True):
            assert torch.equal(a[:few].nan_to_num(), b.nan_to_num())
    answers = []
    for split in (1, 4):
        outputs = {kind: of_rows(logits[:few]) for kind in ("logprob", "entropy", "lse")}
        run(logits[:few], target=target[:few], **outputs, tiles=Tiles(split=split))
        answers.append(outputs)
    for kind, found in answers[0].items():
        assert torch.equal(found.nan_to_num(), answers[1][kind].nan_to_num())


def test_a_view_that_begins_between_vectors_is_read_where_it_lies(device: str) -> None:
    storage, target = case(9, 1000, torch.bfloat16, device)
    for start, rows, cols in ((1, 5, 1001), (3, 4, 2048), (5, 1, 33), (3, 7, 5)):
        logits = storage.flatten()[start : start + rows * cols].view(rows, cols)
        chosen = target[:rows] % cols
        assert layout(logits).vector == (8 if cols > 16 else 1)
        assert_close(separately(logits, chosen), wanted(logits, chosen), torch.bfloat16)


def test_no_column_gives_what_an_empty_sum_does(device: str) -> None:
    logits, target = torch.empty(3, 0, device=device), torch.zeros(3, dtype=torch.int64).to(device)
    loss, lse, _ = separately(logits, target)
    assert loss.isnan().all()
    assert (lse == -INF).all()
    run(logits, y=torch.empty_like(logits))


@pytest.mark.gpu
@pytest.mark.timeout(240)
@pytest.mark.parametrize("cols", [50_257, 262_144])
def test_more_than_two_to_the_31_elements(cols: int) -> None:
    if torch.cuda.mem_get_info()[0] < 30 << 30:
        pytest.skip("needs 30 GiB of free device memory")
    rows = (1 << 31) // cols + 70
    logits = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)
    target = torch.randint(cols, (rows,), device="cuda")
    loss, lse = of_rows(logits), of_rows(logits)
    parts = [slice(0, 2), slice((1 << 31) // cols - 2, (1 << 31) // cols + 2), slice(-2, None)]
    right = [wanted(logits[part], target[part]) for part in parts]
    run(logits, target=target, loss=loss, lse=lse)
    before = logits.clone()
    backward(logits, target, lse, None, dlogits=logits)
    for part, answer in zip(parts, right, strict=True):
        assert_close((loss[part], lse[part], logits[part]), answer, torch.bfloat16)
    run(before, target=target, loss=loss, lse=lse, dlogits=before)
    for part, answer in zip(parts, right, strict=True):
        assert_close((loss[part], lse[part], before[part]), answer, torch.bfloat16)


@pytest.mark.parametrize("rows", [0, 1, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_reductions_are_pytorchs(device: str, rows: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    target = torch.randint(0, 7, (rows,), generator=generator).to(device)
    weight = torch.rand(7, generator=generator).to(device) if weighted else None
    given, counts = (target, Options(ignore_index=3), weight), target != 3
    loss = torch.where(counts, torch.rand(rows, generator=generator).to(device), 0.0)
    parts = counts.double() if weight is None else torch.where(counts, weight[target].double(), 0)
    out, kept = torch.empty(1, device=device), torch.zeros(rows + 1, device=device)
    reduce_losses(loss, *given, False, out=out)
    torch.testing.assert_close(out[0].double(), loss.double().sum())
    reduce_losses(loss, *given, True, out=out, kept=kept)
    mean = loss.double().sum() / parts.sum()
    torch.testing.assert_close(out[0].double(), mean, equal_nan=True)
    scale_of_mean(*given, scale=out)
    torch.testing.assert_close(out[0].double(), 1 / parts.sum())
    assert torch.equal(kept[rows:], out)
    assert not kept[:rows].any()


@given(
    cols=st.integers(1, 1 << 21),
    vector=st.sampled_from((1, 2, 4, 8)),
    warps=st.sampled_from((None, 1, 8)),
    whole=st.booleans(),
)
def test_a_cut_covers_the_row(cols: int, vector: int, warps: int | None, whole: bool) -> None:
    whole = whole and cols <= 16384
    parts = cut(cols, vector, Tiles(num_warps=warps), whole)
    covered = parts.lanes * parts.pieces * vector * (1 if whole else parts.tiles * parts.chunks)
    assert covered >= cols // vector * vector
    assert parts.rows * parts.lanes % (32 * parts.warps) == 0
    assert parts.pieces <= 64 or warps


def test_pytorchs_gradient_is_held_to_what_rounded_log_probabilities_give() -> None:
    operation = CeGradTorch().operation
    logits, target = operation.make_inputs((40, 50_000), torch.bfloat16, "cpu", 0)
    logp = logits.double().log_softmax(1)
    rounded = logp.to(torch.bfloat16).double().exp()  # as a GPU keeps it for the backward pass
    rounded.scatter_add_(1, target[:, None], torch.full((40, 1), -1.0, dtype=torch.float64))
    answer = -logp.gather(1, target[:, None])[:, 0].float(), rounded.to(torch.bfloat16)
    verdict = check(answer, (logits, target), operation, CeGradTorch().backend)
    assert verdict.reason is None
    assert "1.5 spacings" in str(check(answer, (logits, target), operation, "triton").reason)


def test_what_a_triton_kernel_keeps_beside_the_operations_arrays_is_counted_in_bytes() -> None:
    inputs = CeOnline().operation.make_inputs((4, 30), torch.float16, "cpu", 0)
    tensors = {t["name"]: t for t in requested(CeOnline(), *inputs)}
    (kept,) = set(tensors) - {"logits", "target", "loss"}
    assert tensors[kept]["dtype"] == "float32"
    assert tensors[kept]["store_bytes"] == tensors["loss"]["store_bytes"] == 16
