"""Why there are no counters is one line saying what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.doubles.ncu import counters, executable

FORBIDDEN = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0. For instructions on enabling permissions and to "
    "get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\\n"
)


def test_forbidden_counters_are_one_line_saying_what_to_do(tmp_path: Path) -> None:
    executable(tmp_path, f'log.write_text("{FORBIDDEN}")\nsys.exit(1)\n')
    done = counters(tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "ERR_NVGPUCTRPERM" in done.stderr
    assert "run as root" in done.stderr
    assert "NVreg_RestrictProfilingToAdminUsers=0" in done.stderr


def test_an_ncu_that_fails_otherwise_is_quoted(tmp_path: Path) -> None:
    executable(
        tmp_path,
        'log.write_text("==ERROR== Cuda driver is not compatible with Nsight Compute.\\n")\n',
    )
    done = counters(tmp_path)
    assert done.returncode == 2
    assert "error: ncu: Cuda driver is not compatible with Nsight Compute." in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_the_profiled_command_says_so_in_one_line(tmp_path: Path) -> None:
    executable(
        tmp_path,
        "import subprocess\n"
        'log.write_text("==WARNING== No kernels were profiled.\\n")\n'
        "sys.exit(subprocess.call(command))\n",
    )
    done = counters(tmp_path, "kernel=torch", "grid=point", "grid.rows=2", "grid.cols=2")
    assert done.returncode == 2
    assert done.stderr == "error: profiling needs a CUDA device, and there is none here\n"
