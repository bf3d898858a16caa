"""The pinned set is whole, and as a wheel the kernels need torch and Triton alone."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
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
OF_TORCH = {"numpy", "sympy", "jinja2"}  # and of Triton's interpreter
ALONE = """
import sys
sys.modules |= dict.fromkeys(sys.argv[1:])  # importing these fails
import torch, kernels, softmax_roofline
from softmax_roofline import softmax
from softmax_roofline.calls import INTERPRETED
from softmax_roofline.softmax.online import Online
assert kernels.get_kernel("another package's") == "not ours"
x = torch.randn(3, 40, requires_grad=True)
torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
torch.testing.assert_close(softmax(x, 0, temperature=2.0), torch.softmax(x / 2, 0))
gradients = [torch.autograd.grad(f(x, -1)[:, 0].sum(), x)[0] for f in (softmax, torch.softmax)]
torch.testing.assert_close(*gradients)
if INTERPRETED:
    torch.testing.assert_close(Online()(x.detach()), torch.softmax(x.detach(), -1))
print(softmax_roofline.__version__, INTERPRETED)
"""
TWICE = """
import importlib, sys
import kernels
assert "torch" not in sys.modules  # a worker first decides about Triton's interpreter
import torch, kernels.functions, softmax_roofline
functions = [kernels.functions.softmax, softmax_roofline.softmax]
assert functions[0] is not functions[1]
functions.append(importlib.reload(kernels.functions).softmax)
x = torch.randn(3, 40)
for function in functions:
    class Module(torch.nn.Module):
        def forward(self, x):
            return function(x)
    exported = torch.export.export(Module(), (x,))
    assert "torch.ops.softmax_roofline.softmax.default" in exported.graph_module.code
    torch.testing.assert_close(exported.module()(x), torch.softmax(x, -1))
    torch.testing.assert_close(function(x), torch.softmax(x, -1))
print("done")
"""


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network in a copy: building leaves folders beside the source."""
    pytest.importorskip("setuptools", "77")
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "kernels", folder / "kernels")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    _pip("wheel", "--no-build-isolation", "-w", str(folder / "dist"), str(folder))
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """A folder of installed packages: ours, and another one that is called `kernels`."""
    folder = wheel.parents[1] / "site"
    _pip("install", "--target", str(folder), str(wheel))
    (folder / "kernels").mkdir()
    (folder / "kernels" / "__init__.py").write_text("get_kernel = lambda name: 'not ours'\n")
    return folder


def test_wheel_holds_every_module_and_says_what_it_needs(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        said = message_from_string(archive.read(metadata).decode())
    sources = [p for p in (ROOT / "kernels").rglob("*") if p.suffix in (".py", ".typed")]
    assert held == {f"softmax_roofline/{p.relative_to(ROOT / 'kernels')}" for p in sources}
    needs = [Requirement(line) for line in said.get_all("Requires-Dist", [])]
    assert {n.name for n in needs if "extra" not in str(n.marker)} == {"torch", "triton"}
    assert "harness" in said.get_all("Provides-Extra", [])
    assert said["Version"] == kernels.__version__


@pytest.mark.parametrize("interpreted", [False, True])
def test_installed_it_computes_with_torch_and_triton_alone_beside_another_kernels(
    interpreted: bool, site: Path
) -> None:
    asked = map(Requirement, PROJECT["optional-dependencies"]["harness"])
    harness = {canonicalize_name(one.name) for one in asked} - OF_TORCH
    installed = importlib.metadata.packages_distributions().items()
    absent = {m for m, owners in installed if harness & {*map(canonicalize_name, owners)}}
    assert {"hydra", "pandas", "pydantic", "yaml"} <= absent
    printed = _run(ALONE, [site], *absent, TRITON_INTERPRET=str(int(interpreted)))
    assert printed == f"{kernels.__version__} {interpreted}"


def test_two_names_in_one_process_share_the_operators(site: Path) -> None:
    assert _run(TWICE, [ROOT, site], TRITON_INTERPRET="1") == "done"


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", words[0], "--no-deps", "--no-index"]
    done = subprocess.run([*command, *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _run(program: str, path: list[Path], *words: str, **variables: str) -> str:
    """What a program prints that finds packages there, and torch where it is installed."""
    given = os.environ.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([*map(str, path), *([given] if given else [])])
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=path[0],
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
