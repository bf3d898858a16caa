"""Makes Python environments for the Makefile. Python 3.8 can run it, to say that it is too old."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = [f"--platform=manylinux{one}_x86_64" for one in ("_2_28", "_2_17", "2014")]
# Not in a wheelhouse: a node's PyTorch brings torch and triton, and every node has setuptools.
LEFT_OUT = ("torch", "triton", "setuptools")
FROM_SOURCE = {"antlr4-python3-runtime"}  # hydra needs it; it is published only as source
# By extra, packages to install without dependencies. flag-gems asks for old versions of numpy and
# packaging, but runs with ours; helion needs scikit-learn only to tune, trl most of its to train.
NO_DEPENDENCIES = {"peers": ["flag-gems", "helion", "trl"]}
NEEDED = "torch hydra omegaconf wandb pydantic pandas scipy seaborn rich sympy jinja2"


def check() -> None:
    """Exits with an error line if this Python's version is not supported."""
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        version = f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(f"error: {version}; 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12")


def pip(python: "Path | str", action: str, *words: str) -> None:
    """Runs an interpreter's pip with the pinned versions; exits with an error line if it fails."""
    pinned = [action, "-c", str(ROOT / "constraints.txt")]
    if subprocess.call([str(python), "-m", "pip", "-qq", *pinned, *words]):
        sys.exit('error: pip failed; "Nodes without internet" in docs/cluster.md may help')


def build(folder: str, *extras: str) -> None:
    """Installs the project's requirements, or only of its ``extras``, into an environment."""
    python, names = Path(folder, "bin", "python"), " ".join(extras)
    if extras and not python.exists():
        sys.exit(f"error: no {python}; VENV=system takes wheels: make wheelhouse EXTRA={names}")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [] if extras else [*project["dependencies"]]
    for extra in extras or ("harness", "dev", "trainer"):
        asked += project["optional-dependencies"][extra]
    pip(python, "install", *asked)
    for extra in {*extras} & {*NO_DEPENDENCIES}:
        pip(python, "install", "--no-deps", *NO_DEPENDENCIES[extra])


def wheels(*extras: str) -> "list[str]":
    """The names of the pinned packages of ``extras``, and of those that a PyTorch image lacks."""
    found, wanted = [], True
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and "extra " in line:  # heads the packages of one extra
            wanted = line.split("extra ")[1].split()[0].rstrip(".,") in extras
        elif line and not line.startswith("#") and wanted:
            found.append(line.split("=")[0].split(";")[0])
    return [name for name in found if name not in LEFT_OUT]


def wheelhouse(folder: str, version: str, *extras: str) -> None:
    """Downloads wheels for Linux and a Python ``version`` such as 3.12 into ``folder``."""
    binary = ["--only-binary=:all:", "--python-version", version, *PLATFORMS]
    pip(sys.executable, "wheel", "-w", folder, "--no-deps", *FROM_SOURCE)
    names = {*wheels(*extras)} - FROM_SOURCE
    pip(sys.executable, "download", "-d", folder, "--no-deps", *binary, *names)


def system(executable: str) -> None:
    """Exits with an error line if this interpreter lacks a module that the project needs."""
    if missing := ", ".join(name for name in NEEDED.split() if not find_spec(name)):
        advice = "install them or bring a wheelhouse (make wheelhouse where there is internet)"
        sys.exit(f"error: {executable} lacks {missing}: {advice}")


if __name__ == "__main__":
    check()
    globals()[sys.argv[1]](*sys.argv[2:])  # the Makefile names a function above
