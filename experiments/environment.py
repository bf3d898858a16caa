"""Environments for the Makefile; needs Python alone.

``python -m experiments.environment build VENV [EXTRA ...]`` makes a virtual environment, or adds
extras to one. ``wheelhouse`` gathers wheels for a node without internet, ``system`` installs them
there and says what an interpreter lacks, ``check`` whether it is too old. Module-level lines run on
Python 3.8 and newer, so that an old interpreter gets that line and not a traceback.
"""

import shutil
import subprocess
import sys
import venv
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIP = ("-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check")
CONSTRAINED = ("-c", str(ROOT / "constraints.txt"))
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
# The torch build that is installed brings these, and setuptools is not a wheel that a node lacks.
LEFT_OUT = ("torch", "triton", "setuptools")
# antlr4 4.9.3, which hydra needs, is published as source alone.
FROM_SOURCE = "antlr4-python3-runtime"
# flag-gems asks for numpy 1.26.4 and one version of packaging, and runs with ours; of helion, which
# asks for scikit-learn, the tuner alone needs it.
WITHOUT_DEPENDENCIES = {"peers": ["flag-gems", "helion"]}
# A command with a name, for Hydra cannot complete `python -m`. The shell reads two lines and starts
# the interpreter, wherever it lies; to Python these are a string.
NAME = "softmax-roofline"
COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import runpy
import sys

if __name__ == "__main__":
    sys.path.insert(0, {root!r})
    runpy.run_module("experiments.run", run_name="__main__")
"""
NEEDED = "torch hydra omegaconf wandb pydantic pandas scipy seaborn rich sympy jinja2"


def check() -> None:
    """Exits with a line where this Python is out of the supported range."""
    found = sys.version_info[:2]
    if not (3, 11) <= found < (3, 14):
        sys.exit(
            "error: {} is Python {}.{}; 3.11, 3.12 or 3.13 is needed: "
            "make PYTHON=python3.12".format(sys.executable or "this", *found)
        )


def system(executable: str, folder: str, target: str) -> None:
    """Installs the wheels of ``folder`` into ``target`` where they are newer than those there.

    Exits with a line where this interpreter then lacks a package that the harness imports.
    """
    ready = Path(target) / ".ready"
    found = sorted(Path(folder).glob("*.whl"))
    newest = max((path.stat().st_mtime for path in found), default=0.0)
    if newest and not (ready.exists() and ready.stat().st_mtime >= newest):
        print(f"unpacking {folder}/ into {target} (once)", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        if pip(sys.executable, "install", "--no-index", "--no-deps", "--target", target, *found):
            sys.exit(f"error: wheels not for {executable}: make wheelhouse FOR=its version")
        ready.touch()
        invalidate_caches()
    missing = ", ".join(name for name in NEEDED.split() if not find_spec(name))
    if missing:
        sys.exit(
            f"error: {executable} lacks {missing}: install them or bring a wheelhouse "
            "(make wheelhouse on a machine with internet)"
        )


def wheels(*wanted: str) -> "list[str]":
    """Distributions of a wheelhouse, as constraints.txt pins them.

    Args:
        wanted: ``all`` for everything but torch, else what a PyTorch image lacks; and extras,
            ``peers`` or ``slurm``, each under a heading of its own in constraints.txt.
    """
    sections: dict[str, list[str]] = {"": []}
    section = ""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and "extra " in line:
            section = line.split("extra ")[1].split()[0].rstrip(".,")
            sections[section] = []
        elif line and not line.startswith("#"):
            name = line.split(";")[0].split("=")[0]
            sections[section] += [] if name in LEFT_OUT else [name]
    named = sections[""] if "all" in wanted else _pyproject("dependency-groups")["node"]
    return [*named, *(name for extra in sections if extra in wanted for name in sections[extra])]


def build(folder: str, *extras: str) -> None:
    """Makes a virtual environment of the pinned dependencies, or adds extras to the one there.

    A new one gets the command ``softmax-roofline``, which is ``python -m experiments.run``.
    """
    python = Path(folder) / "bin" / "python"
    if not extras:
        print(f"building {folder} (once, a minute or two)", flush=True)
        venv.create(folder, with_pip=True)
    elif not python.exists():
        names = " ".join(extras)
        sys.exit(f"error: no {python}; VENV=system takes wheels: make wheelhouse EXTRA={names}")
    project = _pyproject("project")
    asked = [] if extras else list(project["dependencies"])
    for extra in extras or ("harness", "dev"):
        asked += project["optional-dependencies"][extra]
    alone = [name for extra in extras for name in WITHOUT_DEPENDENCIES.get(extra, [])]
    for words in (asked, ["--no-deps", *alone] if alone else []):
        if words and pip(python, "install", *CONSTRAINED, *words):
            sys.exit('error: could not install; offline see "Nodes without internet" in docs')
    if not extras:
        write_command(python.absolute())


def write_command(python: Path) -> None:
    """Writes `COMMAND` beside an interpreter."""
    command = python.with_name(NAME)
    command.write_text(COMMAND.format(python=python, root=str(ROOT)), encoding="utf-8")
    command.chmod(0o755)


def wheelhouse(folder: str, version: str, *wanted: str) -> None:
    """Gathers wheels for Linux and a Python ``version`` such as 3.12 into ``folder``."""
    names, place = wheels(*wanted), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.whl"):
        old.unlink()
    print(f"filling {folder}/ with {len(names)} wheels for Python {version}", flush=True)
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    built = [name for name in names if name == FROM_SOURCE]
    names = [name for name in names if name != FROM_SOURCE]
    options = ["--no-deps", *CONSTRAINED, "-d", folder, "--only-binary=:all:"]
    options += ["--python-version", version, *platforms]
    failed = built and pip(sys.executable, "wheel", "--no-deps", *CONSTRAINED, "-w", folder, *built)
    if failed or pip(sys.executable, "download", *options, *names):
        sys.exit(f"error: could not gather all wheels into {folder}/")
    size = sum(path.stat().st_size for path in place.glob("*.whl"))
    print(f"{size / 1e6:.0f} MB in {folder}/")


def pip(python: "Path | str", *words: "Path | str") -> int:
    """Runs an interpreter's pip and gives its exit status."""
    return subprocess.call([str(python), *PIP, *map(str, words)])


def _pyproject(table: str) -> "dict[str, Any]":
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)[table])


if __name__ == "__main__":
    check()
    command, *words = sys.argv[1:]
    for action in (build, wheelhouse, system):  # the Makefile's words; `check` was all
        if action.__name__ == command:
            action(*words)
