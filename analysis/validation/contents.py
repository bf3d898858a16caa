"""Which files a contributed folder has, and which of them belong there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.validation.finding import Finding

JOB = ("rows.jsonl", "config.json")
BESIDE = ("sweep.json", "variants.json", "sessions.jsonl", "table.md", "README.md",
          "counts.jsonl", "traces.jsonl", "counters.jsonl", "probe.jsonl",
          "hostcost.json", "hostcost.md")  # fmt: skip
# What analysis makes of rows, and would make again.
MADE = ("figures", "tables", "roofline", "claims", "report", "selftest", "compare")
# What a sweep, its launcher and its tracker leave for this machine alone; .gitignore has it too.
LOCAL = {
    ".hydra": "Hydra's record of the command, with this machine's paths",
    "wandb": "W&B's own files",
    "slurm": "the logs of Slurm jobs",
    ".submitit": "the logs of Slurm jobs",
    "worker.log": "the log of the workers",
    ".lock": "a lock",
    ".rows": "the columnar copy of the rows",
}
CACHES = (".tmp", ".parquet")
PACKED = (".tar.gz", ".tgz", ".zip")
PICTURES = (".png", ".pdf", ".wandb")  # no text


@dataclass(frozen=True)
class Contents:
    """A folder's files by what they are; paths below ``folder``, in order.

    Attributes:
        folder: The folder.
        data: Rows, and what lies beside them.
        made: What analysis made of them.
        local: What was for the machine that measured.
        stray: What no part of this project writes.
    """

    folder: Path
    data: tuple[Path, ...]
    made: tuple[Path, ...]
    local: tuple[Path, ...]
    stray: tuple[Path, ...]

    @property
    def every(self) -> tuple[Path, ...]:
        """All of them."""
        return self.data + self.made + self.local + self.stray

    def findings(self) -> Iterator[Finding]:
        """What does not belong, a whole folder of it named once."""
        local = Counter(next(p for p in path.parts if _is_local(p)) for path in self.local)
        for name, count in local.items():
            what = f"{LOCAL.get(name, 'a cache')}; git ignores it below outputs/reference"
            files = f" ({count:,} files)" if count > 1 else ""
            yield Finding("privacy", "of this machine", f"{name}{files}", what, grave=False)
        for path in self.stray:
            if path.name.endswith(PACKED):
                what = "packed, so nothing in it was checked: unpack it and validate it by itself"
                yield Finding("privacy", "packed", str(path), what, grave=False)
            else:
                what = "no part of a sweep: take it out"
                yield Finding("privacy", "does not belong", str(path), what)


def contents_of(folder: Path) -> Contents:
    """The files below a folder. Links are not followed and belong nowhere."""
    kinds: dict[str, list[Path]] = {"data": [], "made": [], "local": [], "stray": []}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            below = path.relative_to(folder)
            kinds["stray" if path.is_symlink() else _kind(below)].append(below)
    return Contents(folder, **{name: tuple(paths) for name, paths in kinds.items()})


def _kind(path: Path) -> str:
    if any(map(_is_local, path.parts)):
        return "local"
    if path.name.endswith(PACKED):
        return "stray"
    if any(part in MADE for part in path.parts[:-1]) and path.name not in JOB:
        return "made"
    return "data" if path.name in JOB + BESIDE else "stray"


def _is_local(part: str) -> bool:
    return part in LOCAL or part.endswith(CACHES)
