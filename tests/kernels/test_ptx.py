"""The PTX that Triton compiles each kernel to for an H200; no GPU is needed (`make test-ptx`)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from triton import compile, knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.attention.attention_online import AttentionOnline, _attention
from kernels.cross_entropy.cluster import (
    AT_ONCE,
    HEAVY,
    _rows,
    narrow_cut,
    plan_of,
    registers_of,
)
from kernels.device import SHARED_RESERVED, known
from kernels.exponentials.exponentials import _exponentials
from kernels.language import next_power_of_two, tl
from kernels.mover import _move
from kernels.read.read_triton import ReadTriton, _read
from kernels.softmax.along import _along
from kernels.softmax.cluster import _cluster, cut
from kernels.softmax.cooperative import _cooperative, slices_of
from kernels.softmax.fused import _fused
from kernels.softmax.fused_multirow import _fused_multirow, lanes_by_tile
from kernels.softmax.fused_row import _fused_row
from kernels.softmax.online import EVICT, _online
from kernels.softmax.three_pass import _three_pass
from kernels.softmax_backward.backward import _backward
from kernels.softmax_backward.backward_multirow import _backward_multirow
from tests.kernels.conftest import H200

pytestmark = pytest.mark.ptx

F32, F64 = tl.float32, tl.float64
WHOLE = ("rows", "cols", "row_stride", "y_row_stride")  # divisible by 16
SLICED = ("cols", "row_stride", "slice_width")
ONE_WARP = ReadTriton(256, 1, keep=True)
TILE = {
    "VECTOR": 1,
    "BLOCK": 4096,
    "STAGES": 4,
    "LOADS": "",
    "STORES": "",
    "DEPENDENT": True,
    "ADD": True,
}


def compiled(
    kernel: Any, pointer: str, constants: dict[str, Any], whole: tuple[str, ...], **options: Any
) -> tuple[str, Any]:
    """PTX and metadata for ``pointer`` elements; ``whole`` parameters are divisible by 16.

    Of ``constants`` the kernel takes those that it has; ``options`` are Triton's own.
    """
    pointers = dict.fromkeys(("x", "other", "y", "dy", "dx"), f"*{pointer}")
    pointers |= dict.fromkeys(("words", "target"), "*i64")
    pointers |= dict.fromkeys(("loss", "entropy", "lse", "dloss"), "*fp32")
    scalars = dict.fromkeys(("inverse_cap", "smoothing", "share", "z_loss"), "fp32")
    scalars["inverse"] = "fp32" if kernel is _rows else "fp64"
    fixed = {"col_stride": 1, "y_col_stride": 1} | constants
    types, attributes = {}, {}
    for place, parameter in enumerate(kernel.arg_names):
        types[parameter] = pointers.get(parameter, scalars.get(parameter, "i32"))
        if parameter in fixed:
            types[parameter] = "constexpr"
        elif parameter in pointers or parameter in whole:
            attributes[(place,)] = [["tt.divisibility", 16]]
    fixed = {key: value for key, value in fixed.items() if key in types}
    source_of = GluonASTSource if kernel in (_cluster, _rows) else ASTSource
    source = source_of(kernel, types, fixed, attributes)
    return to_ptx(source, options)


def to_ptx(source: Any, options: dict[str, Any]) -> tuple[str, Any]:
    """PTX and metadata, without machine code, which takes a third of the time.

    The cache is a folder of its own: a kernel without machine code must not stay in the user's.
    """
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setenv("TRITON_CACHE_DIR", folder)
        patch.setattr(CUDABackend, "make_cubin", lambda *_: b"")
        made = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return made.asm["ptx"], made.metadata


def assert_waits_before_it_touches_memory(ptx: str) -> None:
    assert ptx.index("griddepcontrol.wait") < ptx.index("ld.global")


def registers_without_spills(ptx: str, folder: Path) -> int:
    """Of a thread, as ptxas gives them."""
    (folder / "x.ptx").write_text(ptx, encoding="utf-8")
    command = [knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", "x.ptx", "-o", "x"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr
    (used,) = re.findall("Used ([0-9]+) registers", done.stderr)
    return int(used)


def assert_stores_are_whole(ptx: str) -> None:
    assert "st.global" in ptx
    assert not re.search(r"st\.global\.(L1::\w+\.)?b", ptx)


@pytest.mark.parametrize(("pointer", "statistics"), [("fp32", F32), ("fp16", F64)])
@pytest.mark.parametrize("kernel", [_move, _fused, _fused_row, _three_pass], ids=lambda k: k.fn)
def test_tiles_are_stored_in_whole_vectors(kernel: Any, pointer: str, statistics: Any) -> None:
    constants = TILE | {"STATISTICS": statistics, "VECTOR": 4 if pointer == "fp32" else 8}
    ptx, metadata = compiled(kernel, pointer, constants, WHOLE, num_warps=8)
    if kernel is _move:
        assert_waits_before_it_touches_memory(ptx)
        ptx, _ = ptx.split("bra", 1)  # behind the branch the last program moves a tail
    assert_stores_are_whole(ptx)
    if kernel is _fused:  # three rows are under way beside the one that is worked on
        row = 4096 * (4 if pointer == "fp32" else 2)
        assert "cp.async" in ptx
        assert 3 * row <= metadata.shared <= 3 * row + 1024


@pytest.mark.parametrize(("pointer", "vector", "add"), [("bf16", 8, False), ("fp32", 4, True)])
def test_a_copy_takes_whole_vectors_whatever_the_width(
    pointer: str, vector: int, add: bool
) -> None:
    """Nothing is known of the number of elements; the tail of fewer than a vector stands apart."""
    constants = TILE | {"VECTOR": vector, "ADD": add}
    whole = ("row_stride", "y_row_stride")  # which are 0
    ptx, _ = compiled(_move, pointer, constants, whole, num_warps=8)
    body, tail = ptx.split("bra", 1)  # the tail is behind a branch of the last program
    threads = 32 * 8
    loads = 4096 // vector // threads * (2 if add else 1)
    assert len(re.findall(r"ld\.global\S*\.v4\.b32", body)) == loads
    assert body.count("ld.global") == loads
    assert len(re.findall(r"st\.global\S*\.v4\.b32", body)) == loads // (2 if add else 1)
    assert "ld.global" in tail


@pytest.mark.parametrize(
    ("kernel", "pointer", "rows", "cols"),
    [
        *((ReadTriton(), "fp32", 8192, 128256), (ONE_WARP, "bf16", 8192, 128256)),
        # rows that begin anywhere
        *((ReadTriton(), "bf16", 8192, 50257), (ONE_WARP, "bf16", 4096, 1001)),
        *((ONE_WARP, "fp32", 8192, 50257), (ReadTriton(), "fp64", 4096, 1001)),
        # several rows a tile
        *((ReadTriton(), "bf16", 32768, 256), (ONE_WARP, "fp32", 32768, 1000)),
        (ReadTriton(), "bf16", 40000, 100),
    ],
)
def test_a_reading_takes_whole_vectors_and_the_ends_of_a_row_a_lane_each(
    kernel: ReadTriton, pointer: str, rows: int, cols: int
) -> None:
    itemsize = {"fp64": 8, "fp32": 4}.get(pointer, 2)
    vector = 16 // itemsize
    whole = cols % vector == 0
    block, units, warps = kernel._tile((rows, cols), itemsize)
    constants = {"STRETCH": 4096, "UNITS": units, "BLOCK": block, "VECTOR": vector, "WHOLE": whole}
    constants |= {"LOADS": "evict_last" if kernel.keep else "", "DEPENDENT": True}
    constants |= {} if cols > 4096 else {"parts": 1}  # Triton makes a constant of a 1
    ptx, _ = compiled(_read, pointer, constants, ("stretches",), num_warps=warps)
    assert_waits_before_it_touches_memory(ptx)
    vectors = len(re.findall(r"ld\.global(\S+)?\.v(4\.b32|2\.b64)", ptx))
    threads = 32 * warps
    assert vectors == max(units * block * itemsize // (16 * threads), 1)
    single = ptx.count("ld.global") - vectors
    assert single <= (0 if whole else -(-units * 2 * vector // threads))
    assert ("evict_last" in ptx) == bool(kernel.keep)
    assert ("bar.sync" in ptx) == (warps > 1), "a warp by itself waits for no other"


def test_lines_compile() -> None:
    constants = {"BLOCK": 1024, "WIDTH": 4, "WHOLE": False, "STATISTICS": F32, "inner": 1}
    for kernel in (_along, _backward):
        assert "st.global" in compiled(kernel, "fp32", constants, (), num_warps=8)[0]


@pytest.mark.parametrize(
    ("evict", "stages", "looping"),
    [("none", 1, False), ("first", 3, True), ("last_first", 1, True)],
)
def test_the_tunables_of_online_are_seen_in_its_code(
    evict: str, stages: int, looping: bool
) -> None:
    hints = dict(zip(("FIRST_LOAD", "SECOND_LOAD", "STORE"), EVICT[evict], strict=True))
    constants = {"BLOCK": 4096, "STAGES": stages, "REVERSE": looping, "CAPPED": looping} | hints
    ptx, _ = compiled(_online, "fp32", constants | {"STATISTICS": F32}, WHOLE, num_warps=8)
    assert_stores_are_whole(ptx)
    assert ("cp.async" in ptx) == (stages > 1)
    assert ("%nctaid" in ptx) == looping, "a loop over rows where each has a program"
    assert ("evict_first" in ptx) == (evict != "none")
    assert ("evict_last" in ptx) == (evict == "last_first")


@pytest.mark.parametrize(
    ("pointer", "vector", "cols", "rows", "warps", "ones"),
    [
        ("fp32", 4, 1000, 4, 4, ()),
        ("fp32", 4, 1024, 1, 1, ("rows",)),
        ("bf16", 8, 8, 64, 1, ("vectors",)),
        ("bf16", 8, 512, 4, 2, ("row_stride",)),
        ("fp64", 2, 128, 8, 4, ()),
    ],
)
def test_narrow_rows_stay_in_their_warps_and_move_in_whole_vectors(
    pointer: str, vector: int, cols: int, rows: int, warps: int, ones: tuple[str, ...]
) -> None:
    width = min(lanes_by_tile(rows, warps, cols * 16 // vector) * vector, 2 * cols)
    width = min(width, next_power_of_two(cols))
    constants = {"VECTOR": vector, "ROWS": rows, "WIDTH": width, "PIECES": -(-cols // width)}
    constants |= {"STATISTICS": F64 if pointer == "fp64" else F32, "DEPENDENT": True}
    constants |= {"LOADS": "", "STORES": ""} | dict.fromkeys(ones, 1)
    ptx, metadata = compiled(_fused_multirow, pointer, constants, (), num_warps=warps)
    assert_waits_before_it_touches_memory(ptx)
    assert metadata.shared == 0, "a row leaves its warp"
    assert "bar.sync" not in ptx, "warps wait for each other"
    whole = "v2.b64" if pointer == "fp64" else "v4.b32"
    loads = ptx.count("ld.global")
    assert loads == ptx.count(f"ld.global.{whole}") > 0, "cut loads"
    assert ptx.count("st.global") == ptx.count(f"st.global.{whole}") == loads
    first_wait = ptx.find("shfl.sync") if cols > vector else len(ptx)
    assert ptx.rindex("ld.global") < first_wait, "a load waits"


@pytest.mark.parametrize(
    ("pointer", "vector", "cols", "rows", "warps"),
    [("fp32", 4, 256, 4, 2), ("bf16", 8, 1000, 2, 2)],
)
def test_narrow_gradients_stay_in_their_warps_and_move_in_whole_vectors(
    pointer: str, vector: int, cols: int, rows: int, warps: int
) -> None:
    width = lanes_by_tile(rows, warps, cols * 16 // vector) * vector
    constants = {"VECTOR": vector, "ROWS": rows, "WIDTH": width, "PIECES": -(-cols // width)}
    constants |= {"LOADS": "", "STORES": "", "STATISTICS": F32}
    constants |= {"y_col_stride": 1, "dy_col_stride": 1}
    ptx, metadata = compiled(_backward_multirow, pointer, constants, (), num_warps=warps)
    assert metadata.shared == 0, "a row leaves its warp"
    assert "bar.sync" not in ptx, "warps wait for each other"
    loads = ptx.count("ld.global")
    assert loads == ptx.count("ld.global.v4.b32") > 0, "cut loads"
    assert 2 * ptx.count("st.global") == 2 * ptx.count("st.global.v4.b32") == loads
    assert ptx.rindex("ld.global") < ptx.find("shfl.sync"), "a load waits"


@pytest.mark.parametrize(
    ("pointer", "rows", "cols"),
    [("fp32", 1, 131072), ("bf16", 64, 1 << 20), ("fp32", 64, 1 << 22)],
)
def test_slices_of_a_row_are_exchanged_relaxed_and_spill_nothing(
    pointer: str, rows: int, cols: int, tmp_path: Path
) -> None:
    plan = slices_of(rows, cols, H200, True)
    registers = plan.registers(H200)
    constants = {"SLOTS": next_power_of_two(plan.number), "BLOCK": plan.block}
    constants |= {"DEFERRED": plan.deferred and plan.groups < rows, "LOADS": "", "STORES": ""}
    options = {"num_warps": plan.warps, "maxnreg": registers}
    options |= {"enable_fp_fusion": False, "launch_cooperative_grid": True}
    ptx, metadata = compiled(_cooperative, pointer, constants, SLICED, **options)
    assert metadata.launch_cooperative_grid
    assert "ld.global.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx
    assert not re.search(r"(ld|st)[.]global[.]b(16|32)", ptx)
    assert "ld.relaxed.gpu.global.b64" in ptx
    assert "atom.global.gpu.relaxed.exch.b64" in ptx
    assert "fma" not in ptx, "threads would sum unlike each other"
    assert registers_without_spills(ptx, tmp_path) <= registers


@pytest.mark.parametrize(
    ("pointer", "vector", "cols", "hint"),
    [
        *(("fp32", 4, 4, ""), ("fp32", 4, 1024, ""), ("fp32", 4, 524288, "evict_last")),
        *(("fp32", 1, 1001, "evict_last"), ("fp16", 8, 524288, "")),
        *(("bf16", 8, 50257, "evict_last"), ("fp32", 4, 1001, "")),  # rows that begin anywhere
    ],
)
def test_a_cluster_meets_once_and_fences_nothing(
    pointer: str, vector: int, cols: int, hint: str, tmp_path: Path
) -> None:
    plan = cut((4096, cols), 4 if pointer == "fp32" else 2, vector, H200)
    assert plan is not None
    constants = {"CHUNKS": plan.chunks, "SHARED": plan.shared, "VECTOR": vector}
    constants |= {"EVEN": cols == plan.chunks * plan.chunk, "PACKED": plan.packed}
    constants |= {"ENDS": cols % vector > 0}
    constants |= {"LOADS": hint, "STORES": hint, "DEPENDENT": True}
    if cols == vector:  # Triton makes a constant of an argument that is 1
        constants |= {"vectors": 1, "row_vectors": 1}
    options = {"num_warps": plan.warps, "num_ctas": plan.programs}
    ptx, metadata = compiled(_cluster, pointer, constants, (), **options)
    assert_waits_before_it_touches_memory(ptx)
    if vector > 1:
        load = ".L1::evict_last.L2::cache_hint" if hint else ".cg"
        assert ptx.count(f"ld.global{load}.v4.b32") == plan.chunks - plan.shared
        assert ptx.count("cp.async.cg.shared.global") == plan.shared
        assert f"st.global{load if hint else ''}.v4.b32" in ptx
        assert ptx.count("st.global.b") == (cols % vector > 0)  # a lane's element at an end
    several = plan.programs > 1
    assert ("st.async" in ptx) == several
    assert ptx.count("redux.sync.max") == (plan.programs * plan.warps > 1)
    assert "%clusterid" not in ptx, "its row's number would be divided for"
    # a releasing arrival would make all wait for a fence of the whole GPU before they load
    assert ("barrier.cluster.arrive.relaxed.aligned" in ptx) == several
    assert "fence.acq_rel" not in ptx, "a fence that all loads wait for"
    assert "membar" not in ptx
    assert metadata.shared <= 192 << 10
    if cols == 524288:  # with all that the others have too
        registers_without_spills(ptx, tmp_path)


@pytest.mark.parametrize(
    ("pointer", "vector", "cols", "gives", "options"),
    [
        ("bf16", 8, 128256, ("target", "loss", "lse"), ()),
        ("bf16", 8, 128256, ("target", "loss", "lse", "y", "dloss"), ()),
        ("bf16", 8, 50257, ("target", "loss", "y"), ("SMOOTHED", "CAPPED")),
        ("bf16", 8, 128256, ("target", "loss", "lse"), ("CAPPED",)),
        ("bf16", 8, 128256, ("target", "loss", "lse", "y", "dloss"), ("CAPPED", "EACH")),
        ("fp32", 4, 128256, ("target", "loss", "y"), ("CAPPED",)),
        ("fp32", 4, 262144, ("target", "loss", "y"), ("SMOOTHED",)),
        ("bf16", 8, 151936, ("target", "loss", "entropy"), ()),
        ("bf16", 8, 262144, ("target", "loss", "y"), ()),
        ("bf16", 8, 128259, ("target", "loss", "lse", "y", "dloss"), ()),
        ("fp32", 4, 1001, ("y",), ("LOGARITHM",)),
        ("fp32", 4, 128, ("lse",), ()),
    ],
)
def test_rows_of_logits_meet_once_and_are_moved_in_whole_vectors(
    pointer: str,
    vector: int,
    cols: int,
    gives: tuple[str, ...],
    options: tuple[str, ...],
    tmp_path: Path,
) -> None:
    capped = "CAPPED" in options
    size = 4 if pointer == "fp32" or (capped and "y" in gives) else 2
    plan = plan_of(cols, size, vector, H200, None, None)
    assert plan is not None
    tensors = ("target", "loss", "entropy", "y", "lse", "dloss")
    constants: dict[str, Any] = {name: None for name in tensors if name not in gives}
    ends = cols % vector > 0
    constants |= {"CHUNKS": plan.chunks, "VECTOR": vector, "PACKED": plan.packed, "ENDS": ends}
    constants |= {"LANES": 32, "SEVERAL": False}
    constants |= {"EVEN": cols == plan.chunks * plan.chunk, "LOSS": "loss" in gives}
    constants["LOSS"] &= "entropy" not in gives
    flags = ("LOGARITHM", "CAPPED", "SMOOTHED", "EACH")
    constants |= {flag: flag in options for flag in flags} | {"LOADS": "", "STORES": ""}
    shape = {"num_warps": plan.warps, "num_ctas": plan.programs}
    if "LOGARITHM" not in options:
        shape["maxnreg"] = registers_of(plan, H200, "y" in gives, "entropy" in gives, capped)
    ptx, metadata = compiled(_rows, pointer, constants, (), **shape)
    assert len(re.findall(r"div\.[.\w]*f32", ptx)) == 1, "an element is divided"
    several = plan.programs > 1
    two = "SMOOTHED" in options or "entropy" in gives
    assert ptx.count("st.async") == several * (1 + two)
    assert ptx.count("redux.sync.max") == (plan.programs * plan.warps > 1)
    assert ptx.count("ld.global.cg.v4.b32") == plan.chunks
    assert ptx.count("st.global.v4.b32") == plan.chunks * ("y" in gives)
    # of a row beside these: its target and the target's logit, what is at its two ends, a gradient
    single = ptx.count("ld.global") - plan.chunks
    assert single == 2 * ("target" in gives) + ends + ("dloss" in gives)
    assert "fence.acq_rel" not in ptx
    assert "membar" not in ptx
    assert metadata.shared <= 1024
    at_once = AT_ONCE if plan.warps == 8 else 4  # programs of an SM
    if capped:
        assert registers_without_spills(ptx, tmp_path) <= HEAVY
    if not options:
        assert registers_without_spills(ptx, tmp_path) <= 65536 // (plan.warps * 32 * at_once)


@pytest.mark.parametrize(
    ("pointer", "cols", "gives"),
    [
        ("bf16", 256, ("target", "loss", "entropy")),
        ("bf16", 1000, ("target", "loss", "lse")),
        ("fp32", 2048, ("lse",)),
    ],
)
def test_a_warp_asks_for_all_of_its_narrow_rows_before_it_waits(
    pointer: str, cols: int, gives: tuple[str, ...], tmp_path: Path
) -> None:
    size = 4 if pointer == "fp32" else 2
    plan = narrow_cut(cols * size // 16, 16 // size, size)
    tensors = ("target", "loss", "entropy", "y", "lse", "dloss")
    constants: dict[str, Any] = {name: None for name in tensors if name not in gives}
    constants |= {"CHUNKS": plan.chunks, "VECTOR": 16 // size, "PACKED": plan.packed}
    constants |= {"LANES": plan.chunk * size // 16, "SEVERAL": True, "ENDS": False}
    constants |= {"EVEN": cols == plan.chunks * plan.chunk, "LOADS": "", "STORES": ""}
    constants |= dict.fromkeys(("LOGARITHM", "CAPPED", "SMOOTHED", "EACH"), False)
    constants["LOSS"] = "loss" in gives and "entropy" not in gives
    ptx, metadata = compiled(_rows, pointer, constants, (), num_warps=plan.warps, num_ctas=1)
    assert ptx.count("ld.global.cg.v4.b32") == plan.chunks
    assert ptx.count("ld.global") - plan.chunks == 2 * ("target" in gives)
    assert ptx.rindex("ld.global.cg") < ptx.index("shfl") < ptx.index("ex2")
    assert "bar.sync" not in ptx
    assert metadata.shared == 0
    registers = registers_without_spills(ptx, tmp_path)
    assert registers <= 128


@pytest.mark.parametrize(
    ("dim", "causal", "descriptors"),  # each two of them in each pair of values
    [(64, False, False), (64, True, True), (128, True, False), (128, False, True)],
)
def test_attention_multiplies_by_warp_groups_and_spills_nothing(
    tmp_path: Path, dim: int, causal: bool, descriptors: bool
) -> None:
    kernel = AttentionOnline(dim=dim, causal=causal)
    tile, stages = (kernel.block_m, kernel.keys), kernel.num_stages
    constants = {"DIM": dim, "BLOCK_M": tile[0], "BLOCK_N": tile[1], "STAGES": stages}
    constants |= {"CAUSAL": causal, "DESCRIPTORS": descriptors}
    types, attributes = dict.fromkeys(_attention.arg_names, "i32") | {"scale": "fp32"}, {}
    types |= dict.fromkeys(constants, "constexpr") | {"y": "*bf16"}
    for name, rows in zip("qkv", (tile[0], tile[1], tile[1]), strict=True):
        types[name] = f"tensordesc<bf16[1,{rows},{dim}]>" if descriptors else "*bf16"
    for name in ("y",) if descriptors else ("q", "k", "v", "y"):
        attributes[(_attention.arg_names.index(name),)] = [["tt.divisibility", 16]]
    source = ASTSource(_attention, types, constants, attributes)
    options = {"num_warps": kernel.num_warps}
    ptx, metadata = to_ptx(source, options)
    # two products in each of two loops, by steps of 16 along D and along the keys
    assert ptx.count("wgmma.mma_async") == 2 * (dim + tile[1]) // 16
    # two programs on an SM: one multiplies while the other takes exponentials
    assert 2 * (metadata.shared + SHARED_RESERVED) <= known(H200.shared_bytes_per_sm)
    assert ("cp.async.bulk.tensor" in ptx) == descriptors
    if not descriptors:
        sizes = set(re.findall(r"cp\.async\.c[ag]\.shared\.global .*?\], .*?\], (\w+)", ptx))
        assert sizes == {"0x10"}, "keys and values come by 16 bytes"
    assert registers_without_spills(ptx, tmp_path) <= 255


def test_exponentials_come_with_two_additions_each() -> None:
    ptx, _ = compiled(_exponentials, "bf16", {"BLOCK": 512}, (), num_warps=4)
    exponentials = ptx.count("ex2.approx")
    assert exponentials == 16 * 4  # a step of the loop, of the four elements of a thread
    assert len(re.findall(r"(add|fma|sub)\.\S*f32", ptx)) <= 2 * exponentials + 32
