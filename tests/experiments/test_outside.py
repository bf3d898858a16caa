"""A kernel in anybody's file: measured, checked, keyed by its text, and alone in its process."""

import json
import linecache
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import bench, sweep
from experiments.api import location_of, main
from experiments.data.errors import UserError
from experiments.parent.client import WORKER
from experiments.worker import outside
from experiments.worker.describe import build_kernel, inspect
from tests.conftest import QUICK, ROOT, Command, rows_below, shape

GOOD = """
import torch
import scale

def mine(x, factor=1.0):
    return torch.softmax(x, -1) * scale.ONE * factor

def tuned(x, factor=2.0):
    return mine(x, factor)

def zeros(x):
    return torch.zeros_like(x)

def raises(x):
    raise SystemExit("boom")

def tiled(x):
    from kernels.softmax.online import Online
    return Online()(x)
"""
Written = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _a_worker_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is loaded once a worker; the tests of this process each begin without any."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "scale", raising=False)
    outside.import_file.cache_clear()


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a file outside of the checkout, with a module beside it."""

    def write(text: str) -> Path:
        path = tmp_path / "elsewhere" / "theirs.py"
        path.parent.mkdir(exist_ok=True)
        path.with_name("scale.py").write_text("ONE = 1.0\n")
        path.write_text(text)
        return path

    return write


def config(path: Path, function: str, **more: Any) -> dict[str, Any]:
    return {"file": str(path), "function": function, "operation": "softmax", **more}


@pytest.mark.parametrize(
    ("text", "function", "complaint"),
    [
        ("import torch\nx = 1 / 0\n", "f", "theirs.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "f", "theirs.py:1: SyntaxError"),
        ("def f(x):\n    return x\n", "g", "theirs.py has no 'g'; its functions are f"),
        ("f = 3\n", "f", "f is a int, which cannot be called"),
        ("def f(x, y):\n    return x\n", "f", "f is called by operation=softmax with (x): missing"),
        ("import torch\ntorch.softmax = lambda x, d: x\ndef f(x): return x\n", "f",
         "changes torch.softmax; nothing that others use may be changed"),
        ("def f(x): return x\n", "f 0", "traffic=0 is less than what must be written, M*N"),
        ("def f(x): return x\n", "f M.N", "traffic=M.N is no formula in M and N"),
        ("def f(x): return x\n", "f 9**9**9", "traffic=9**9**9 is no formula in M and N"),
        ("from kernels.softmax.online import Online as F\n", "F M*N", "declares its own traffic"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_measured_is_one_line(
    text: str, function: str, complaint: str, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, _, traffic = function.partition(" ")
    monkeypatch.setattr(torch, "softmax", torch.softmax)  # put back, whatever the file does
    with pytest.raises(UserError) as refused:
        build_kernel(config(written(text), function, traffic=traffic or None))
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_sweep_has_rows_of_it_and_of_a_folder_of_ones_own_beside_ours_and_no_path(
    written: Written, sweep: Command, tmp_path: Path
) -> None:
    kernel = {"_target_": "experiments.worker.outside.Function", "traffic": None}
    path = tmp_path / "lab" / "kernel" / "theirs.yaml"
    path.parent.mkdir(parents=True)
    file, options = written(GOOD), {"factor": 1.0}
    path.write_text(json.dumps(kernel | config(file, "tuned", options=options)))  # JSON is YAML
    done = sweep(
        "kernel=outside,theirs,torch", f"--config-dir={tmp_path / 'lab'}", f"kernel.file={file}",
        "kernel.outside.function=mine,zeros,raises,tiled", "kernel.theirs.options.factor=1.0,2.0",
        *shape(8, 64), "dtype=float32", *QUICK,
    )  # fmt: skip
    assert done.status == 1
    outcomes = {
        (row.kernel, row.params.get("options", {}).get("factor")): row.status for row in done.rows
    }
    assert outcomes == {
        ("mine", None): "ok", ("zeros", None): "incorrect", ("raises", None): "launch_error",
        ("tuned", 1.0): "ok", ("tuned", 2.0): "incorrect",
        ("torch", None): "ok", ("copy", None): "ok", ("tiled", None): "ok",
    }  # fmt: skip
    assert "tuned,options.factor=2.0" in done.stdout
    by_kernel = {row.kernel: row for row in done.rows}
    assert by_kernel["raises"].reason == "theirs.py:15: SystemExit: boom"
    assert (by_kernel["mine"].backend, by_kernel["mine"].model_formula) == ("outside", "2MN")
    assert by_kernel["mine"].time_us
    assert (by_kernel["tiled"].backend, by_kernel["tiled"].time_us) == ("interpreter", None)
    texts = (p.read_text() for p in done.out.rglob("*.json*") if ".hydra" not in p.parts)
    assert not any("elsewhere" in text for text in texts)


def test_bench_ends_with_a_table_and_a_verdict(
    written: Written, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*shape(8, 64), "dtype=float32", "gpu=cpu", "tracker=none", *QUICK]
    file = written(GOOD.replace("mine", "nan"))  # a function's name, for Hydra a number
    beside = ["kernel=outside,torch,naive", f"out={tmp_path / 'out'}"]  # all would take a while
    assert main([f"{file}::nan", "--traffic=3*M*N", *words, *beside]) == 0
    head, line, *_ = capfd.readouterr().out.splitlines()
    assert {"torch", "other"} <= {*head.split()}
    assert {"faster", "slower", "difference"} & {*line.removeprefix("8×64 ").split()}
    formulas = {row.kernel: row.model_formula for row in rows_below(tmp_path / "out")}
    assert (formulas["nan"], formulas["torch"]) == ("3MN", "2MN")
    assert main([f"{file}::nan", "dry_run=true", *words, beside[0], f"out={tmp_path / 'not'}"]) == 0
    assert capfd.readouterr().out.endswith("4 points to measure, about 0.0 minutes\n")
    # no softmax's row answers for another operation, none of an earlier call is shown, and nothing
    # is measured beside a wrong answer
    beside = ["operation=log_softmax", "kernel=outside,log_softmax_torch", beside[1]]
    assert main([f"{file}::nan", *words, *beside]) == 1
    _, line, end = capfd.readouterr().out.splitlines()
    assert re.search(r"nan +incorrect: 512 of 512 elements", line), line
    assert end.startswith("rows  ")
    measured = {row.kernel for row in rows_below(tmp_path / "out")}
    assert measured == {"nan", "torch", "naive", "copy"}
    for asked, said in (("torch", "write kernel=outside,torch"), ("torch,,copy", "empty element")):
        assert main([f"{file}::nan", f"kernel={asked}", *words]) == 2
        assert said in capfd.readouterr().err


def test_an_operation_of_a_file_has_no_rivals_and_a_class_those_of_ours(written: Written) -> None:
    _, code, *_ = (ROOT / "docs" / "rms_norm.md").read_text().split("```")[1::2]
    path = written(f"{code.removeprefix('python')}from kernels.softmax.online import Online\n")
    found = inspect(config(path, "RmsNorm"))
    assert (found["functions"], found["rivals"]) == (["RmsNormTorch", "RmsNormCluster"], [])
    assert inspect(config(path, "RmsNormTorch"))["rivals"] == []
    assert {"auto", "torch", "compiled"} <= {*inspect(config(path, "Online"))["rivals"]}
    with pytest.raises(UserError, match="has no 'nothing'; its functions are"):
        inspect(config(path, "nothing"))


def cell(text: str) -> Callable[..., Any]:
    """The function ``mine`` as a notebook's cell defines it."""
    found: dict[str, Any] = {"torch": torch, "factor": 2.0}
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
    exec(compile(text, "<cell>", "exec"), found)
    return found["mine"]  # type: ignore[no-any-return]


