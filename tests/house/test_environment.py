"""The pinned set is whole, and a wheelhouse of it lacks nothing."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires

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
    *("torch-c-dlpack-ext", "nvidia-cutlass-dsl"),
    *(f"nvidia-cutlass-dsl-libs-{part}" for part in ("base", "core", "cu12", "cu13")),
}
SLURM = {"submitit", "cloudpickle"}


def closure(*names: str) -> set[str]:
    """These distributions and all that they require on this interpreter."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            needs = [Requirement(line) for line in requires(name) or []]
            waiting += [
                canonicalize_name(need.name)
                for need in needs
                if need.marker is None or need.marker.evaluate({"extra": ""})
            ]
    return found


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


def test_wheelhouse_holds_all_that_its_packages_need() -> None:
    assert closure("hydra-core", "wandb", "pydantic", "nvidia-ml-py") <= set(wheels())
    assert set(wheels()) <= PINNED


def test_wheelhouse_of_everything_is_everything_but_torch() -> None:
    without = {"torch", "triton", "setuptools"}
    assert PINNED - set(wheels("all")) == without | PEERS | SLURM
    assert PINNED - set(wheels("all", "peers", "slurm")) == without


def test_wheelhouse_takes_the_extras_that_are_asked_for() -> None:
    assert set(wheels("peers")) - set(wheels()) == PEERS
    assert set(wheels("slurm")) - set(wheels()) == SLURM
