"""What README.md and docs/ ask people to type is there; their links lead somewhere."""

import json
import re
import shlex
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import matplotlib
import pytest
import torch
from matplotlib import pyplot

from analysis.figures.specs import D_FIG1
from analysis.selection import select
from docs.llama_step import main as llama_step
from experiments.data.rows import Row
from experiments.parent.jobs import combinations
from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.kl_div.functions import kl_div
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp
from tests.conf import options
from tests.conftest import ROOT, Composed

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
ALL = "\n".join(PAGES.values())
RUN = "python -m experiments.run "
# by recipes and a folder of one's own, which have tests
ADDED = ("two_line", "rms_norm_torch", "stages=", "process", "--config-dir")
COMMANDS = [
    line.partition("  #")[0].removeprefix(RUN)
    for line in ALL.splitlines()
    if line.startswith(RUN) and "--help" not in line and not any(one in line for one in ADDED)
]
MARKED = re.compile(r"<!-- include: \w+ -->.*?<!-- end -->|^```.*?^```", re.DOTALL | re.MULTILINE)
MEASURED = re.compile(r"\d[\d.,]*(?: ?%| ?µs| ?GB/s| times as | of the copy| ?×(?= ))")


def test_every_command_composes(composed: Composed) -> None:
    assert len(COMMANDS) > 10
    for arguments in COMMANDS:
        first, *_ = combinations(shlex.split(arguments))
        assert composed(*first).out


def test_every_make_target_preset_module_and_variable_they_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (targets,) = re.findall(r"^targets = (.*)$", makefile.replace("\\\n", " "), re.MULTILINE)
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)\b", ALL, re.MULTILINE))
    assert {"sweep", "test", "figures", "wheelhouse", "sync", "docs"} <= named <= {*targets.split()}
    presets = set(re.findall(r"\b(?:EXPERIMENT|experiment)=([a-z_/]+)", ALL)) - {"name"}
    assert {"paper", "limits", "smoke"} <= presets <= {*options("experiment")}
    assert all(map(find_spec, re.findall(r"python -m (\S+[a-z])", ALL)))
    lines = [line for line in ALL.splitlines() if "make " in line]
    variables = set(re.findall(r"\b([A-Z]{2,})=", " ".join(lines)))
    assert {"EXPERIMENT", "VENV", "ROWS"} <= variables
    assert [v for v in variables if not re.search(rf"\b{v}\b", makefile)] == []


def test_pages_name_every_option_of_a_group_and_every_field_of_a_row() -> None:
    for page, names in (
        ("kernels", options("kernel")),
        ("configuration", options("experiment") + options("grid")),
        ("rows", Row.model_fields),
    ):
        quoted = re.findall(r"`([^`\n]+)`", PAGES[f"docs/{page}.md"])
        lacking = {*names} - {word for words in quoted for word in words.split()}
        assert not lacking, f"docs/{page}.md does not name {', '.join(lacking)}"


def test_examples_of_the_functions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # the package is the room `kernels`: tests/house/test_package.py installs it
    package: Any = ModuleType("softmax_roofline")
    for function in (softmax, logsumexp, log_softmax, cross_entropy, logprob_entropy, kl_div):
        setattr(package, function.__name__, function)
    monkeypatch.setitem(sys.modules, "softmax_roofline", package)
    examples = re.findall(r"```python\n(import torch\n.*?)```", ALL, re.DOTALL)
    assert len(examples) == 4
    small = {'"cuda"': '"cpu"', "8, 512, 1000": "2, 5, 40", "512": "5", "50257": "40", "128": "3"}
    found: dict[str, torch.Tensor] = {}
    for example in examples:
        for size, less in small.items():
            example = example.replace(size, less)
        exec(example, found)
    sums = found["y"].detach().float().sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), atol=0.02, rtol=0)
    assert {"z", "dx", "logprob", "entropy", "per_token"} <= found.keys()
    assert (found["logprob"] < 0).all()


def test_notebook_redraws_d_fig1_in_three_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ROOT / "docs" / "d_fig1.ipynb"
    monkeypatch.chdir(notebook.parent)  # as Jupyter runs it
    monkeypatch.setattr(sys, "path", [*sys.path])
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    assert {*re.findall(r"from (\S+) import", str(cells))} == {"pathlib", "analysis.load"}
    assert "image/png" in cells[-1]["outputs"][0]["data"]
    found: dict[str, Any] = {}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in cells:
            exec("".join(cell["source"]), found)
        pyplot.close(found["figure"])
    drawn = {(x, y) for line in found["axes"].get_lines() for x, y in line.get_xydata()}
    shown = select(found["rows"], "NVIDIA H200", D_FIG1.query)
    assert shown is not None
    own = shown.points[shown.points["status"] == "ok"]
    points = set(own[["cols", "effective_gbps"]].itertuples(index=False, name=None))
    assert (len(cells), len(points) > 500, points <= drawn) == (3, True, True)


@pytest.mark.parametrize(
    ("page", "most"), [("README.md", 8192), ("docs/results.md", 12288), ("docs/method.md", 10240)]
)
def test_pages_for_a_first_reading_are_short(page: str, most: int) -> None:
    assert len(PAGES[page].encode()) <= most


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_no_measured_number_is_typed(page: str) -> None:
    """What rows give stands between the markers that `make docs` fills."""
    prose = MARKED.sub("", PAGES[page])
    allowed = {"5 %", "95 %"}  # of an interval, and what it leaves out
    assert set(MEASURED.findall(prose)) - allowed == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", PAGES[page]):
        place = (ROOT / page).parent / link if link else ROOT / page
        assert place.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h).replace(" ", "-").lower() for h in heads}


@pytest.mark.parametrize("head", ["loss", "policy"])
def test_a_llama_has_the_same_loss_by_each(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda loss, **_: loss)  # it would take half a minute
    found = llama_step(["--toy", "--steps", "1", "--head", head])
    assert {"ours", "torch", "compile"} <= found.keys()
    assert found["ours"] == pytest.approx(found["torch"], rel=1e-5)
