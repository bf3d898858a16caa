"""What a kernel says before anything is launched: its tunables, its traffic, what it cannot do."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
import torch

from experiments.data.errors import UserError
from experiments.data.jobs import CONF, read_yaml
from kernels.attention import operation
from kernels.device import Device, resident_programs
from kernels.kernel import Kernel, one_of, power_of_two, whole_number
from kernels.traffic import evaluate
from tests.conf import KERNELS, built
from tests.conf import kernel as configured
from tests.conftest import ROOT
from tests.kernels.conftest import H200, HERE

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


Copy, COPY = type(built("copy")), built("copy").operation


@dataclass(frozen=True)
class Tuned(Copy):
    """A kernel with a tunable of each kind."""

    power: Annotated[int, power_of_two(2, 64)] = 8
    perhaps: Annotated[int | None, power_of_two(2, 64)] = None
    count: Annotated[int, whole_number(1, 5)] = 1
    word: Annotated[str, one_of("here", "there")] = "here"
    flag: bool = True
    hint: bool | None = None


@pytest.mark.parametrize(
    ("tunable", "words", "right", "wrong"),
    [
        ("power", "a power of two from 2 to 64", (2, 64), (0, -2, 1, 3, 128, "8", 8.0, True, [8])),
        ("perhaps", "a power of two from 2 to 64", (None, 4), (1, 128, "8")),
        ("count", "a whole number from 1 to 5", (1, 5), (0, 6, "1", 1.0, True, None)),
        ("word", "here or there", ("there",), ("", "Here", None, 1, ["here"])),
        ("flag", "true or false", (False,), (None, 1, "yes")),
        ("hint", "true, false or null", (None, True), (1, "yes")),
    ],
)
def test_a_tunable_is_taken_or_refused_in_one_line(
    tunable: str, words: str, right: tuple[Any, ...], wrong: tuple[Any, ...]
) -> None:
    for value in right:
        assert getattr(Tuned(**{tunable: value}), tunable) is value
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{tunable} must be") as caught:
            Tuned(**{tunable: value})
        assert str(caught.value) == f"{tunable} must be {words}, not {value!r}"


def test_a_kernel_that_does_not_declare_what_it_moves_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Silent(Kernel):
        operation, backend = COPY, "torch"

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(TypeError, match=r"^Silent declares neither moves nor traffic\(\)$"):
        Silent()


# formula, reads and writes at 48 × 16, elements of a row on chip at N = 2²⁰
MN = 48 * 16
TWO, NAIVE = ("2MN", (MN, MN), 1 << 20), ("8MN + 4M", (5 * MN + 2 * 48, 3 * MN + 2 * 48), 1)
ON_CHIP = "compiled fused fused_row fused_multirow cluster cooperative liger quack"
FILES = read_yaml(CONF / "kernel")
DECLARED = dict.fromkeys(f"torch compiled_softmax {ON_CHIP}".split(), TWO) | {
    "naive": NAIVE,
    "naive_script": NAIVE,
    "three_pass": ("4MN", (3 * MN, MN), 1024),
    "online": ("3MN", (2 * MN, MN), 1024),
    "copy": (*TWO[:2], 1),
    "copy_triton": (*TWO[:2], 4096),
    "read": ("MN + M⌈N/4096⌉", (MN, 48), 4096),
    # a row that does not fit is read again
    "auto": ("2MN if (N < 262144) | ((N ≤ 1048576) & (M > 1)) else 3MN", (MN, MN), 1 << 20),
    "hybrid": ("2MN if N ≤ 4096 else 4MN", (MN, MN), 4096),
    "flag_gems": ("2MN if N ≤ 32768 else 3MN", (MN, MN), 4096),
    "helion": ("2MN if N ≤ 32768 else 4MN", (MN, MN), 8192),
    "tileops": ("2MN if N ≤ 32768 else 3MN", (MN, MN), 16384),
    "backward": ("3MN if N ≤ 16384 else 5MN", (2 * MN, MN), 32768),
    "backward_auto": ("3MN if N ≤ 262144 else 5MN", (2 * MN, MN), 32768),
    "backward_flag_gems": ("3MN if N ≤ 1024 else 5MN", (2 * MN, MN), 2048),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_name_spells_out_every_tunable_and_declares_the_papers_traffic(name: str) -> None:
    config, kernel = configured(name), built(name)
    assert kernel.operation.roof == FILES[name].get("roof", "copy")
    tunables = {key: value for key, value in config.items() if key != "_target_"}
    assert tunables == dataclasses.asdict(kernel)  # type: ignore[call-overload]
    assert hash(kernel) == hash(dataclasses.replace(kernel))  # type: ignore[type-var]
    assert "Source:" in (sys.modules[type(kernel).__module__].__doc__ or "")
    traffic, sizes = kernel.traffic(), {"M": 48, "N": 16}
    moved, least = traffic.elements(sizes), kernel.operation.compulsory.elements(sizes)
    on_chip = evaluate(kernel.on_chip_elements(), {"N": 1 << 20})
    assert (str(traffic), moved, on_chip) == DECLARED.get(name, (str(traffic), moved, on_chip))
    assert all(one >= other for one, other in zip(moved, least, strict=True))


def test_attention_is_pytorchs_and_a_point_is_read_off_its_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operation, "SCORES", 8)  # of which two queries at once
    for (dim, causal), attention in operation.ATTENTIONS.items():
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


@pytest.mark.parametrize(("rows", "cols"), [(262144, 512), (262144, 32768), (1000, 100)])
def test_roofs_do_the_arithmetic_of_attention_or_a_little_more(rows: int, cols: int) -> None:
    attention, sizes = operation.ATTENTION, {"M": rows, "N": cols}
    for roof, kind in (("matmul", "flops"), ("exponentials", "exponentials")):
        found, wanted = (
            evaluate(getattr(one, kind), sizes) for one in (built(roof).operation, attention)
        )
        assert found >= wanted
        assert found == wanted or rows < 262144


# --- what a variant cannot do ---

NO_CLUSTERS = {"capability": (8, 9)}  # in place of an H200's
NO_GPU = {"kind": "cpu", "capability": None, "registers_per_sm": None}
OLD = {"capability": (7, 5)}
BLACKWELL = {"capability": (12, 0), "name": "a card"}
CASES: list[tuple[str, dict[str, Any], tuple[int, ...], torch.dtype, dict[str, Any], str | None]]
CASES = [
    # what shared memory cannot hold is launched all the same: the card decides
    *(("fused", {"num_stages": n}, (4096, 65536), F32, {}, None) for n in (None, 2)),
    ("fused_row", {}, (4096, 65536), F32, {}, None),
    ("fused_row", {}, (4096, 131072), F32, {}, "a row of 131072 takes 131072 registers (padded"),
    ("fused_row", {}, (1, (1 << 20) + 1), F32, NO_GPU, "Triton's largest block, 1048576"),
    *((name, {}, (4096, 1 << 24), F32, {}, None) for name in ("hybrid", "online", "three_pass")),
    *((name, {}, (2, 3, 4), F32, {}, "3 dimensions") for name in ("online", "torch", "copy")),
    *((name, {}, (2, 3), torch.int32, {}, "int32") for name in ("online", "torch", "copy")),
    *(("online", {}, shape, F64, {}, None) for shape in ((0, 5), (5, 0), (1, 1))),
    ("fused_multirow", {}, (4096, 4096), F64, {}, None),
    ("fused_multirow", {}, (4096, 4097), F16, {}, "takes rows of at most 4096 elements, not 4097"),
    (
        *("fused_multirow", {"rows_per_program": 64, "num_warps": 4}, (4096, 513), F32, {}),
        "num_warps=4 leave a lane 512 elements of rows",
    ),
    *((name, {}, (1 << 31, 1), F16, {}, "2147483647") for name in ("online", "kl_auto")),
    ("fused_multirow", {"rows_per_program": 1}, (1 << 31, 1), F16, {}, "2147483647"),
    ("kl_auto", {}, (64, 1 << 20), F32, {}, None),  # a stream takes what a cluster does not
    *(("cooperative", {}, shape, F32, {}, None) for shape in ((1, 16), (0, 32), (1, 264 * 8192))),
    ("cooperative", {}, (1, 264 * 8192 + 16), F32, {}, "takes 265 programs of 8192 elements"),
    ("cooperative", {"block_size": 32768, "num_warps": 4}, (9, 16), F32, {}, "holds 0"),
    ("cooperative", {}, (1, 133 * 8192), F32, {"sms": 66}, "holds 132"),
    ("cooperative", {}, (1, 24), F32, {}, "takes rows of a multiple of 16 elements, not 24"),
    ("cooperative", {}, (2, 16), F64, {}, "takes float32, float16, bfloat16, not float64"),
    ("cooperative", {}, (2, 3), F32, NO_GPU, "CUDA"),
    *(("cluster", {}, (4096, cols), F16, {}, None) for cols in (1, 50257, 524288, 1 << 20)),
    ("cluster", {}, (4096, 1024), F32, {"capability": (8, 0)}, "sm_90 or newer"),
    ("cluster", {}, (4096, 1024), F64, {}, "not float64"),
    ("cluster", {}, (4096, (1 << 20) + 4), F32, {}, "do not fit"),
    ("cluster", {}, (4096, (1 << 19) + 1), F32, {}, None),
    ("cluster", {}, (4, 1 << 20), F32, BLACKWELL, "fit on a card"),
    ("cluster", {"programs": 16}, (4, 4096), F32, BLACKWELL, "a card has up to 8"),
    ("cluster", {}, (1 << 30, 65536), F32, {}, "2147483647 programs, not 17179869184"),
    ("ce_cluster", {}, (1, 1 << 22), BF16, {}, "do not fit"),
    ("read", {}, (1 << 30, 2 * 4096), F32, {}, "2147483647 programs, not 2147483648"),
    ("liger", {}, (4, 65536), F64, NO_CLUSTERS, None),
    *((name, {}, (4, 65537), F32, {}, "at most 65536") for name in ("liger", "backward_liger")),
    ("liger", {}, (4, 64), F32, NO_GPU, None),
    *(("tileops", {}, (4, 64), F32, card, "TileOPs needs a CUDA") for card in (OLD, NO_GPU)),
    ("logsumexp_tileops", {}, (4, 50257), BF16, NO_CLUSTERS, None),
    ("liger_cute", {}, (4, 32776), F16, {}, "at most 32768"),
    ("ce_liger_cute", {}, (4, 50257), BF16, {}, "Liger takes rows of a multiple of 8"),
    ("flag_gems", {}, (4, 1 << 20), F32, NO_CLUSTERS, None),
    ("flag_gems", {}, (4, 64), F32, NO_GPU, "needs a CUDA device"),
    ("log_softmax_flag_gems", {}, (1 << 16, 1 << 16), F16, {}, "counts elements in 32 bit"),
    ("quack", {}, (4, 781), F16, {}, "QuACK takes rows of a multiple of 8"),
    ("quack", {}, (4, 917504), F32, {}, None),
    ("quack", {}, (4, 1 << 20), F32, {}, "takes 263176 bytes of shared memory in each block of"),
    ("backward_quack", {}, (4, 458752), F32, {}, None),
    ("backward_quack", {}, (4, 524288), F32, {}, "takes 263176 bytes of shared memory"),
    ("quack", {}, (4, 64), F32, NO_CLUSTERS, "needs compute capability 9.0, for clusters; this"),
    *((name, {}, (4, 64), F32, NO_GPU, "needs a CUDA device") for name in ("quack", "helion")),
    ("helion", {}, (4, 1 << 20), F16, NO_CLUSTERS, None),
    ("attention_online", {}, (1 << 18, 32768), BF16, {}, None),
    ("attention_online", {}, (4096, 4096), F16, {"capability": (8, 0)}, None),
    ("attention_online", {}, (100, 30), F16, {}, "heads of N, and 100 is no multiple of 30"),
    ("attention_online", {}, (1 << 25, 1 << 25), F16, {}, "32 bit"),
    ("attention_online", {}, (128, 128), F32, {}, "takes float16 and bfloat16 on a GPU"),
    ("attention_online", {"block_n": 256}, (8, 8), F16, {}, "tiles take 409600 bytes of shared"),
    ("attention_online", {}, (128, 128), BF16, NO_GPU, "no matrices of bfloat16"),
    ("attention_online", {"causal": True, "block_n": 128}, (8, 8), F16, {}, "block_n=128 divides"),
    ("attention_online", {"descriptors": True}, (8, 8), F16, OLD, "capability 9.0"),
    ("attention_naive", {"causal": True, "folded": True}, (8, 8), F16, {}, "use causal=false"),
    ("attention_naive", {"softmax": "online"}, (8, 8), F16, NO_GPU, "would be interpreted"),
    ("attention_naive", {"softmax": "fused"}, (1 << 21, 1 << 21), F16, {}, "largest block"),
    ("attention_torch", {}, (8, 8), F16, NO_GPU, "needs a CUDA device for library=cudnn"),
    ("attention_torch", {}, (8, 8), F32, {}, "library=cudnn takes float16 and bfloat16 alone"),
    ("attention_torch_flash", {}, (8, 8), F16, OLD, "needs compute capability 8.0"),
    *(("attention_flash", {}, (8, 8), F16, card, "needs a CUDA device") for card in (OLD, NO_GPU)),
    ("attention_flash", {}, (8, 8), F16, {}, None),
]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every package were here; nothing of them may be imported."""
    monkeypatch.setattr("kernels.kernel.distribution", lambda package: package)
    monkeypatch.setattr("kernels.peer.find_spec", lambda module: module)
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[:3]}")
def test_what_a_variant_cannot_do_is_said_in_a_sentence(case: Any) -> None:
    name, tunables, shape, dtype, change, reason = case
    said = built(name, **tunables).unsupported(shape, dtype, dataclasses.replace(H200, **change))
    assert (said is None) == (reason is None)
    assert (reason or "") in (said or "")
    assert "\n" not in (said or "")


