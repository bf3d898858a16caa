"""Environments for the Makefile; needs Python alone.

``python -m experiments.environment build VENV [EXTRA ...]`` makes a virtual environment, or adds
extras to one. ``wheelhouse`` gathers wheels for a node without internet, ``system`` installs them
there and says what an interpreter lacks, ``check`` whether it is too old. Python 3.8 reads this
file too, so that an old interpreter gets that line and not a traceback.
"""

import shutil
import subprocess
import sys
import venv
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIP = ("-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check")
CONSTRAINED = ("-c", str(ROOT / "constraints.txt"))
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
# The torch build that is installed brings these, and setuptools is not a wheel that a node lacks.
LEFT_OUT = ("torch", "triton", "setuptools")
FROM_SOURCE = {"antlr4-python3-runtime"}  # which hydra needs, is published as source alone
# flag-gems asks for old versions of numpy and packaging and runs with ours; of helion, which asks
# for scikit-learn, the tuner alone needs it.
ALONE = {"peers": ["flag-gems", "helion"]}
NAME = "softmax-roofline"
# A command with a name, for Hydra cannot complete `python -m`. The shell reads the first two lines
# and starts the interpreter, wherever it lies; to Python these are a string.
COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import runpy, sys
sys.path.insert(0, {root!r})
runpy.run_module("experiments.run", run_name="__main__")
"""
NEEDED = "torch hydra omegaconf wandb pydantic pandas scipy seaborn rich sympy jinja2"


def check() -> None:
    """Exits with a line where this Python is out of the supported range."""
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        needed = "3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12"
        version = f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(f"error: {version}; {needed}")


def system(executable: str, folder: str, target: str) -> None:
    """Unpacks the wheels of ``folder`` into ``target`` where they are newer than those there."""
    ready, found = Path(target) / ".ready", sorted(Path(folder).glob("*.whl"))
    newest = max((path.stat().st_mtime for path in found), default=0.0)
    if newest and not (ready.exists() and ready.stat().st_mtime >= newest):
        print(f"unpacking {folder}/ into {target} (once)", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        if pip(sys.executable, "install", "--no-index", "--no-deps", "--target", target, *found):
            sys.exit(f"error: wheels not for {executable}: make wheelhouse FOR=its version")
        ready.touch()
        invalidate_caches()
    if missing := ", ".join(name for name in NEEDED.split() if not find_spec(name)):
        sys.exit(f"error: {executable} lacks {missing}: install them or bring a wheelhouse "
                 "(make wheelhouse on a machine with internet)")  # fmt: skip


def wheels(*extras: str) -> "list[str]":
    """The pinned set without what a PyTorch image brings, and of the extras those asked for."""
    found, wanted = [], True
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and "extra " in line:  # the heading of what one extra needs
            wanted = line.split("extra ")[1].split()[0].rstrip(".,") in extras
        elif line and not line.startswith("#") and wanted:
            found.append(line.split("=")[0].split(";")[0])
    return [name for name in found if name not in LEFT_OUT]


def build(folder: str, *extras: str) -> None:
    """Makes an environment with `COMMAND` of the pinned set, or adds extras to the one there."""
    python = Path(folder) / "bin" / "python"
    if not extras:
        print(f"building {folder} (once, a minute or two)", flush=True)
        venv.create(folder, with_pip=True)
    elif not python.exists():
        names = " ".join(extras)
        sys.exit(f"error: no {python}; VENV=system takes wheels: make wheelhouse EXTRA={names}")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [] if extras else [*project["dependencies"]]
    for extra in extras or ("harness", "dev"):
        asked += project["optional-dependencies"][extra]
    alone = [name for extra in extras for name in ALONE.get(extra, [])]
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


def wheelhouse(folder: str, version: str, *extras: str) -> None:
    """Gathers wheels for Linux and a Python ``version`` such as 3.12 into ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    names = {*wheels(*extras)}
    print(f"filling {folder}/ with {len(names)} wheels for Python {version}", flush=True)
    binary = ["download", "-d", folder, "--only-binary=:all:", "--python-version", version]
    binary += [word for name in PLATFORMS for word in ("--platform", name)]
    for words, some in ((["wheel", "-w", folder], FROM_SOURCE), (binary, names - FROM_SOURCE)):
        if pip(sys.executable, *words, "--no-deps", *CONSTRAINED, *some):
            sys.exit(f"error: could not gather all wheels into {folder}/")


def pip(python: "Path | str", *words: "Path | str") -> int:
    """Runs an interpreter's pip and gives its exit status."""
    return subprocess.call([str(python), *PIP, *map(str, words)])


if __name__ == "__main__":
    check()
    command, *words = sys.argv[1:]
    for action in (build, wheelhouse, system):  # the Makefile's words; `check` was all
        if action.__name__ == command:
            action(*words)
