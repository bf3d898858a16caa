"""The entry points of `kernels.cross_entropy.rows`, against PyTorch in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

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
from tests.kernels.variants import DTYPES, LAYOUTS, lay_out

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
    """Loss, lse and gradient by PyTorch, in float64."""
    leaf = logits.double().requires_grad_()
    z = z_of(leaf, options)
    lse = z.logsumexp(1)
    loss = F.cross_entropy(
        z,
        target,
        weight=None if weight is None else weight.double(),
        ignore_index=options.ignore_index,
        label_smoothing=options.label_smoothing,
        reduction="none",
    )
    counts = target != options.ignore_index
    loss = loss + torch.where(counts, options.z_loss * lse.square(), 0.0)
    over = torch.ones_like(loss) if dloss is None else dloss.double().expand_as(loss)
    (gradient,) = torch.autograd.grad(loss, leaf, over)
    return loss.detach(), torch.where(counts, lse.detach(), 0.0), gradient


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
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, cols, generator=generator, dtype=torch.float64) * 3
    target = torch.randint(max(cols, 1), (rows,), generator=generator)
    return logits.to(device, dtype), target.to(device)


ODD = (1, 2, 13, 16, 33, 250, 1001, 2500)
options_ = st.builds(
    Options,
    ignore_index=st.sampled_from((-100, 0, 2)),
    label_smoothing=st.sampled_from((0.0, 0.1, 1.0)),
    softcap=st.sampled_from((0.0, 5.0)),
    temperature=st.sampled_from((1.0, 0.7)),
    z_loss=st.sampled_from((0.0, 1e-2)),
)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(0, 6),
    cols=st.sampled_from(ODD),
    dtype=st.sampled_from(DTYPES),
    options=options_,
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
    if not rows:
        assert separately(logits, target, options, weight, over)[2].shape == (0, cols)
        return
    right = wanted(logits, target, options, weight, over)
    assert_close(separately(logits, target, options, weight, over, SMALL), right, dtype)
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
def test_a_gradient_with_its_loss_keeps_its_digits_however_large_the_logits(
    device: str, cols: int
) -> None:
    logits, target = case(3, cols, torch.float32, device)
    logits += 1e4  # a float32 near it has a spacing of 1e-3
    found, right = in_place(logits, target)[2].double(), wanted(logits, target)[2]
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-12)


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
    right = wanted(logits, target)
    loss, lse, dlogits = separately(logits, target)
    torch.testing.assert_close(loss.double(), right[0], equal_nan=True, rtol=1e-5, atol=1e-5)
    some = slice(0, 6)  # an lse of 3e38 keeps nothing of the sum
    torch.testing.assert_close(
        dlogits[some].double(), right[2][some], equal_nan=True, rtol=1e-5, atol=1e-6
    )
    again = in_place(logits, target)
    torch.testing.assert_close(again[0], loss, equal_nan=True, rtol=0, atol=1e-5)
    # from the maximum, not from an lse
    torch.testing.assert_close(again[2].double(), right[2], equal_nan=True, rtol=1e-5, atol=1e-6)
    assert loss[2] == INF
    assert lse[1] == -INF


def test_a_target_out_of_range_spoils_its_own_row_and_an_ignored_one_touches_nothing(
    device: str,
) -> None:
    logits, target = case(5, 300, torch.float32, device)
    target[0], target[1], target[2] = 300, -1, -100
    logits[2] = NAN
    for way in (separately, in_place):
        loss, lse, dlogits = way(logits, target)
        assert loss.isnan().tolist() == [True, True, False, False, False]
        assert dlogits.isnan().all(1).tolist() == [True, True, False, False, False]
        assert loss[2] == lse[2] == 0
        assert (dlogits[2] == 0).all()


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 5),
    cols=st.sampled_from(ODD),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(LAYOUTS),
    temperature=st.sampled_from((1.0, 0.5)),
    seed=st.integers(0, 99),
)
def test_log_probability_and_entropy_are_pytorchs(
    device: str,
    rows: int,
    cols: int,
    dtype: torch.dtype,
    layout: str,
    temperature: float,
    seed: int,
) -> None:
    logits, target = case(rows, cols, dtype, device, seed)
    logits[:, cols // 2 + 1 :: 3] = -INF
    logits = lay_out(logits, layout)
    logprob, entropy, lse = of_rows(logits), of_rows(logits), of_rows(logits)
    options = Options(temperature=temperature)
    run(logits, options, target=target, logprob=logprob, entropy=entropy, lse=lse)
    logp = (logits.double() / temperature).log_softmax(1)
    fine = {"rtol": 2e-5, "atol": 2e-5}
    torch.testing.assert_close(logprob.double(), logp.gather(1, target[:, None])[:, 0], **fine)
    terms = torch.where(logp == -INF, 0.0, logp.exp() * logp)
    torch.testing.assert_close(entropy.double(), -terms.sum(1), **fine)
    torch.testing.assert_close(lse.double(), (logits.double() / temperature).logsumexp(1), **fine)


@pytest.mark.parametrize(
    ("cols", "options"),
    [(33, ALL), (2049, PLAIN), (2049, ALL), (16_401, ALL)],
    ids=["narrow", "plain", "all", "wide"],
)
def test_a_rows_bits_depend_neither_on_m_nor_on_who_reads_it(
    device: str, cols: int, options: Options
) -> None:
    logits, target = case(3, cols, torch.bfloat16, device)
    alone = separately(logits, target, options)
    some = separately(logits[:1], target[:1], options)
    assert all(torch.equal(a[:1], b) for a, b in zip(alone, some, strict=True))
    for split in (2, 16) if cols == 2049 else (4,):
        shared = separately(logits, target, options, tiles=Tiles(split=split))
        assert all(map(torch.equal, alone, shared))
    names = ("logprob", "entropy", "lse")
    answers = []
    for split in (1, 4):
        outputs = {name: of_rows(logits) for name in names}
        run(logits, target=target, **outputs, tiles=Tiles(split=split))
        answers.append(outputs)
    assert all(torch.equal(answers[0][name], answers[1][name]) for name in names)


def test_a_view_that_begins_between_vectors_is_read_where_it_lies(device: str) -> None:
    storage, target = case(9, 1000, torch.bfloat16, device)
    for start, rows, cols in ((1, 5, 1001), (3, 4, 2048), (8, 8, 1000), (5, 1, 33), (3, 7, 5)):
        logits = storage.flatten()[start : start + rows * cols].view(rows, cols)
        chosen = target[:rows] % cols
        assert layout(logits).vector == (8 if cols > 16 else 1)
        assert_close(separately(logits, chosen), wanted(logits, chosen), torch.bfloat16)


def test_no_column_gives_what_an_empty_sum_does(device: str) -> None:
    logits, target = torch.empty(3, 0, device=device), torch.zeros(3, dtype=torch.int64).to(device)
    loss, lse, _ = separately(logits, target)
    assert loss.isnan().all()
    assert (lse == -INF).all()


@pytest.mark.parametrize("rows", [0, 1, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_reductions_are_pytorchs(device: str, rows: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    target = torch.randint(0, 7, (rows,), generator=generator).to(device)
    loss = torch.rand(rows, generator=generator).to(device)
    weight = torch.rand(7, generator=generator).to(device) if weighted else None
    options = replace(PLAIN, ignore_index=3)
    counts = target != 3
    loss = torch.where(counts, loss, 0.0)
    parts = counts.double() if weight is None else torch.where(counts, weight[target].double(), 0)
    out = torch.empty(1, device=device)
    reduce_losses(loss, target, options, weight, False, out=out)
    torch.testing.assert_close(out[0].double(), loss.double().sum())
    reduce_losses(loss, target, options, weight, True, out=out)
    mean = loss.double().sum() / parts.sum()
    torch.testing.assert_close(out[0].double(), mean, equal_nan=True)
    scale_of_mean(target, options, weight, scale=out)
    torch.testing.assert_close(out[0].double(), 1 / parts.sum())
    kept = torch.zeros(rows + 1, device=device)
    reduce_losses(loss, target, options, weight, True, out=out, kept=kept)
    assert not kept[:rows].any()
    scale_of_mean(target, options, weight, scale=out)
    assert torch.equal(kept[rows:], out)
    target[:] = 3
    reduce_losses(loss, target, options, weight, True, out=out)
    assert not out.isfinite() if rows else out.isnan()


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
