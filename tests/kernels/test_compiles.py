"""The interpreter is laxer than the compiler: what it runs may still not compile for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.copy.copy_triton import _copy
from kernels.language import tl
from kernels.softmax.fused import SCRATCH_BYTES, _fused
from kernels.softmax.fused_row import _fused_row
from kernels.softmax.online import _online
from kernels.softmax.three_pass import _three_pass

AS_IT_COMES = {"STAGES": 1, "REVERSE": False, "CAPPED": False}
AS_IT_COMES |= {"FIRST_LOAD": "", "SECOND_LOAD": "", "STORE": ""}

for kernel in (_copy, _fused, _fused_row, _online, _three_pass):
    for pointer, statistics in (("fp32", "fp32"), ("bf16", "fp32"), ("fp16", "fp64")):
        types, fixed, attributes = {}, {"col_stride": 1}, {}
        constants = {"BLOCK": 4096, "STAGES": 4, "STATISTICS": tl.dtype(statistics)}
        constants |= {"LOADS": "", "STORES": "", "DEPENDENT": True}
        constants |= AS_IT_COMES if kernel is _online else {}
        for place, name in enumerate(kernel.arg_names):
            types[name] = {"x": f"*{pointer}", "y": f"*{pointer}"}.get(name, "i32")
            if name in constants | fixed:
                types[name] = "constexpr"
                fixed[name] = (constants | fixed)[name]
            elif name != "tiles":
                attributes[(place,)] = [["tt.divisibility", 16]]
        fixed = {name: value for name, value in fixed.items() if name in types}
        source = ASTSource(kernel, types, fixed, attributes)
        compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
        ptx = compiled.asm["ptx"]
        if kernel is _copy:
            assert ptx.index("griddepcontrol.wait") < ptx.index("ld.global")
        assert "st.global.v4.b32" in ptx, f"{kernel} does not store whole vectors"
        row = 4096 * (4 if pointer == "fp32" else 2)
        if kernel is _fused:
            assert "cp.async" in ptx, "the loads of rows are not pipelined"
            assert 3 * row <= compiled.metadata.shared <= 3 * row + SCRATCH_BYTES
print("compiled")
"""


def test_every_triton_kernel_compiles_for_an_h200_with_whole_vectors(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path)}
    script = tmp_path / "compile_all.py"
    script.write_text(COMPILE, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.stdout.strip() == "compiled", run.stderr[-2000:]
