"""`make` explains itself, picks the right preset, and refuses what cannot work in one line."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments import environment
from tests.conftest import ROOT

NOTING = """#!/bin/sh
[ "$1" = -m ] && [ "$2" = experiments.environment ] && exec "{python}" "$@"
"{python}" - "$@" <<'END'
import json, sys
open({notes!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
END
case "$2" in experiments.run) exit {status};; esac
"""


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs make in the checkout, as typed in a shell of its own."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=outer | environment, capture_output=True, text=True
    )


def noted(folder: Path, *arguments: str, status: int = 0, **environment: str) -> SimpleNamespace:
    """Runs make with an interpreter that does nothing; ``experiments.run`` ends with ``status``.

    Gives how it ended: ``status``, ``stderr``, and ``calls``, the arguments of its interpreter.
    """
    notes = folder / "notes"
    notes.unlink(missing_ok=True)
    text = NOTING.format(python=sys.executable, notes=str(notes), status=status)
    done = make("READY=", f"PY={script(folder / 'noting', text)}", *arguments, **environment)
    lines = notes.read_text().splitlines() if notes.exists() else []
    calls = [json.loads(line) for line in lines]
    return SimpleNamespace(status=done.returncode, stderr=done.stderr, calls=calls)


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_make_alone_lists_every_target_for_users_by_groups_in_80_columns() -> None:
    shown = make().stdout
    listed = set(re.findall(r"^  ([a-z-]+) ", shown, re.M))
    assert re.findall(r"^\w+$", shown, re.M) == ["measure", "draw", "test", "install"]
    assert max(map(len, shown.splitlines())) <= 80
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (targets,) = re.findall(r"^targets = (.*)$", makefile, re.M)
    assert listed == {*targets.split()}


def test_sweep_takes_paper_where_a_device_is_visible_and_cpu_elsewhere(tmp_path: Path) -> None:
    script(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    for visible, preset in (("0", "paper"), ("", "cpu"), ("-1", "cpu")):
        sweep = noted(tmp_path, "sweep", PATH=path, CUDA_VISIBLE_DEVICES=visible).calls[0]
        assert f"experiment={preset}" in sweep


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["ARGS=kernel=a,b dtype=float16"], ["kernel=a,b", "dtype=float16"]),
        (["ARGS=out=/tmp/there"], ["out='/tmp/there'"]),
        (["ARGS=name=mine", "DRY_RUN=1"], ["out='outputs/mine'", "dry_run=true"]),
        (["LAUNCHER=slurm"], ["experiment=paper", "hydra/launcher=slurm"]),
    ],
)
def test_sweep_passes_what_is_asked_and_means_no_exported_variable_of_that_name(
    arguments: list[str], passed: list[str], tmp_path: Path
) -> None:
    exported = {"OUT": "/tmp/elsewhere", "ARGS": "kernel=none", "ROWS": "/tmp/elsewhere"}
    calls = noted(tmp_path, "sweep", *arguments, **exported).calls
    [sweep] = [call for call in calls if set(passed) & {*call}]
    assert set(passed) <= set(sweep)
    assert not re.search("elsewhere|kernel=none", str(calls))
    for word, why in (("DRYRUN=1", "no variable DRYRUN"), ("smoke", "no target smoke")):
        refused = noted(tmp_path, "sweep", *arguments, word)
        assert (refused.calls, why in refused.stderr) == ([], True)


@pytest.mark.parametrize(
    ("status", "drawn", "dry"), [(0, True, ""), (1, True, ""), (2, False, ""), (0, False, "1")]
)
def test_sweep_draws_what_was_measured_and_keeps_the_status(
    status: int, drawn: bool, dry: str, tmp_path: Path
) -> None:
    done = noted(tmp_path, "sweep", "EXPERIMENT=cpu", f"DRY_RUN={dry}", status=status)
    figures = ["-m", "analysis", "figures", "--rows", "outputs/cpu"]
    assert (figures in done.calls) == drawn
    assert (done.status == 0) == (status == 0)
    assert status == 0 or f"Error {status}" in done.stderr


@pytest.mark.parametrize(
    ("changed", "status", "steps"), [(0, 0, 2), (0, 1, 2), (0, 2, 1), (1, 0, 0)]
)
def test_contribute_sweeps_checks_and_says_what_is_left(
    changed: int, status: int, steps: int, tmp_path: Path
) -> None:
    """From the commit's own code alone. A point that failed is a row like others."""
    script(tmp_path / "git", "#!/bin/sh\n" + "echo '?? kernels/mine.py'\n" * changed)
    path, asked = f"{tmp_path}:{os.environ['PATH']}", ("OUT=/tmp/my_card", "EXPERIMENT=smoke")
    done = noted(tmp_path, "contribute", *asked, status=status, PATH=path)
    kept = "outputs/reference/my_card/smoke"
    calls = [
        ["-m", "experiments.run", "experiment=smoke", "out='/tmp/my_card'"],
        ["-m", "analysis", "validate", "--rows", "/tmp/my_card", "--out", kept],
    ]
    assert done.calls == calls[:steps]
    assert ("differ from the commit" in done.stderr) == bool(changed)
    assert (done.status == 0) == (steps == 2)


@pytest.mark.parametrize(
    "text", ["$(shell touch {})", "`touch {}`", 'a"; touch {}; "', "a b#c:d;e%f"]
)
def test_a_folders_name_is_never_run(text: str, tmp_path: Path) -> None:
    name = text.format(tmp_path / "ran")
    found = tmp_path / name.replace("/", "_")  # as a contributed folder may be called
    found.mkdir()
    (found / "rows.jsonl").write_text("")
    (call,) = noted(tmp_path, "validate", f"ROWS={name}", f"OUT={name}").calls
    assert call == ["-m", "analysis", "validate", "--rows", name, "--out", name]
    (call,) = noted(tmp_path, "compare", f"BASE={found}", f"HEAD={name}").calls
    assert call == ["-m", "analysis", "compare", str(found), name]
    swept = noted(tmp_path, "sweep", "EXPERIMENT=cpu", f"OUT={name}")
    if "$" in name:
        assert "without a quote, a backslash and a dollar" in swept.stderr
        assert (swept.status, swept.calls) == (2, [])
    else:
        assert f"out='{name}'" in swept.calls[0]
    assert not (tmp_path / "ran").exists()


def test_an_old_python_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ast.parse((ROOT / "experiments" / "environment.py").read_text(), feature_version=(3, 8))
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    with pytest.raises(SystemExit, match=r"is Python 3\.14; 3\.11, 3\.12 or 3\.13 is needed"):
        environment.check()


def test_system_python_says_what_it_lacks(tmp_path: Path) -> None:
    bare = script(tmp_path / "python", f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    done = make(".system", "VENV=system", f"PYTHON={bare}", f"WHEELHOUSE={tmp_path}")
    assert done.returncode != 0
    assert re.search("lacks torch, hydra.*make wheelhouse", done.stderr, re.S)


def test_extras_are_installed_as_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(environment.subprocess, "call", lambda words: ran.append(words))
    with pytest.raises(SystemExit, match="make wheelhouse EXTRA=peers"):
        environment.build(str(tmp_path), "peers")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    environment.build(str(tmp_path), "peers")
    peers, alone = (" ".join(words) for words in ran)
    assert "-c" in peers.split()
    assert "quack-kernels" in peers
    assert alone.endswith("--no-deps flag-gems helion trl")


def test_ci_calls_the_test_command_and_says_what_it_skips(tmp_path: Path) -> None:
    for name, text in [("make", 'echo "make $*"\n[ "$1" != test ]'), ("nvidia-smi", "exit 9")]:
        script(tmp_path / name, f"#!/bin/sh\n{text}\n")
    here = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CHROMIUM": "sh", "SLURMCTLD": "absent"}
    done = subprocess.run([ROOT / ".ci/run"], env=os.environ | here, capture_output=True, text=True)
    skipped = "skipped: make test-gpu (no CUDA device)"
    no_slurm = "skipped: make test-slurm (no slurmctld and munged)"
    drawn = ["make reference"] * 2  # on this processor, and as on one without AVX-512
    called = ["make test", "make test-ptx", *drawn, skipped, "make test-browser", no_slurm]
    assert done.stdout.splitlines() == called
    assert done.returncode == 1
