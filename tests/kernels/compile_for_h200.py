"""Compiles the Triton kernels for an H200 in one process, with no GPU and no interpreter.

``python -m tests.kernels.compile_for_h200 OUT`` writes ``NAME.ptx`` for each case and cases.json: a
case's shared memory, warps and what else its test compares the code with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.copy.copy_triton import _copy
from kernels.language import next_power_of_two, tl, triton_version
from kernels.softmax.along import _along
from kernels.softmax.cluster import _cluster, cut
from kernels.softmax.cluster_reduce import REDUCES_FROM
from kernels.softmax.cooperative import _cooperative, slices_of
from kernels.softmax.fused import _fused
from kernels.softmax.fused_multirow import _fused_multirow, lanes_by_tile
from kernels.softmax.fused_row import _fused_row
from kernels.softmax.online import EVICT, _online
from kernels.softmax.three_pass import _three_pass
from kernels.softmax_backward.backward import _backward
from tests.kernels.conftest import H200

F32, F64 = tl.float32, tl.float64
WHOLE = ("rows", "cols", "row_stride")  # divisible by 16


class Cases:
    """Compiles cases and writes down what came of them."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.facts: dict[str, dict[str, Any]] = {}

    def add(
        self,
        name: str,
        kernel: Any,
        pointer: str,
        constants: dict[str, Any],
        whole: tuple[str, ...] = (),
        facts: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Compiles for ``pointer`` elements; ``whole`` parameters are divisible by 16.

        Of ``constants`` the kernel takes those that it has; ``facts`` are for its test, ``options``
        Triton's own.
        """
        pointers = dict.fromkeys(("x", "y", "dy", "dx"), f"*{pointer}") | {"words": "*i64"}
        fixed = {"col_stride": 1} | constants
        types, attributes = {}, {}
        for place, parameter in enumerate(kernel.arg_names):
            types[parameter] = pointers.get(parameter, "fp64" if parameter == "inverse" else "i32")
            if parameter in fixed:
                types[parameter] = "constexpr"
            elif parameter in pointers or parameter in whole:
                attributes[(place,)] = [["tt.divisibility", 16]]
        fixed = {key: value for key, value in fixed.items() if key in types}
        make = GluonASTSource if kernel is _cluster else ASTSource
        source = make(kernel, types, fixed, attributes)
        compiled = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        (self.out / f"{name}.ptx").write_text(compiled.asm["ptx"], encoding="utf-8")
        cooperative = compiled.metadata.launch_cooperative_grid
        known = {"shared": compiled.metadata.shared, "cooperative": cooperative}
        self.facts[name] = known | (facts or {})


def tiled(cases: Cases) -> None:
    """The kernels that take a row in tiles or whole, with two sets of dtypes."""
    evict = dict(zip(("FIRST_LOAD", "SECOND_LOAD", "STORE"), EVICT["none"], strict=True))
    plain = {"BLOCK": 4096, "STAGES": 4, "LOADS": "", "STORES": "", "DEPENDENT": True}
    for pointer, statistics, row in (("fp32", F32, 16384), ("fp16", F64, 8192)):
        constants = plain | {"STATISTICS": statistics}
        for kernel in (_copy, _fused, _fused_row, _three_pass):
            name = f"tiled{kernel.__name__}_{pointer}"
            cases.add(name, kernel, pointer, constants, WHOLE, {"row": row}, num_warps=8)
        for name, change in {
            "none": evict | {"STAGES": 1, "REVERSE": False, "CAPPED": False},
            "first": dict(zip(evict, EVICT["first"], strict=True)),
            "last_first": dict(zip(evict, EVICT["last_first"], strict=True)) | {"STAGES": 1},
        }.items():
            way = {"STAGES": 3, "REVERSE": True, "CAPPED": True} | change
            name = f"tiled_online_{name}_{pointer}"
            cases.add(name, _online, pointer, constants | way, WHOLE, num_warps=8)
    for kernel in (_along, _backward):
        constants = {"BLOCK": 1024, "WIDTH": 4, "WHOLE": False, "STATISTICS": F32, "inner": 1}
        cases.add(f"lines{kernel.__name__}", kernel, "fp32", constants, num_warps=8)


def multirow(cases: Cases) -> None:
    """Pointer, vector, columns, rows and warps of a program, and what else is 1."""
    for pointer, vector, cols, rows, warps, ones in (
        ("fp32", 4, 64, 16, 4, ()),
        ("fp32", 4, 1000, 4, 4, ()),
        ("fp32", 4, 1024, 1, 1, ("rows",)),
        ("bf16", 8, 8, 64, 1, ("vectors",)),
        ("bf16", 8, 256, 2, 1, ("row_stride",)),
        ("bf16", 8, 512, 4, 2, ()),
        ("fp64", 2, 128, 8, 4, ()),
    ):
        width = min(lanes_by_tile(rows, warps, cols * 16 // vector) * vector, 2 * cols)
        width = min(width, next_power_of_two(cols))
        constants = {"VECTOR": vector, "ROWS": rows, "WIDTH": width, "PIECES": -(-cols // width)}
        constants |= {"STATISTICS": F64 if pointer == "fp64" else F32, "DEPENDENT": True}
        constants |= {"LOADS": "", "STORES": ""} | dict.fromkeys(ones, 1)
        facts = {"whole": "v2.b64" if pointer == "fp64" else "v4.b32", "reduces": cols > vector}
        name = f"multirow_{pointer}_{cols}"
        cases.add(name, _fused_multirow, pointer, constants, (), facts, num_warps=warps)


def cooperative(cases: Cases) -> None:
    """What the rule takes for some shapes of an H200."""
    for pointer, rows, cols, ahead in (
        ("fp32", 1, 131072, False),
        ("fp32", 4096, 1 << 20, True),
        ("bf16", 8, 131072, False),
    ):
        plan = slices_of(rows, cols, H200, True, ahead)
        registers = plan.registers(ahead, True, H200)
        constants = {"SLOTS": plan.slots, "BLOCK": plan.block, "AHEAD": ahead}
        cases.add(
            f"cooperative_{pointer}_{cols}",
            _cooperative,
            pointer,
            constants | {"LOADS": "", "STORES": ""},
            ("cols", "row_stride"),
            {"registers": registers},
            num_warps=plan.warps,
            maxnreg=registers,
            enable_fp_fusion=False,
            launch_cooperative_grid=True,
        )


def cluster(cases: Cases) -> None:
    """What the rule takes for some widths of an H200, with and without hints."""
    for pointer, vector, cols, hint in (
        ("fp32", 4, 4, ""),
        ("fp32", 4, 1024, ""),
        ("fp32", 4, 16384, "evict_last"),
        ("fp32", 4, 524288, "evict_last"),
        ("fp32", 1, 1001, "evict_last"),
        ("bf16", 8, 32000, "evict_last"),
        ("fp16", 8, 524288, ""),
    ):
        plan = cut((4096, cols), 4 if pointer == "fp32" else 2, vector, 132)
        assert plan is not None
        constants = {"CHUNKS": plan.chunks, "SHARED": plan.shared, "VECTOR": vector}
        constants |= {"EVEN": cols == plan.chunks * plan.chunk, "PACKED": plan.packed}
        constants |= {"LOADS": hint, "STORES": hint, "DEPENDENT": True}
        if cols == vector:  # Triton makes a constant of an argument that is 1
            constants |= {"vectors": 1, "row_vectors": 1}
        facts = {"hint": hint, "held": plan.chunks - plan.shared, "waiting": plan.shared}
        facts |= {"whole": vector > 1, "programs": plan.programs, "warps": plan.warps}
        options = {"num_warps": plan.warps, "num_ctas": plan.programs}
        cases.add(f"cluster_{pointer}_{cols}", _cluster, pointer, constants, (), facts, **options)


def main(out: Path) -> None:
    """Compiles all cases."""
    cases = Cases(out)
    for some in (tiled, multirow, cooperative, cluster):
        some(cases)
    if tuple(map(int, triton_version().split(".")[:2])) >= REDUCES_FROM:
        constants = {"BLOCK": 65536, "STATISTICS": F32}
        options = {"num_warps": 8, "num_ctas": 8}
        cases.add("cluster_reduce", _fused_row, "fp32", constants, WHOLE, **options)
    (out / "cases.json").write_text(json.dumps(cases.facts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
