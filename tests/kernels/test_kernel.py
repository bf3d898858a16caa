"""What a tunable may be, said by its annotation and checked as a kernel is made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import torch

from kernels.copy.copy import Copy
from kernels.copy.copy_triton import CopyTriton
from kernels.copy.operation import COPY
from kernels.kernel import Kernel, one_of, power_of_two, whole_number
from kernels.softmax.cluster import Cluster
from kernels.softmax.cluster_reduce import ClusterReduce
from kernels.softmax.compiled import Compiled
from kernels.softmax.cooperative import Cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.online import Online
from kernels.softmax_backward.backward import Backward
from tests.kernels.variants import COPIES, PEERS, SOFTMAXES, WAITING, name


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
    "perhaps": ("a power of two from 2 to 64", (0, 1, 3, 128, "8", True)),
    "count": ("a whole number from 1 to 5", (0, 6, "1", 1.0, True, None)),
    "cap": ("a whole number from 1 to 5", (0, 6, "ALL", "1", 1.0, True)),
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
    good: dict[str, Any]
    for good in (
        *({"power": 2}, {"power": 64}, {"perhaps": None}, {"perhaps": 4}, {"count": 5}),
        *({"cap": None}, {"cap": 5}, {"cap": "all"}, {"word": "there"}, {"flag": False}),
        *({"hint": None}, {"hint": True}, {"free": ""}),
    ):
        assert dataclasses.asdict(Tuned(**good)).items() >= good.items()


@pytest.mark.parametrize(
    ("kind", "tunable", "value", "words"),
    [
        (Online, "block_size", 1 << 21, "a power of two from 1 to 1048576"),
        (CopyTriton, "block_size", 1 << 21, "a power of two from 1 to 1048576"),
        (Backward, "block_size", 1 << 16, "a power of two from 1 to 32768"),
        (Cooperative, "block_size", 1 << 16, "a power of two from 1 to 32768"),
        (Cooperative, "num_warps", 2, "a power of two from 4 to 32"),
        (Cooperative, "loads", "first", "after or before"),
        (Cluster, "programs", 32, "a power of two from 1 to 16"),
        (Cluster, "num_warps", 32, "a power of two from 1 to 16"),
        (ClusterReduce, "num_ctas", 32, "a power of two from 1 to 16"),
        (FusedMultirow, "rows_per_program", 2048, "a power of two from 1 to 1024"),
        *((kind, "num_stages", 17, "a whole number from 1 to 16") for kind in (Fused, Online)),
        (Online, "evict", "last", "none or first or last_first"),
        (Online, "rows_in_flight", "L2", "a whole number from 1 to 2147483647"),
        (Compiled, "mode", "max-autotune", "default or max-autotune-no-cudagraphs"),
    ],
)
def test_a_variants_own_limit_is_kept(
    kind: type[Kernel], tunable: str, value: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{tunable} must be {words}, not {value!r}$"):
        kind(**{tunable: value})


def test_a_kernel_that_does_not_declare_what_it_moves_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Silent(Kernel):
        operation, backend = COPY, "torch"

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(TypeError, match=r"^Silent declares neither moves nor traffic\(\)$"):
        Silent()


EVERY = (*SOFTMAXES, *COPIES, *WAITING, *PEERS, Backward())
SHARED = {
    "num_warps": (3, "power of two"),
    "accumulate": ("float16", "float32 or float64"),
    "keep": ("yes", "true, false or null"),
    "keep_output": ("yes", "true, false or null"),
    "dependent": ("yes", "true, false or null"),
}


@pytest.mark.parametrize("kernel", EVERY, ids=name)
def test_a_tunable_that_many_have_is_checked_in_all_of_them(kernel: Kernel) -> None:
    assert hash(kernel) == hash(dataclasses.replace(kernel))  # type: ignore[type-var]
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        if field.name in SHARED:
            value, words = SHARED[field.name]
            with pytest.raises(ValueError, match=f"^{field.name} must be .*{words}"):
                type(kernel)(**{field.name: value})