OF_SOFTMAX = [n for n in KERNELS if built(n).operation.name in ("softmax", "copy")]
PEERS = [name for name in OF_SOFTMAX if built(name).packages]


def test_what_is_missing_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, installed: None
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    for kernel in map(built, {*OF_SOFTMAX} - {*PEERS}):
        said = str(kernel.unsupported((2, 3), F32, Device("cpu", "cpu")))
        assert ("CUDA" in said) == (kernel.backend == "triton")
    monkeypatch.setattr("kernels.peer.find_spec", lambda module: None)  # by no .pth file
    assert "dsl_packages on PYTHONPATH" in str(built("quack").unsupported((4, 64), F32, H200))
    monkeypatch.setattr("kernels.kernel.distribution", Mock(side_effect=PackageNotFoundError))
    for kernel in map(built, PEERS):
        said = f"needs {kernel.packages[0]}{kernel.missing}"
        assert kernel.unsupported((4, 64), F32, H200) == said
        assert "not installed here; run " in said


DESCRIBED = """
import sys
# as where they are not installed: importing these fails
sys.modules |= dict.fromkeys(("triton", "liger_kernel", "flag_gems", "quack", "helion", "tileops"))
import torch
import kernels.kernel
from experiments.worker.describe import build_kernel
from kernels.device import Device
from tests.conf import KERNELS, kernel

every = [build_kernel(kernel(name)) for name in KERNELS]
for one in every:
    said = one.unsupported((3, 3), torch.float32, Device(kind="cpu", name="cpu"))
    if not one.packages:
        assert (said is not None and "not installed" in said) == (one.backend == "triton"), one
kernels.kernel.distribution = str  # as if all were installed
for one in every:
    one.traffic(), one.on_chip_elements()
    if one.packages:
        one.unsupported((4, 64), torch.float32, Device("cuda", "x", (9, 0)))
print("described")
"""


