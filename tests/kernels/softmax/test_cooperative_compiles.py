from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import re, subprocess, sys, tempfile
from triton import compile, knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.device import Device
from kernels.softmax.cooperative import _cooperative
from kernels.softmax.cooperative import slices_of

h200 = Device("cuda", "NVIDIA H200", (9, 0), 132, 32, 65536, 233472, 232448, 64)
for pointer in ("fp32", "bf16"):
    for rows, cols in ((1, 131072), (1, 524288), (8, 131072), (4096, 1048576)):
        for ahead in (False, True) if pointer == "fp32" else (False,):
            cut = slices_of(rows, cols, h200, True, ahead)
            fixed = {"col_stride": 1, "SLOTS": cut.slots, "BLOCK": cut.block, "AHEAD": ahead}
            fixed |= {"LOADS": "", "STORES": ""}
            types = dict.fromkeys(_cooperative.arg_names, "i32")
            types |= {"x": f"*{pointer}", "y": f"*{pointer}", "words": "*i64"}
            types |= dict.fromkeys(fixed, "constexpr")
            attributes = {
                (place,): [["tt.divisibility", 16]]
                for place, name in enumerate(_cooperative.arg_names)
                if name in ("x", "y", "words", "cols", "row_stride")
            }
            registers = cut.registers(ahead, True, h200)
            options = {"num_warps": cut.warps, "maxnreg": registers, "enable_fp_fusion": False}
            compiled = compile(
                ASTSource(_cooperative, types, fixed, attributes),
                target=GPUTarget("cuda", 90, 32),
                options=options | {"launch_cooperative_grid": True},
            )
            ptx = compiled.asm["ptx"]
            what = f"{pointer} {cut} ahead={ahead}"
            assert compiled.metadata.launch_cooperative_grid, what
            assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx, what
            assert not re.search(r"(ld|st)[.]global[.]b(16|32)", ptx), what
            assert "ld.relaxed.gpu.global.b64" in ptx, what
            assert "atom.global.gpu.relaxed.exch.b64" in ptx, what
            assert "fma" not in ptx, what  # which would let threads sum unlike each other
            with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
                file.write(ptx)
                file.flush()
                command = [knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", file.name]
                told = subprocess.run(
                    [*command, "-o", file.name + "as"], capture_output=True, text=True, check=True
                ).stderr
            assert "0 bytes spill stores, 0 bytes spill loads" in told, what + told
            assert int(re.search("Used ([0-9]+) registers", told)[1]) <= registers, what + told
print("compiled")
"""


def test_the_rules_choices_compile_for_an_h200_with_whole_vectors_and_no_spills(
    tmp_path: Path,
) -> None:
    pytest.importorskip("triton")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    script = tmp_path / "compile_all.py"
    script.write_text(COMPILE, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.stdout.strip() == "compiled", run.stderr[-2000:]
