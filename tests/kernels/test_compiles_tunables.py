"""What tunables and shapes make of a compiled kernel, seen in its code without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
from triton import __version__, compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.language import tl

def build(kernel, pointer, constants, whole=(), ones=(), **options):
    types, fixed, attributes = {}, dict(constants) | dict.fromkeys(ones, 1), {}
    for place, name in enumerate(kernel.arg_names):
        types[name] = {"x": f"*{pointer}", "y": f"*{pointer}"}.get(name, "i32")
        if name in fixed:
            types[name] = "constexpr"
        elif name in ("x", "y", *whole):
            attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, types, fixed, attributes)
    return compile(source, target=GPUTarget("cuda", 90, 32), options=options)
"""

MULTIROW = """
from kernels.softmax.fused_multirow import _fused_multirow as kernel
from kernels.softmax.fused_multirow import lanes_by_tile

for pointer, vector, statistics in (("fp32", 4, "fp32"), ("bf16", 8, "fp32"), ("fp64", 2, "fp64")):
    for cols, rows, warps, ones in (
        (64, 16, 4, ()), (256, 8, 4, ()), (1000, 4, 4, ()), (1024, 1, 1, ("rows",)),
        (vector, 64, 1, ("vectors",)), (256, 2, 1, ("row_stride",)),
        (128, 8, 4, ()), (512, 4, 2, ()),
    ):
        lanes = lanes_by_tile(rows, warps, cols * 16 // vector)
        width = min(lanes * vector, 1 << (cols - 1).bit_length())
        constants = {
            "VECTOR": vector, "ROWS": rows, "WIDTH": width, "PIECES": -(-cols // width),
            "STATISTICS": tl.dtype(statistics), "col_stride": 1, "LOADS": "", "STORES": "",
            "DEPENDENT": True,
        }
        compiled = build(kernel, pointer, constants, ones=ones, num_warps=warps)
        ptx, place = compiled.asm["ptx"], f"{pointer} {cols} {rows} {warps}"
        assert compiled.metadata.shared == 0, f"{place}: a row leaves its warp"
        assert "bar.sync" not in ptx, f"{place}: warps wait for each other"
        whole = "v2.b64" if pointer == "fp64" else "v4.b32"
        loads = ptx.count("ld.global")
        assert loads == ptx.count(f"ld.global.{whole}") > 0, f"{place}: cut loads"
        assert ptx.count("st.global") == ptx.count(f"st.global.{whole}") == loads, place
        first_wait = ptx.find("shfl.sync") if cols > vector else len(ptx)
        assert ptx.rindex("ld.global") < first_wait, f"{place}: a load waits"
        assert ptx.index("griddepcontrol.wait") < ptx.index("ld.global"), f"{place}: loads early"
"""

ONLINE = """
from kernels.softmax.online import EVICT, _online as kernel

def ptx(capped=False, stages=1, evict="none"):
    first, second, store = EVICT[evict]
    constants = {
        "BLOCK": 4096, "STAGES": stages, "REVERSE": capped, "CAPPED": capped,
        "FIRST_LOAD": first, "SECOND_LOAD": second, "STORE": store,
        "STATISTICS": tl.float32, "col_stride": 1,
    }
    whole = ("rows", "cols", "row_stride")
    return build(kernel, "fp32", constants, whole, num_warps=8).asm["ptx"]

plain = ptx()
assert "evict" not in plain
assert "cp.async" not in plain
assert "%nctaid" not in plain, "the loop over rows is still there where each row has a program"
assert "%nctaid" in ptx(capped=True)
assert "cp.async" in ptx(stages=3)
assert "evict_first" in ptx(evict="first")
assert "evict_last" not in ptx(evict="first")
assert "evict_last" in ptx(capped=True, evict="last_first")
"""

CLUSTER_REDUCE = """
from kernels.softmax.cluster_reduce import REDUCES_FROM
from kernels.softmax.fused_row import _fused_row as kernel

if tuple(map(int, __version__.split(".")[:2])) >= REDUCES_FROM:
    for pointer, block, ctas in (("fp32", 65536, 8), ("bf16", 262144, 16)):
        constants = {"BLOCK": block, "STATISTICS": tl.float32, "col_stride": 1}
        whole = ("cols", "row_stride")
        ptx = build(kernel, pointer, constants, whole, num_warps=8, num_ctas=ctas).asm["ptx"]
        assert "mapa" in ptx, "no CTA looks into another's shared memory"
        assert "ld.global.v4.b32" in ptx
"""


@pytest.mark.parametrize(
    "script", [MULTIROW, ONLINE, CLUSTER_REDUCE], ids=["multirow", "online", "cluster_reduce"]
)
def test_the_code_is_what_the_tunables_promise(script: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    path = tmp_path / "compile_some.py"  # Triton reads a kernel's source from its file
    path.write_text(PREAMBLE + script + "print('compiled')", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=200
    )
    assert run.stdout.strip() == "compiled", run.stderr[-2000:]
