"""What asks L2 to stay, and that asking changes no result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernels import launch
from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device
from kernels.kernel import Kernel
from kernels.launch import load_hint, store_hint
from kernels.softmax.fused_multirow import FusedMultirow

L2 = 4096
KERNELS = [CopyTriton, FusedMultirow]


@pytest.mark.parametrize(
    ("size", "loads", "stores"),
    [
        (L2 - 1, "", ""),
        (L2, "evict_last", "evict_last"),
        (8 * L2 - 1, "evict_last", "evict_last"),
        (8 * L2, "evict_last", ""),
    ],
)
def test_the_rule_goes_by_bytes(
    size: int, loads: str, stores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Device("cuda", "a card", l2_bytes=L2)
    monkeypatch.setattr(launch, "device_of", lambda _: card)
    x = torch.empty(size, dtype=torch.int8)
    assert (load_hint(x, None), store_hint(x, None)) == (loads, stores)


@pytest.mark.parametrize("hint", [load_hint, store_hint])
def test_what_is_asked_for_goes_before_the_rule(hint: Callable[..., str]) -> None:
    x = torch.empty(2, 3)
    assert hint(x, None) == "", "a CPU tells no L2"
    assert hint(x, True) == "evict_last"
    assert hint(x, False) == ""


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tunable", ["keep", "keep_output"])
def test_a_hint_changes_no_bit(kernel: type[Kernel], tunable: str, device: str) -> None:
    x = torch.randn(9, 300, device=device)
    asks, asks_not = (kernel(**{tunable: wanted}) for wanted in (True, False))
    assert torch.equal(asks(x), asks_not(x))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tunable", ["keep", "keep_output"])
def test_a_tunable_is_true_false_or_null(kernel: type[Kernel], tunable: str) -> None:
    with pytest.raises(ValueError, match=f"{tunable} must be true, false or null, not 'yes'"):
        kernel(**{tunable: "yes"})
