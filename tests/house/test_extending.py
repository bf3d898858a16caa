"""The recipes of README.md and docs/extending.md do what they say."""

import re
import shutil
import subprocess
import sys
from types import ModuleType

import pandas as pd
import pytest

from analysis.claims import judge
from analysis.load import load, read_inputs
from experiments.data.rows import rows_files
from tests.conftest import QUICK, REFERENCE, ROOT

PAGES = "\n".join((ROOT / name).read_text() for name in ("README.md", "docs/extending.md"))
BLOCK = re.compile(
    r"```(?:python|yaml)\n# ((?:kernels|conf|analysis/claims)/\S+)\n(.*?)```", re.DOTALL
)
EDIT = re.compile(r"^# in (\S+?)(?:, (?:class (\w+)|what (\w+) returns))?\n(.+\n)", re.MULTILINE)
COMMANDS = re.compile(
    r"^python -m experiments\.run (kernel=\S*(?:two_line|rms_norm)\S*) (grid=smoke gpu=cpu)$",
    re.MULTILINE,
)
RECIPES = dict(BLOCK.findall(PAGES))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """A sweep of all that the recipes add, in a copy of the project."""
    folder = tmp_path_factory.mktemp("extended")
    for room in ("conf", "experiments", "kernels"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in RECIPES.items():
        if name.startswith("analysis"):
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    edits = EDIT.findall(PAGES)
    assert len(edits) == 6
    for name, kind, function, line in edits:
        path = folder / name
        text = path.read_text()
        if kind:  # before the first field of the class
            place = rf"class {kind}\(.*?^(?=    \w+: )"
        elif function:  # before the first key that it returns
            place = rf'def {function}\(.*?^(?=        ")'
        else:
            place = ".*"
        head = re.search(f"^{place}", text, re.DOTALL | re.MULTILINE)
        assert head is not None, place
        path.write_text(text[: head.end()] + line + text[head.end() :])
    kernels = ",".join(kernel.partition("=")[2] for kernel, _ in COMMANDS.findall(PAGES))
    page = (ROOT / "docs/rms_norm.md").read_text()
    [code] = re.findall(r"```python\n(# rms_norm.py\n.*?)```", page, re.DOTALL)
    (folder / "rms_norm.py").write_text(code)
    words = [f"kernel={kernels},fused_row,outside", "grid=smoke", "gpu=cpu", "tracker=none"]
    words += ["kernel.fused_row.stages=1,2", "timing.rest_s=0.5", *QUICK]
    words += ["kernel.file=rms_norm.py", "kernel.function=RmsNormTorch,RmsNormCluster"]
    command = [sys.executable, "-m", "experiments.run", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for path in rows_files(folder / "outputs"):  # the field of the recipe is none of ours
        text, field = path.read_text(), '"reserved_bytes":null,'
        assert text.count(field) == text.count("\n")
        path.write_text(text.replace(field, ""))
    return load(folder / "outputs")


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
    kernel: str, operation: str, swept: pd.DataFrame
) -> None:
    own = swept[swept["kernel"] == kernel]
    assert set(own["operation"]) == {operation}
    assert set(own["status"]) <= {"ok", "unsupported"}
    timed = own[own["status"] == "ok"]
    assert len(timed) >= 3
    assert timed["time_us"].gt(0).all()
    assert timed["fraction_of_roof"].notna().all()


def test_a_new_tunable_is_swept_and_what_a_cpu_cannot_time_or_run_says_so(
    swept: pd.DataFrame,
) -> None:
    by_kernel = dict(iter(swept.groupby("kernel")))
    assert {params["stages"] for params in by_kernel["fused_row"]["params"]} == {1, 2}
    interpreted = by_kernel["rms_norm_row"]
    assert set(interpreted["status"]) == set(by_kernel["RmsNormTorch"]["status"]) == {"ok"}
    assert interpreted["time_us"].isna().all()
    cluster = by_kernel["RmsNormCluster"]
    refused = all(cluster["reason"].str.startswith("needs thread-block clusters"))
    assert refused or set(cluster["status"]) == {"ok"}


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
    inputs = read_inputs(REFERENCE / "h200" / "paper", None, "claims")
    [judged] = judge(inputs, "NVIDIA H200", [module])
    assert (judged.id, judged.verdict) == ("E2", "reproduced")
    assert judged.parts[0].estimate.value > 1
