"""The code that Triton compiles our kernels to for an H200, beside a recorded table; needs no GPU.

`compiled.csv` has a line for each launch of each kernel at shapes that a user meets: registers,
spills, shared memory, fences, and how memory is read and written. A change of a kernel that costs a
register, cuts a load or adds a wait shows here before anybody has timed it. After a change that is
meant, `TRITON_INTERPRET=0 python -m tests.kernels.test_ptx` writes the table's points anew; a line
of a kernel, a shape and a dtype alone is a point more. Another version of Triton compiles to other
code, and is not compared.
"""

import csv
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels.cross_entropy.cluster import CeGradCluster
from kernels.cross_entropy.rows import Call, Options
from kernels.kernel import Kernel
from tests.conf import built
from tests.kernels.conftest import H200, on_card

pytestmark = pytest.mark.ptx

VERSION = f"# triton {triton.__version__}"
TABLE = Path(__file__).parent / "compiled.csv"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# A kernel of conf/kernel may have an option of the loss behind a comma
OPTIONS = {"softcap": Options(softcap=30.0), "smoothing": Options(label_smoothing=0.1)}
DRIVER = SimpleNamespace(
    get_current_device=lambda: 0,
    get_current_stream=lambda _: 0,
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
)
LOAD = r"ld\.global|cp\.async\S*\.shared"
Line = dict[str, str]


def lines(name: str, rows: str, cols: str, dtype: str) -> Iterator[Line]:
    """What each launch of a kernel at a point is compiled to."""
    configuration, _, option = name.partition(", ")
    kernel = built(configuration)
    launched: list[Line] = []
    ran = JITFunction.run

    def run(kernel: Any, *given: Any, warmup: bool, **named: Any) -> None:
        launched.append(
            {"function": kernel.fn.__name__} | described(ran(kernel, *given, warmup=True, **named))
        )

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        # a cache of its own: a kernel without machine code must not stay in the user's
        patch.setenv("TRITON_CACHE_DIR", folder)
        patch.setattr(CUDABackend, "make_cubin", lambda *_: b"")
        patch.setattr(driver, "_active", DRIVER)
        patch.setattr(JITFunction, "run", run)
        on_card(patch, lambda _: H200)
        inputs = empty_inputs(kernel, (int(rows), int(cols)), DTYPES[dtype])
        if option:
            with_option(kernel, OPTIONS[option], *inputs)
        else:
            kernel(*inputs)
    for line in launched:
        yield {"kernel": name, "rows": rows, "cols": cols, "dtype": dtype} | line


def with_option(kernel: Any, options: Options, logits: torch.Tensor, target: torch.Tensor) -> None:
    """A loss, and its gradient where the kernel gives one."""
    loss = torch.empty(len(logits))
    gradient: Any = {"dlogits": logits} if isinstance(kernel, CeGradCluster) else {}
    kernel.run(Call(logits, target, options, loss=loss, **gradient))


def empty_inputs(
    kernel: Kernel, shape: tuple[int, int], dtype: torch.dtype
) -> Sequence[torch.Tensor]:
    """Inputs whose memory is never touched where they are large."""
    operation = kernel.operation
    if operation.name.startswith(("attention", "exponentials")):
        return operation.make_inputs(shape, dtype, "cpu", 0)
    layout = operation.layout(operation.inputs, shape, dtype)
    return [torch.empty(size, dtype=own) for size, own in layout]


def described(made: Any) -> Line:
    """One launch's code: from PTX, and from ptxas."""
    ptx = made.asm["ptx"]
    with TemporaryDirectory() as folder:
        (Path(folder) / "x.ptx").write_text(ptx, encoding="utf-8")
        command = [knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", "x.ptx", "-o", "x"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    registers, spills = (
        re.search(r"Used (\d+) registers", done.stderr),
        re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr),
    )
    assert registers is not None
    assert spills is not None
    # from the first of these on, threads wait for each other
    meeting = re.search(r"shfl|redux|bar\.sync|barrier\.cluster\.wait", ptx)
    counts = {
        "warps": made.metadata.num_warps,
        "programs": made.metadata.num_ctas,
        "registers": int(registers[1]),
        "spilled_bytes": int(spills[1]) + int(spills[2]),
        "shared_bytes": made.metadata.shared,
        "fences": len(re.findall(r"fence\.acq_rel|membar", ptx)),
        "barriers": len(re.findall(r"bar\.sync|barrier\.cluster\.wait", ptx)),
        "messages": ptx.count("st.async"),
        "loads": len(re.findall(LOAD, ptx)),
        "vector_loads": len(re.findall(r"ld\.global\S*\.v4|cp\.async\.cg", ptx)),
        "loads_before_meeting": len(re.findall(LOAD, ptx[: meeting.start() if meeting else None])),
        "stores": ptx.count("st.global"),
        "vector_stores": len(re.findall(r"st\.global\S*\.v4", ptx)),
        "exponentials": ptx.count("ex2.approx"),
        "divisions": len(re.findall(r"div\.[.\w]*f(32|64)", ptx)),
    }
    return {key: str(value) for key, value in counts.items()}


def recorded() -> list[Line]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(row for row in file if not row.startswith("#")))


@pytest.mark.parametrize("name", dict.fromkeys(line["kernel"] for line in recorded()))
def test_a_kernel_is_compiled_to_the_recorded_code(name: str) -> None:
    version = TABLE.read_text("utf-8").splitlines()[0]
    if version != VERSION:
        pytest.skip(f"recorded with {version[2:]}, and this is {VERSION[2:]}")
    known = [line for line in recorded() if line["kernel"] == name]
    assert compiled_anew(known) == known


def test_nothing_recorded_spills_fences_or_meets_more_often_than_it_must() -> None:
    for line in recorded():
        assert line["fences"] == "0", line
        # no preset measures an option of the loss: smoothing spills 24 bytes at 32000 columns
        # two registers of unaligned rows of kl_grad are cheaper than an SM's sixth program; those
        # of backward hold a row that is padded to 65536 elements
        most = 8 if line["kernel"] in ("kl_grad_auto", "backward") else 0
        assert int(line["spilled_bytes"]) <= most or ", " in line["kernel"], line
        if line["kernel"].partition(",")[0].endswith("cluster"):
            # before any thread waits, all of a row is asked for; statistics are exchanged once,
            # or twice where there are two of them; an element is never divided
            assert int(line["loads_before_meeting"]) >= int(line["vector_loads"]), line
            assert int(line["messages"]) <= 2 * (int(line["programs"]) > 1), line
            assert int(line["divisions"]) <= 1, line


def compiled_anew(known: list[Line]) -> list[Line]:
    """The lines of the same points, by today's code."""
    points = dict.fromkeys((one["kernel"], one["rows"], one["cols"], one["dtype"]) for one in known)
    return [line for point in points for line in lines(*point)]


if __name__ == "__main__":
    found = compiled_anew(recorded())
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{VERSION}\n")
        writer = csv.DictWriter(file, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    print(f"{len(found)} launches in {TABLE.name}")