def test_a_function_of_a_notebook_is_measured_from_its_source_or_refused(tmp_path: Path) -> None:
    alone = cell("def mine(x):\n    return torch.softmax(x, -1)\n")
    place = location_of(alone, tmp_path)
    assert place == f"{tmp_path / 'mine_cell.py'}::mine"
    assert build_kernel(config(Path(place.partition("::")[0]), "mine"))
    leaning = cell("def mine(x):\n    return [factor * torch.softmax(y, -1) for y in [x]][0]\n")
    factor = 2.0

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return factor * torch.softmax(x, -1)

    for function, complaint in (
        (leaning, "mine uses factor of the code around it; write it to a"),
        (scaled, "scaled uses factor of the code around it"),
        (torch.softmax, "is no function that can be measured"),
    ):
        with pytest.raises(UserError, match=complaint):
            bench(function, out=tmp_path / "never")
    linecache.cache.pop("<cell>")
    with pytest.raises(UserError, match="the source of mine cannot be read here"):
        bench(alone, out=tmp_path / "never")


def test_a_script_that_measures_its_own_function_is_not_run_by_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nfactor = 2\ndef a(x): return x\ndef b(x): return factor * x\n")
    found: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(script.read_text(), str(script), "exec"), found)
    assert location_of(found["a"], tmp_path) == f"{tmp_path / 'a_cell.py'}::a"
    assert location_of(found["b"], tmp_path) == f"{script}::b"
    monkeypatch.setenv(WORKER, "1")  # which imports that script
    with pytest.raises(UserError, match="below if __name__ == '__main__'"):
        bench(found["b"], out=tmp_path / "never")


def test_in_python_a_sweep_is_a_frame_of_its_rows(pool: None, tmp_path: Path) -> None:
    words = [*shape(4, [8, 16]), "dtype=float32", "gpu=cpu", "tracker=none", *QUICK]
    rows = sweep("kernel=naive", *words, out=tmp_path)
    assert sorted(rows["kernel"]) == ["copy", "copy", "naive", "naive"]
    assert rows["fraction_of_roof"].notna().all()
