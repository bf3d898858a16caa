"""The pinned set is whole, and the workflow uses it."""

from __future__ import annotations

import tomllib
from itertools import chain

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import kernels
from experiments.environment import wheels
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
PINNED = {canonicalize_name(r.name) for r in CONSTRAINTS}
PEERS = {
    *("liger-kernel", "flag-gems", "sqlalchemy", "quack-kernels", "apache-tvm-ffi", "einops"),
    *("torch-c-dlpack-ext", "nvidia-cutlass-dsl", "helion", "flash-attn-4", "fla-core", "trl"),
    *(f"nvidia-cutlass-dsl-libs-{part}" for part in ("base", "core", "cu12", "cu13")),
}


def test_constraints_pin_the_whole_set_exactly() -> None:
    extras = PROJECT["optional-dependencies"].values()
    asked = map(Requirement, [*PROJECT["dependencies"], *chain(*extras)])
    pins = {canonicalize_name(r.name): r for r in CONSTRAINTS}
    for requirement in asked:
        (pin,) = pins[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version)
    of_torch = {name for name in PINNED - PEERS if name.startswith(("nvidia-", "cuda-"))}
    assert of_torch == {"nvidia-ml-py"}


def test_a_wheelhouse_is_pinned_and_holds_what_is_asked_for() -> None:
    without = {"torch", "triton", "setuptools"}
    assert PINNED - set(wheels("peers", "slurm", "docs", "notebook", "trainer")) == without
    assert set(wheels("peers")) - set(wheels()) == PEERS
    assert set(wheels("slurm")) - set(wheels()) == {"submitit", "cloudpickle"}


def test_citation_and_changelog_are_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (kernels.__version__, PROJECT["license"])
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert f"\n## {kernels.__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_workflow_runs_ci_on_every_python_that_is_supported() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job, rows = workflow["jobs"]["test"], workflow["jobs"]["rows"]
    assert "make validate" in rows["steps"][-1]["run"]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    supported = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(30) if supported.contains(f"3.{minor}")]
    assert job["strategy"]["matrix"]["python"] == minors
