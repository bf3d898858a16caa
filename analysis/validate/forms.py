"""What a contributed folder may hold: files by name and place, fields by name and form.

Nothing here looks for bad text. A text may stand where its field allows its form, and a sentence
may use the words that this project's own kernels and configuration use, and numbers. So no text
of a row says whose machine it was, whatever that machine, its user or its keys are called.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from experiments.data.cards import descriptions

ROOT = Path(__file__).parents[2]
JOB = ("rows.jsonl", "config.json")
SWEEP = ("sweep.json", "variants.json", "sessions.jsonl", "counts.jsonl", "traces.jsonl",
         "counters.jsonl", "probe.jsonl", "table.md")  # fmt: skip
# What a sweep and analysis make of rows, and would make again.
MADE = ("figures", "tables", "roofline", "claims", "report", "selftest", "compare",
        "hostcost.json", "hostcost.md")  # fmt: skip
# What a sweep, its launcher and its tracker leave for this machine alone; .gitignore has it too.
LOCAL = (".hydra", "wandb", "slurm", ".submitit", "worker.log", ".lock", ".rows", ".unpacked")
PACKED = (".tar", ".gz", ".tgz", ".zip", ".xz", ".bz2", ".zst", ".7z")
PLAIN_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.,=+-]{0,99}")
DEEPEST = 8  # folders below the one that is validated

Form = Callable[[str], bool] | Mapping[str, Any]


def listed(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Everything below a folder that is not a plain folder, and why it may be none of a sweep's.

    Links are not followed. Once a folder's name is refused, nothing below it is looked at.
    """
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        for name in sorted(folders):
            if reason := _unfit(Path(place, name), below / name, stat.S_ISDIR):
                yield below / name, reason
                folders.remove(name)
        folders.sort()
        for name in sorted(files):
            yield below / name, _unfit(Path(place, name), below / name, stat.S_ISREG)


def _unfit(path: Path, below: Path, right: Callable[[int], bool]) -> str | None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "a link"
    if not right(mode):
        return "no plain file"
    if not PLAIN_PART.fullmatch(path.name) or path.name in (".", ".."):
        return (
            "a name with characters other than A-Z a-z 0-9 . , = + - _, or one that begins with -"
        )
    return "too deep" if len(below.parts) > DEEPEST else None


def kind_of(path: Path) -> str:
    """What a file is by name and place: ``data``, or what a finding calls anything else."""
    if any(part in LOCAL or part.endswith((".tmp", ".parquet")) for part in path.parts):
        return "of this machine"
    if path.name.endswith(PACKED):
        return "packed"
    if path.name in MADE or (any(p in MADE for p in path.parts[:-1]) and path.name not in JOB):
        return "made by analysis"
    return "data" if path.name in JOB + SWEEP else "does not belong"


def outermost(path: Path) -> Path:
    """The folder that is named for all that lies in it, else the file itself."""
    above = [p for p in reversed(path.parents) if p.name in (*LOCAL, *MADE)]
    return above[0] if above else path


