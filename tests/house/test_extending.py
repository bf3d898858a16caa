"""The recipes of README.md and docs/extending.md do what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from analysis.claims import judge
from analysis.load import load, read_inputs
from tests.conftest import QUICK, ROOT

PAGES = "\n".join((ROOT / name).read_text() for name in ("README.md", "docs/extending.md"))
BLOCK = re.compile(
    r"```(?:python|yaml)\n# ((?:kernels|conf|analysis/claims)/\S+)\n(.*?)```", re.DOTALL
)
COMMANDS = re.compile(
    r"^python -m experiments\.run (kernel=\S*(?:two_line|rms_norm)\S*) (grid=smoke gpu=cpu)$",
    re.MULTILINE,
)
RECIPES = dict(BLOCK.findall(PAGES))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of all that the recipes add, in a copy of the project."""
    folder = tmp_path_factory.mktemp("extended")
    for room in ("conf", "experiments", "kernels"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in RECIPES.items():
        if name.startswith("analysis"):
            continue
        assert not (folder / name).exists()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    kernels = ",".join(kernel.partition("=")[2] for kernel, _ in COMMANDS.findall(PAGES))
    words = ["experiments.run", f"kernel={kernels}", "grid=smoke", "gpu=cpu", "tracker=none"]
    command = [sys.executable, "-m", *words, *QUICK]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "outputs"


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [
        ("two_line", "softmax"),
        ("rms_norm_torch", "rms_norm"),
        ("clone", "copy"),
        ("scipy_softmax", "softmax"),
    ],
)
def test_what_a_recipe_adds_is_measured_and_stands_under_a_roof(
    kernel: str, operation: str, swept: Path
) -> None:
    frame = load(swept)
    own = frame[frame["kernel"] == kernel]
    assert set(own["operation"]) == {operation}
    assert set(own["status"]) <= {"ok", "unsupported"}
    timed = own[own["status"] == "ok"]
    assert len(timed) >= 3
    assert timed["time_us"].gt(0).all()
    assert timed["fraction_of_roof"].notna().all()


def test_the_norm_on_a_cluster_is_measured_where_there_are_clusters(tmp_path: Path) -> None:
    page = (ROOT / "docs/rms_norm.md").read_text()
    [code] = re.findall(r"```python\n(# rms_norm.py\n.*?)```", page, re.DOTALL)
    (tmp_path / "rms_norm.py").write_text(code)
    out = tmp_path / "out"
    words = ["experiments.bench", f"{tmp_path}/rms_norm.py::RmsNorm", "grid=smoke", f"out={out}"]
    done = subprocess.run(
        [sys.executable, "-m", *words, *QUICK], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    frame = load(out)
    assert set(frame[frame["kernel"] == "RmsNormTorch"]["status"]) == {"ok"}
    cluster = frame[frame["kernel"] == "RmsNormCluster"]
    assert all(cluster["reason"].str.startswith("needs thread-block clusters")) or set(
        cluster["status"]
    ) == {"ok"}


def test_the_harness_knows_no_operation_by_name() -> None:
    """Of analysis the sources' figures, claims and captions do, and one constant."""
    found = set()
    for room in ("experiments", "analysis"):
        word = r'"softmax"' if room == "analysis" else r"\bsoftmax(?!-roofline)"
        for path in (ROOT / room).rglob("*.py"):
            if re.search(word, path.read_text(), re.IGNORECASE):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == {"analysis/published.py"}


def test_a_claim_is_one_function() -> None:
    module = ModuleType("mine")
    exec((ROOT / "analysis/claims/e.py").read_text().partition("@claim")[0], vars(module))
    exec(RECIPES["analysis/claims/e.py"], vars(module))
    inputs = read_inputs(ROOT / "outputs" / "reference" / "h200" / "paper", None, "claims")
    [judged] = judge(inputs, "NVIDIA H200", [module])
    assert (judged.id, judged.verdict) == ("E2", "reproduced")
    assert judged.parts[0].estimate.value > 1
