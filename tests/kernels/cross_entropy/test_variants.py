"""The variants that a sweep measures: right by the gate, and their traffic as they declare it."""

from __future__ import annotations

import torch

from experiments.worker.counting import requested
from experiments.worker.gate import check
from kernels.cross_entropy.library import (
    CeGradTorch,
)
from kernels.cross_entropy.online import (
    CeOnline,
)
from kernels.cross_entropy.peers import (
    CeBackwardQuack,
    CeFlagGems,
    CeGradLiger,
    CeGradQuack,
    CeLiger,
    CeQuack,
)
from kernels.device import Device
from kernels.kernel import Kernel

PEERS: tuple[Kernel, ...] = (
    *(CeQuack(), CeGradQuack(), CeBackwardQuack(), CeLiger(), CeGradLiger(), CeFlagGems()),
)


def test_peers_say_what_they_need_and_give_empty_answers_of_the_right_shape(h200: Device) -> None:
    for kernel in PEERS:
        reason = kernel.unsupported((8, 50257), torch.bfloat16, h200)
        quack = isinstance(kernel, CeQuack | CeBackwardQuack)
        assert (reason is not None) >= quack, f"{kernel} takes odd rows"
        inputs = kernel.operation.make_inputs((0, 16), torch.float32, "cpu", 0)
        answer = kernel.prepare(*inputs)(*inputs)
        assert check(answer, inputs, kernel.operation, kernel.backend).reason is None


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
