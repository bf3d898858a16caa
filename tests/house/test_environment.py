"""The pinned set is whole, a wheelhouse of it lacks nothing, and .venv has a command of ours."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from experiments.environment import NAME, wheels, write_command
from tests.conftest import ROOT

CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PINNED = {canonicalize_name(r.name) for r in CONSTRAINTS}
PEERS = {
    *("liger-kernel", "flag-gems", "sqlalchemy", "quack-kernels", "apache-tvm-ffi", "einops"),
    *("torch-c-dlpack-ext", "nvidia-cutlass-dsl", "helion", "flash-attn-4"),
    *(f"nvidia-cutlass-dsl-libs-{part}" for part in ("base", "core", "cu12", "cu13")),
}


def test_constraints_pin_the_whole_set_exactly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = map(Requirement, [*project["dependencies"], *chain(*extras.values())])
    pins = {canonicalize_name(r.name): r for r in CONSTRAINTS}
    for requirement in asked:
        (pin,) = pins[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version)
    of_torch = {name for name in PINNED - PEERS if name.startswith(("nvidia-", "cuda-"))}
    assert of_torch == {"nvidia-ml-py"}


def test_a_wheelhouse_is_pinned_and_holds_what_is_asked_for() -> None:
    without = {"torch", "triton", "setuptools"}
    assert PINNED - set(wheels("peers", "slurm", "docs", "notebook")) == without
    assert set(wheels("peers")) - set(wheels()) == PEERS
    assert set(wheels("slurm")) - set(wheels()) == {"submitit", "cloudpickle"}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("kernel=", {f"kernel={path.stem}" for path in (ROOT / "conf" / "kernel").glob("*.yaml")}),
        ("experiment=pap", {"experiment=paper"}),
        ("kernel=online kernel.b", {"kernel.block_size="}),
    ],
)
def test_bash_completes_the_command(typed: str, offered: set[str], tmp_path: Path) -> None:
    python = tmp_path / "with a space" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    write_command(python)
    (tmp_path / NAME).symlink_to(python.with_name(NAME))  # Hydra's function wants no space
    script = f"""PATH="{tmp_path}:$PATH"
        source <({NAME} -sc install=bash)
        [[ $(complete -p {NAME}) == *hydra_bash_completion* ]] || exit
        COMP_LINE="{NAME} {typed}" COMP_WORDS=({NAME} {typed})
        COMP_POINT=${{#COMP_LINE}} COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        hydra_bash_completion && printf '%s\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert set(done.stdout.split()) == offered, done.stderr
