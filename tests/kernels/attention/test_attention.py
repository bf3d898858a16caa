"""Attention's variants against float64, what they say that they move, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.count import counts_of
from experiments.sweep.client import Worker
from experiments.worker import gate
from experiments.worker.describe import build_kernel
from experiments.worker.gate import check
from kernels.attention import operation
from kernels.attention.attention_naive import SOFTMAXES, AttentionNaive
from kernels.attention.attention_online import AttentionOnline
from kernels.attention.library import LIBRARIES, AttentionFlash, AttentionTorch, refusal
from kernels.attention.operation import ATTENTIONS, OfAttention
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.traffic import evaluate
from tests.experiments.test_timers import measured
from tests.kernels.variants import HERE

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
CPU = Device("cpu", "cpu")
SMALL = {"block_m": 32, "block_n": 16, "num_warps": 4}
VARIANTS: tuple[OfAttention, ...] = (
    AttentionOnline(**SMALL),
    AttentionOnline(**SMALL, descriptors=True, num_stages=2),
    AttentionOnline(block_m=16),
    AttentionNaive(),
    AttentionNaive("naive"),
    AttentionNaive("torch", folded=True),
    AttentionTorch("flash"),
    AttentionTorch("math"),
)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("cpu", 0, tmp_path_factory.mktemp("worker") / "worker.log")
    yield worker
    worker.stop()


def judged(kernel: Kernel, shape: tuple[int, int], dtype: torch.dtype, device: str) -> str | None:
    inputs = kernel.operation.make_inputs(shape, dtype, device, 1)
    interpreted = kernel.backend == "triton" and device == "cpu"
    backend = "interpreter" if interpreted else kernel.backend
    return check(kernel(*inputs), inputs, kernel.operation, backend).reason


@pytest.mark.parametrize("kernel", VARIANTS, ids=str)
@settings(max_examples=10, deadline=None)
@given(
    heads=st.integers(1, 3),
    length=st.integers(1, 70),
    dim=st.sampled_from((64, 128)),
    causal=st.booleans(),
    dtype=st.sampled_from((F32, F16, BF16)),
)
def test_any_heads_pass_the_gate(
    kernel: Any, device: str, heads: int, length: int, dim: int, causal: bool, dtype: torch.dtype
) -> None:
    if getattr(kernel, "folded", False):
        causal = False
    kernel, shape = replace(kernel, dim=dim, causal=causal), (heads * length, length)
    if kernel.unsupported(shape, dtype, HERE) is None:
        assert judged(kernel, shape, dtype, device) is None


def test_every_softmax_may_stand_in_the_middle(device: str) -> None:
    ran = 0
    for softmax in SOFTMAXES:
        if SOFTMAXES[softmax].unsupported((100, 50), F32, HERE) is None:
            assert judged(AttentionNaive(softmax), (100, 50), F32, device) is None
            ran += 1
    assert ran >= 8


@pytest.mark.parametrize(
    ("attention", "dtype"), [*zip(ATTENTIONS.values(), (F32, F16, BF16, F16), strict=True)]
)
def test_the_gate_turns_wrong_attention_away(
    attention: Any, dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = q, k, v = attention.make_inputs((3 * 40, 40), dtype, device, 0)
    right = attention.reference(*inputs)
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 1)  # one head at a time
    monkeypatch.setattr(operation, "SCORES", 120)  # of which three queries at once
    assert check(right.to(dtype), inputs, attention, "torch").reason is None
    other = ATTENTIONS[attention.dim, not attention.causal].reference(*inputs)
    for answer in (other, right.roll(1, 1), attention.reference(2 * q, k, v), right * 1.02):
        assert check(answer.to(dtype), inputs, attention, "torch").reason is not None


def test_attention_is_pytorchs_and_a_point_is_read_off_its_inputs() -> None:
    for (dim, causal), attention in ATTENTIONS.items():
        inputs, sizes = attention.make_inputs((12, 4), F32, "cpu", 0), {"M": 12, "N": 4}
        assert [x.shape for x in inputs] == [(3, 4, dim)] * 3
        assert attention.point_of(inputs) == ((12, 4), F32)
        assert attention.compulsory.bytes(sizes, 2) == 4 * 12 * dim * 2
        pairs = 3 * (1 + 2 + 3 + 4) if causal else 12 * 4  # of three heads
        assert attention.flops is not None
        assert attention.exponentials is not None
        assert evaluate(attention.flops, sizes) == 4 * dim * pairs
        assert evaluate(attention.exponentials, sizes) == pairs
        doubles = [x.double() for x in inputs]
        wanted = torch.nn.functional.scaled_dot_product_attention(*doubles, is_causal=causal)
        torch.testing.assert_close(attention.reference(*inputs), wanted)


ONLINE, NAIVE = "attention_online.AttentionOnline", "attention_naive.AttentionNaive"
TORCH = "library.AttentionTorch"


@pytest.mark.parametrize(
    ("target", "tunables", "formula"),
    [
        (ONLINE, SMALL, "256M⌈N/32⌉ + 256M"),
        (ONLINE, SMALL | {"descriptors": True, "dim": 64}, "128M⌈N/32⌉ + 128M"),
        (ONLINE, SMALL | {"causal": True}, None),
        (ONLINE, SMALL | {"causal": True, "descriptors": True}, None),
        (NAIVE, {"softmax": "torch"}, "6MN + 512M"),
        (NAIVE, {"folded": True}, None),  # of torch's softmax, as auto's up to 4194304 keys
        (NAIVE, {"softmax": "torch", "causal": True, "dim": 64}, "6MN + N^2 + 256M"),
        (TORCH, {"library": "flash"}, "513M"),
    ],
    ids=str,
)
def test_counted_equals_modelled(
    worker: Worker, target: str, tunables: dict[str, Any], formula: str | None
) -> None:
    config = {"_target_": f"kernels.attention.{target}", **tunables}
    shapes = [(96, 96), (66, 33)]
    assert formula in (None, str(build_kernel(config).traffic()))
    for record in counts_of(worker, "attention", config, shapes, ["float16"]):
        assert record.method != "none", record.reason
        assert record.difference is None
        if target == ONLINE:
            assert {tensor.name for tensor in record.tensors} == {"q", "k", "v", "y"}


def test_a_head_is_the_same_bits_alone_and_among_others() -> None:
    target = f"kernels.attention.{ONLINE}"
    outcome = measured("host", target=target, rows=32, determinism=True, **SMALL)  # four heads of 8
    assert outcome["status"] == "ok", outcome["reason"]
    assert (outcome["deterministic"], outcome["batch_invariant"]) == (True, True)


def test_what_cannot_be_done_is_said_in_a_sentence(
    h200: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(h200, capability=(7, 5))
    online = AttentionOnline()
    for kernel, shape, dtype, device, said in (
        (online, (100, 30), F16, h200, "heads of N, and 100 is no multiple of 30"),
        (online, (0, 0), F16, h200, "0 is no multiple of 0"),
        (online, (1 << 25, 1 << 25), F16, h200, "32 bit"),
        (online, (128, 128), F32, h200, "takes float16 and bfloat16 on a GPU"),
        (AttentionOnline(block_n=256), (8, 8), F16, h200, "tiles take 409600 bytes of shared mem"),
        (online, (128, 128), torch.float64, h200, "takes float32, float16, bfloat16, not float64"),
        (online, (128, 128), BF16, CPU, "no matrices of bfloat16"),
        (AttentionOnline(causal=True, block_n=128), (8, 8), F16, h200, "block_n=128 divides"),
        (AttentionOnline(descriptors=True), (8, 8), F16, old, "capability 9.0"),
        (AttentionNaive(causal=True, folded=True), (8, 8), F16, h200, "use causal=false"),
        (AttentionNaive("online"), (8, 8), F16, CPU, "would be interpreted"),
        (AttentionTorch(), (8, 8), F16, CPU, "needs a CUDA device for library=cudnn"),
        (AttentionTorch(), (8, 8), F32, h200, "library=cudnn takes float16 and bfloat16 alone"),
        (AttentionTorch("flash"), (8, 8), F16, old, "needs compute capability 8.0"),
        (AttentionFlash(), (8, 8), F16, h200, "needs flash-attn-4 of the extra peers"),
    ):
        reason = kernel.unsupported(shape, dtype, device)
        assert said in str(reason)
        assert "\n" not in str(reason)
    assert online.unsupported((1 << 18, 32768), BF16, h200) is None
    for refused in (AttentionNaive("fused"), SOFTMAXES["fused"]):
        assert refused.unsupported((1 << 21, 1 << 21), F16, h200) is not None
    monkeypatch.setattr("kernels.kernel._installed", lambda package: True)
    for kernel, device in ((AttentionFlash(), old), (AttentionFlash(), CPU)):
        assert "needs a CUDA device" in str(kernel.unsupported((8, 8), F16, device))
    assert AttentionFlash().unsupported((8, 8), F16, h200) is None
    with pytest.raises(ValueError, match=r"^dim must be 64 or 128, not 96$"):
        AttentionOnline(dim=96)


def test_a_library_that_refuses_a_length_is_quoted() -> None:
    kernel, x = AttentionTorch("flash"), torch.empty(1, 1, 4, 128)
    assert refusal(x, kernel) is None
    said = refusal(x[:, :, :0], kernel)
    assert said is not None
    assert said.startswith("library=flash refuses it: All fused kernels do not support zero seq")
    assert "Triggered" not in said


def test_tiles_follow_d_the_mask_and_the_card(h200: Device) -> None:
    old = replace(h200, capability=(8, 0))
    # of 64 columns under a mask, tiles of 4096 elements
    for dim, causal, keys in ((128, False, 64), (128, True, 64), (64, False, 128), (64, True, 64)):
        kernel = AttentionOnline(dim=dim, causal=causal)
        assert (kernel.keys, kernel.described(h200)) == (keys, dim * keys > 4096)
        assert not kernel.described(old)
        assert kernel.unsupported((4096, 4096), F16, old) is None
    assert AttentionOnline(block_m=32, causal=True).keys == 32


@pytest.mark.parametrize("descriptors", [False, True])
def test_memory_may_begin_anywhere_and_heads_lie_apart(device: str, descriptors: bool) -> None:
    kernel = AttentionOnline(**SMALL, descriptors=descriptors)
    inputs = kernel.operation.make_inputs((99, 33), F16, device, 1)
    memory = [torch.zeros(x.numel() + 3, dtype=F16, device=device) for x in inputs]
    moved = [
        one[offset:][: x.numel()].view_as(x).copy_(x)
        for offset, one, x in zip((1, 2, 3), memory, inputs, strict=True)
    ]
    apart = [torch.zeros(3, 33, 136, dtype=F16, device=device)[..., 4:132].copy_(x) for x in inputs]
    assert all(x.data_ptr() % 16 for x in moved)
    for others in (moved, apart):
        assert torch.equal(kernel(*others), kernel(*inputs))


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [
        AttentionOnline(),
        AttentionOnline(descriptors=False),
        AttentionOnline(block_m=128, block_n=64, num_warps=8, descriptors=True),
        AttentionNaive(),
        AttentionFlash(),
        *map(AttentionTorch, LIBRARIES),
    ],
    ids=str,
)
def test_on_a_card_attention_of_any_length_passes_the_gate(
    kernel: Any, causal: bool, dim: int
) -> None:
    kernel, ran = replace(kernel, dim=dim, causal=causal), 0
    for dtype in (F16, BF16):
        for length in (1, 2, 127, 1000, 4096):
            shape = (3 * length, length)
            if kernel.unsupported(shape, dtype, HERE) is None:
                assert judged(kernel, shape, dtype, "cuda") is None
                ran += 1
    if not ran:
        pytest.skip(str(kernel.unsupported((3 * 4096, 4096), BF16, HERE)))
    assert ran >= 4, "float16 and bfloat16 at 1000 and 4096 at least"


@pytest.mark.gpu
def test_on_a_card_the_online_form_needs_memory_for_its_output_alone() -> None:
    inputs = ATTENTIONS[128, False].make_inputs((4 * 4096, 4096), BF16, "cuda", 0)
    for kernel, at_least, at_most in (
        (AttentionOnline(), 1, 1.01),
        (AttentionNaive(), 1 + 2 * 32, 1.01 * (1 + 2 * 32)),  # two M×N matrices, N = 32·D
    ):
        call = kernel.prepare(*inputs)
        call(*inputs)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y = call(*inputs)
        peak = torch.cuda.max_memory_allocated() - before
        assert at_least <= peak / y.nbytes <= at_most