def _form(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: len(text) <= 300 and compiled.fullmatch(text) is not None


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[-+]?[\d.,]{1,16}(?:e[-+]?\d{1,2})?[%×]?")
_OUTER, _INNER = "`\"'.,;:()[]{}*!?…", re.compile(r"[-=×/≤<>+,'’⌈⌉()^]")
LARGEST = 10**10  # serial numbers have more digits


@cache
def _vocabulary() -> tuple[frozenset[str], frozenset[str]]:
    """The words and the tokens between blanks of the kernels, presets and guards of this project.

    Texts of rows come from there: reasons, suspicions, names, tunables, what variants declare.
    """
    sources = [path for folder in ("kernels", "conf") for path in sorted((ROOT / folder).rglob("*"))
               if path.suffix in (".py", ".yaml")]  # fmt: skip
    sources += sorted((ROOT / "experiments").rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in sources]
    texts += [path.relative_to(ROOT).as_posix() for path in sources]
    words = frozenset(word for text in texts for word in _WORD.findall(text))
    return words, frozenset(token.strip(_OUTER) for text in texts for token in text.split())


@lru_cache(maxsize=1 << 14)
def sentence(text: str) -> bool:
    """Whether a text is of numbers, and words that this project's own texts use."""
    return all(map(_known, text.split()))


@lru_cache(maxsize=1 << 14)
def prose(text: str) -> bool:
    """The same with any plain words: what a variant says of itself."""
    return all(re.fullmatch(r"[A-Za-z]{1,20}", t.strip(_OUTER)) or _known(t) for t in text.split())


def _known(token: str) -> bool:
    words, tokens = _vocabulary()
    token = token.strip(_OUTER)
    if not token or token in tokens:
        return True
    if len(token) > 80:
        return False
    if _NUMBER.fullmatch(token):
        number = token.strip("%×+-").replace(",", "").partition("e")[0]
        return number.count(".") <= 1 and (not number.strip(".") or float(number) < LARGEST)
    number = r"" if "-" in token else r"\d{0,8}M?N?"  # nodes of a cluster are numbered by a dash
    return all(part in words or re.fullmatch(number, part) for part in _INNER.split(token))


version = _form(
    r"\d{1,4}(\.\d{1,5}){0,2}((\.|-)?(a|b|rc|dev|post)\d{1,8}){0,2}"
    r"(\+(cu\d{2,4}|cpu|xpu|rocm[\d.]{1,8}|git[0-9a-f]{7,12}|[0-9a-f]{7,10}(\.nv[\d.]{1,6})?))?"
)
_VENDORS = "NVIDIA|Tesla|Quadro|GeForce|GRID|AMD|Intel|Apple|ARM|Ampere|aarch64|arm64|x86_64|A"
_device = _form(rf"({_VENDORS})(\(R\))?( (@|[A-Za-z0-9()+-]{{1,20}}|\d\.\d{{1,2}}GHz))*")
_hash = _form(r"[0-9a-f]{6,64}")
_target = _form(r"kernels(\.[a-z_][a-z0-9_]*){1,6}\.[A-Z]\w{0,60}")


def device(text: str) -> bool:
    """A processor's name: its vendor, then words without long numbers."""
    return _device(text) and not re.search(r"\d{6}", text) and text.count(" ") <= 8


def named(text: str) -> bool:
    """A processor as a file of conf/gpu calls it."""
    return text == "CPU" or device(text)


def label(text: str) -> bool:
    """A sweep's name: plain words with dashes, at its end the token that keeps it apart."""
    words, _ = _vocabulary()
    parts = re.split(r"[_=+-]", re.sub(r"-[0-9a-f]{6}$", "", text))
    plain = (  # a word, a card's model such as rtx4090, l40s, 4090 or 80gb, or a date
        r"[A-Za-z]{1,12}\d?|[A-Za-z]{0,3}\d{1,4}[A-Za-z]{0,5}|20\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])"
    )
    return len(text) <= 100 and all(p in words or re.fullmatch(plain, p) for p in parts)


def tensor(text: str) -> bool:
    """A tensor's or an operation's name: known words between dots and underscores."""
    return all(part in _vocabulary()[0] or not part for part in re.split(r"[._]", text))


def never(_: str) -> bool:
    """No text: a number, true, false or null."""
    return False


_PROTOCOL = dict.fromkeys(("timer", "cache"), sentence) | dict.fromkeys(
    ("warmup", "min_samples", "max_samples", "precision", "sampling_limit_s", "compile_limit_s"),
    never,
)
ENVIRONMENT: Form = {
    **dict.fromkeys(("torch", "triton", "cuda", "driver", "python", "numpy"), version),
    "ncu": _form(r"20\d\d(\.\d{1,2}){1,3}"), "cache_control": sentence,
    "system": _form("(Linux|Darwin|Windows) (x86_64|arm64|aarch64|AMD64)"), "processor": device,
    "commit": _form("[0-9a-f]{40}"), "target": _target, "source": _hash,
    "mark": _form("[0-9a-f]{8}"),
    **dict.fromkeys(("threads", "dirty", "seed"), never),
    "packages": {"*": version}, "variables": {"*": sentence}, "protocol": _PROTOCOL,
    "card": dict.fromkeys(("driver_cuda", "power_limit_w", "max_sm_clock_mhz", "mig_mode",
                           "max_memory_clock_mhz", "persistence_mode", "compute_mode",
                           "ecc_mode"), never),
}  # fmt: skip
_ANY: Form = {"*": sentence}
# Texts of rows and records; a field that is not named here is a number by its schema.
ROW: Form = {"key": _hash, "sweep": label, "gpu": device, "environment": ENVIRONMENT,
             "params": _ANY, "source": _hash, "tensors": {"name": tensor, "**": sentence},
             "accesses": {"state": _ANY, "tensor": tensor, "operation": tensor, "**": sentence},
             "pipes_percent": _ANY, "**": sentence}  # fmt: skip
_GRID: Form = {**dict.fromkeys(("source", "dtypes", "labels"), sentence), "**": {"*": never}}
CONFIG: Form = {
    "kernel": {"_target_": _target, "*": sentence}, "grid": _GRID, "dtype": _ANY,
    "gpu": {"name": named, "match": lambda _: True, "device": sentence,
            "facts": {"*": {"value": never, "source": sentence}}, "**": never},
    "timing": _PROTOCOL, "tracker": {"**": lambda _: True}, "**": label,
}  # fmt: skip
DECLARED: Form = {"*": {"target": _target, "source": _hash, "packages": {"*": version},
                        "params": _ANY, "idea": prose, "latex": lambda _: True,
                        "*": sentence}}  # fmt: skip
NOTE: Form = {"**": label}


_CELL = re.compile(r"[\s\d.,×–%:-]*")


def table_line(text: str) -> bool:
    """A line of a sweep's ``table.md``: cells of numbers, intervals and known words."""
    cells = text.strip().strip("|").split("|")
    return len(text) < 2000 and all(
        sentence(cell) or (_CELL.fullmatch(cell) and not re.search(r"\d{11}|\d\.\d+\.", cell))
        for cell in cells
    )


def odd_texts(value: Any, form: Form, place: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a JSON value that may not be there, and texts of another form, by place."""
    if isinstance(value, str):
        if not (callable(form) and form(value)):
            yield place, value
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, str | list | dict):
                yield from odd_texts(one, form, place)
    elif isinstance(value, dict):
        inside = {} if callable(form) else form
        for name, one in value.items():
            at = f"{place}.{name}" if place else name
            if name in inside:
                yield from odd_texts(one, inside[name], at)
            elif "**" in inside:  # names that the schema itself closes
                yield from odd_texts(one, inside["**"], at)
            elif "*" in inside and sentence(name):
                yield from odd_texts(one, inside["*"], at)
            else:
                yield at, "a field that may not be there"


def odd_card(match: str | None) -> str | None:
    """Why a job's ``gpu.match`` is not one that this project has for a card."""
    known = (None, *(ours.get("match") for ours in descriptions()))
    return None if match in known else "gpu.match is in no file of conf/gpu"


@cache
def own_names() -> tuple[tuple[str, re.Pattern[bytes]], ...]:
    """This machine's own names: a contributor validates where the rows were measured."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for its user
        user = ""
    known = [("a host name", socket.gethostname().split(".")[0]), ("a user name", user),
             ("a home folder", str(Path.home()))]  # fmt: skip
    usual = {"root", "user", "ubuntu", "admin", "localhost", "runner", "docker", "/root"}
    return tuple(
        (kind, re.compile(rb"(?<!\w)" + re.escape(name.encode()) + rb"(?!\w)"))
        for kind, name in known
        if len(name) > 3 and name.lower() not in usual
    )
