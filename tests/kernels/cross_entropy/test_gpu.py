"""What only a GPU can show of cross-entropy's streaming kernels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.cross_entropy.rows import Options, Tiles, backward, run
from tests.kernels.cross_entropy.test_rows import (
    assert_close,
    case,
    in_place,
    of_rows,
    options_,
    separately,
    wanted,
)
from tests.kernels.variants import DTYPES, LAYOUTS, lay_out, name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
WIDTHS = (1, 9, 1001, 2048, 2049, 16_384, 16_385, 50_257, 128_256, 262_144)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)  # apart, as nearly every example compiles
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 70),
    cols=st.sampled_from(WIDTHS) | st.integers(1, 70_000),
    options=options_,
    layout=st.sampled_from(LAYOUTS),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_shape_options_and_strides_give_the_answer_of_float64(
    rows: int,
    cols: int,
    dtype: torch.dtype,
    options: Options,
    layout: str,
    weighted: bool,
    seed: int,
) -> None:
    logits, target = case(rows, cols, dtype, "cuda", seed)
    logits = lay_out(logits, layout)
    weight = torch.rand(cols, device="cuda") if weighted else None
    dloss = torch.randn(rows, device="cuda")
    right = wanted(logits, target, options, weight, dloss)
    assert_close(separately(logits, target, options, weight, dloss), right, dtype)
    assert_close(in_place(logits, target, options, weight, dloss), right, dtype)


@pytest.mark.parametrize("cols", [1001, 50_257, 128_256])
def test_bits_depend_neither_on_m_nor_on_the_programs_of_a_row(cols: int) -> None:
    logits, target = case(2000, cols, torch.bfloat16, "cuda")
    alone = separately(logits, target)
    assert all(map(torch.equal, alone, separately(logits, target)))
    for rows in (1, 3, 64, 700):  # so few that programs share a row, and more
        some = separately(logits[:rows], target[:rows])
        assert all(torch.equal(a[:rows], b) for a, b in zip(alone, some, strict=True))
    for split in (2, 16):
        shared = separately(logits[:9], target[:9], tiles=Tiles(split=split))
        assert all(torch.equal(a[:9], b) for a, b in zip(alone, shared, strict=True))


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


def test_calls_are_captured_and_do_not_wait_for_the_host() -> None:
    logits, target = case(300, 50_257, torch.bfloat16, "cuda")
    loss, lse, dlogits = of_rows(logits), of_rows(logits), torch.empty_like(logits)

    def step() -> None:
        run(logits, target=target, loss=loss, lse=lse)
        backward(logits, target, lse, None, dlogits=dlogits)
        run(logits[:2], target=target[:2], loss=loss[:2], lse=lse[:2])

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    logits.normal_()
    graph.replay()
    assert_close((loss, lse, dlogits), wanted(logits, target), torch.bfloat16)
