"""What every kernel has in common: its tunables, its YAML file and what it says that it moves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import sympy
import torch
from hydra.utils import instantiate

from kernels.kernel import Kernel, one_of, power_of_two, whole_number
from kernels.read.operation import READ
from kernels.read.read_triton import ReadTriton
from kernels.roofs.library import Copy
from kernels.roofs.mover import CopyTriton
from kernels.roofs.operation import COPY
from kernels.softmax.cluster import Cluster
from kernels.softmax.cooperative import Cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.online import Online
from kernels.softmax.peers import FlagGems, Helion
from kernels.softmax_backward.backward import Backward
from kernels.softmax_backward.library import BackwardFlagGems
from kernels.traffic import M, N, Traffic, evaluate
from tests.conf import KERNELS
from tests.conf import kernel as kernel_config
from tests.kernels.variants import name


@dataclass(frozen=True)
class Tuned(Copy):
    """A kernel with a tunable of each kind."""

    power: Annotated[int, power_of_two(2, 64)] = 8
    perhaps: Annotated[int | None, power_of_two(2, 64)] = None
    count: Annotated[int, whole_number(1, 5)] = 1
    cap: Annotated[int | str | None, whole_number(1, 5, "all")] = None
    word: Annotated[str, one_of("here", "there")] = "here"
    flag: bool = True
    hint: bool | None = None
    free: str = "anything"


REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "power": ("a power of two from 2 to 64", (0, -2, 1, 3, 128, "8", 8.0, True, None, [8])),
    "perhaps": ("a power of two from 2 to 64", (1, 128, "8")),
    "count": ("a whole number from 1 to 5", (0, 6, "1", 1.0, True, None)),
    "cap": ("a whole number from 1 to 5", (0, 6, "ALL", "1")),
    "word": ("here or there", ("", "Here", None, 1, ["here"])),
    "flag": ("true or false", (None, 1, "yes")),
    "hint": ("true, false or null", (1, "yes")),
}


@pytest.mark.parametrize("tunable", REFUSED)
def test_what_a_tunable_may_not_be_is_refused_in_one_line(tunable: str) -> None:
    words, values = REFUSED[tunable]
    for value in values:
        with pytest.raises(ValueError, match=f"^{tunable} must be") as caught:
            Tuned(**{tunable: value})
        assert str(caught.value) == f"{tunable} must be {words}, not {value!r}"


def test_what_a_tunable_may_be_is_taken() -> None:
    Tuned(power=2, perhaps=None, count=5, cap=None, word="there", flag=False, hint=None, free="")
    Tuned(power=64, perhaps=4, count=1, cap="all", hint=True)
    Tuned(cap=5)


@pytest.mark.parametrize(
    ("kind", "tunable", "least", "most"),
    [
        (Online, "block_size", 1, 1 << 20),
        (CopyTriton, "block_size", 1, 1 << 20),
        (ReadTriton, "thread_bytes", 16, 512),
        (Backward, "block_size", 1, 32768),
        (Cooperative, "block_size", 1, 32768),
        (Cooperative, "num_warps", 4, 32),
        (Cluster, "programs", 1, 16),
        (Cluster, "num_warps", 1, 16),
        (FusedMultirow, "rows_per_program", 1, 1024),
        (Fused, "num_stages", 1, 16),
    ],
)
def test_a_variants_own_limits_are_kept(
    kind: type[Kernel], tunable: str, least: int, most: int
) -> None:
    kind(**{tunable: least})
    kind(**{tunable: most})
    for wrong in (least // 2, 2 * most):
        with pytest.raises(ValueError, match=f"^{tunable} must be .* from {least} to {most}, not"):
            kind(**{tunable: wrong})


def test_a_kernel_that_does_not_declare_what_it_moves_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Silent(Kernel):
        operation, backend = COPY, "torch"

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(TypeError, match=r"^Silent declares neither moves nor traffic\(\)$"):
        Silent()


# a variant as a source ran it, or for one purpose, not as it comes
SETTINGS = {
    *("compiled_max", "hybrid_whole", "hybrid_capped", "online_l2"),
    *("copy_hinted", "copy_in_place", "add_hinted", "read_hinted"),
    *("attention_naive_folded", "attention_torch_flash"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_name_builds_its_kernel_and_spells_out_every_tunable(name: str) -> None:
    config = kernel_config(name)
    kernel = instantiate(config)
    assert isinstance(kernel, Kernel)
    folder = type(kernel.operation).__module__.split(".")[1]
    assert folder == config["_target_"].split(".")[1], "the operation's folder"
    tunables = {key: value for key, value in config.items() if key != "_target_"}
    assert tunables == dataclasses.asdict(kernel)  # type: ignore[call-overload]
    assert hash(kernel) == hash(dataclasses.replace(kernel))  # type: ignore[type-var]
    assert (kernel == type(kernel)()) == (name not in SETTINGS), "are these the defaults?"
    assert "Source:" in (__import__(type(kernel).__module__, fromlist=["_"]).__doc__ or "")


# formula, reads and writes at 48 × 16, elements of a row on chip at N = 16
MN = 48 * 16
TWO = ("2MN", (MN, MN), 16)
NAIVE = ("8MN + 4M", (5 * MN + 2 * 48, 3 * MN + 2 * 48), 1)
ON_CHIP = "compiled fused fused_row fused_multirow cluster cooperative liger quack"
DECLARED = dict.fromkeys(f"torch compiled_softmax {ON_CHIP}".split(), TWO) | {
    "naive": NAIVE,
    "naive_script": NAIVE,
    "three_pass": ("4MN", (3 * MN, MN), 1024),
    "online": ("3MN", (2 * MN, MN), 1024),
    "copy": (*TWO[:2], 1),
    "copy_triton": (*TWO[:2], 4096),
}


@pytest.mark.parametrize("name", KERNELS)
def test_traffic_and_footprint_are_those_of_the_papers(name: str) -> None:
    kernel, sizes = instantiate(kernel_config(name)), {"M": 48, "N": 16}
    traffic = kernel.traffic()
    moved, least = traffic.elements(sizes), kernel.operation.compulsory.elements(sizes)
    on_chip = evaluate(kernel.on_chip_elements(), sizes)
    assert (str(traffic), moved, on_chip) == DECLARED.get(name, (str(traffic), moved, on_chip))
    assert moved[0] >= least[0]
    assert moved[1] >= least[1]


@pytest.mark.parametrize(
    ("kernel", "text", "cols", "beyond", "on_chip"),
    [
        (Hybrid(block_size=1024), "2MN if N ≤ 1024 else 4MN", 1024, (3, 1), 1024),
        (FlagGems(), "2MN if N ≤ 32768 else 3MN", 32768, (2, 1), 4096),
        (Helion(), "2MN if N ≤ 32768 else 4MN", 32768, (3, 1), 8192),
        (BackwardFlagGems(), "3MN if N ≤ 1024 else 5MN", 1024, (4, 1), 2048),
        (Backward(block_size=1024), "3MN if N ≤ 1024 else 5MN", 1024, (4, 1), 2048),
    ],
    ids=name,
)
def test_traffic_rises_where_a_row_no_longer_fits(
    kernel: Kernel, text: str, cols: int, beyond: tuple[int, int], on_chip: int
) -> None:
    traffic = kernel.traffic()
    assert str(traffic) == text
    fits, wider = {"M": 2, "N": cols}, {"M": 2, "N": cols + 1}
    assert traffic.elements(fits) == kernel.operation.compulsory.elements(fits)
    assert traffic.elements(wider) == tuple(2 * (cols + 1) * each for each in beyond)
    assert evaluate(kernel.on_chip_elements(), wider) == on_chip


def test_a_quotient_rounded_up_prints_as_one() -> None:
    assert str(READ.compulsory) == "MN + M⌈N/4096⌉"
    assert READ.compulsory.elements({"M": 3, "N": 4097}) == (3 * 4097, 6)


def test_formula_without_a_size_or_a_whole_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs sizes for \['N'\]"):
        Traffic(M * N, M).elements({"M": 2})
    with pytest.raises(ValueError, match="not a whole number"):
        evaluate(N / sympy.Integer(2), {"N": 3})
