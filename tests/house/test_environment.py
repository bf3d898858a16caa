"""The pinned set is whole, and a wheelhouse of it lacks nothing."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from experiments.environment import wheels
from tests.conftest import ROOT

CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PINNED = {canonicalize_name(r.name) for r in CONSTRAINTS}
PEERS = {
    *("liger-kernel", "flag-gems", "sqlalchemy", "quack-kernels", "apache-tvm-ffi", "einops"),
    *("torch-c-dlpack-ext", "nvidia-cutlass-dsl", "helion"),
    *(f"nvidia-cutlass-dsl-libs-{part}" for part in ("base", "core", "cu12", "cu13")),
}


def test_constraints_pin_the_whole_set_exactly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = map(
        Requirement, project["dependencies"] + extras["dev"] + extras["peers"] + extras["slurm"]
    )
    pins = {canonicalize_name(r.name): r for r in CONSTRAINTS}
    for requirement in asked:
        (pin,) = pins[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version)
    of_torch = {name for name in PINNED - PEERS if name.startswith(("nvidia-", "cuda-"))}
    assert of_torch == {"nvidia-ml-py"}


def test_a_wheelhouse_is_pinned_and_holds_what_is_asked_for() -> None:
    without = {"torch", "triton", "setuptools"}
    assert {"hydra-core", "wandb", "pydantic", "nvidia-ml-py", "antlr4-python3-runtime"} <= {
        *wheels()
    } <= PINNED  # fmt: skip
    assert PINNED - set(wheels("all", "peers", "slurm")) == without
    assert set(wheels("peers")) - set(wheels()) == PEERS
    assert set(wheels("slurm")) - set(wheels()) == {"submitit", "cloudpickle"}