def test_variants_are_described_without_triton_and_peers_without_importing_them() -> None:
    command = [sys.executable, "-c", DESCRIBED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "described", done.stderr[-2000:]


def test_every_softmax_may_stand_in_the_middle_of_attention() -> None:
    with pytest.raises(UserError) as caught:
        built("attention_naive", softmax="another")
    names = str(caught.value).partition("must be ")[2].partition(", not")[0].split(" or ")
    assert {"auto", "naive", "online", "cluster", "cooperative"} <= {*names} <= {*KERNELS}
    for name in names:
        assert built("attention_naive", softmax=name).unsupported((96, 48), F16, H200) is None


def test_programs_follow_the_scarcest_resource() -> None:
    for registers, warps, shared, an_sm in (
        (128, 8, 32, 2),  # 65536 / (128 · 32 · 8)
        (129, 8, 32, 1),  # a register more takes eight more: 136 of them for each thread
        (104, 2, 16, 8),  # not 9: of 19 warps of 3328 registers four schedulers hold 4 each
        (32, 4, 115_712, 2),  # shared memory, with the kilobyte that the driver takes
        (32, 4, 232_449, 0),  # not even one
        (0, 4, 0, 16),  # the 64 warps alone: nothing is divided by zero
    ):
        assert resident_programs(registers, warps, shared, H200) == 132 * an_sm


# --- what our models of peers say, on a card with their packages ---


@pytest.mark.gpu
def test_quack_is_refused_only_where_the_library_fails() -> None:
    quack = built("quack")
    for cols in (781, 1 << 20):
        reason = quack.unsupported((2, cols), F32, HERE)
        if reason is None or "QuACK" not in reason:
            pytest.skip(reason or "a card with room for it")
        with pytest.raises(Exception) as failed:  # noqa: PT011
            quack(torch.randn(2, cols, device="cuda")).sum().item()
        assert "illegal" not in str(failed.value)


@pytest.mark.gpu
def test_liger_and_flag_gems_change_their_way_at_the_width_that_we_declare() -> None:
    settings_of = pytest.importorskip("liger_kernel.ops.utils").calculate_settings
    block, _ = settings_of(65536)
    assert block == 65536  # so that its looping kernel is never launched
    with pytest.raises(RuntimeError, match="exceeds"):
        settings_of(65537)
    runtime = pytest.importorskip("flag_gems.runtime")
    tile = runtime.get_heuristic_config("softmax_inner")["TILE_N"]
    assert (tile({"N": 32768}), tile({"N": 32769})) == (32768, 4096)
