"""Where a W&B run's rows are kept on disk, and what is known of them there."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILES = ("rows.jsonl", "variants.json", "config.json")
NOTE = "artifact.json"
_SAFE = re.compile(r"(?![.])[\w=,.+@() -]{1,100}")


@dataclass(frozen=True)
class Kept:
    """A run's copy on disk: in which folder, of which version of its artifact."""

    folder: Path
    digest: str


def folder_of(group: str) -> str:
    """The name of a group's folder: the group's own where a folder can be called so."""
    return _named(group, "group") if group else "ungrouped"


def place_of(id: str, name: str, group: str, taken: Sequence[Path] = ()) -> Path:
    """Where a run's copy goes below its project's folder.

    Names come from a server. A job's name is its folder in its sweep, so that rows are read in the
    order of the sweep itself; a name that cannot be a folder, or that another run has, gives way
    to the run's id.
    """
    parts = name.split("/")
    place = Path(folder_of(group), *parts)
    if not all(map(_is_safe, parts)) or place in taken:
        place = Path(folder_of(group), _named(id, "run"))
    return place


def known(base: Path) -> dict[str, Kept]:
    """What lies below a project's folder as it was fetched, by the run's id."""
    found = {}
    for note in sorted(base.rglob(NOTE)):
        try:
            read = json.loads(note.read_text(encoding="utf-8"))
            if read["files"] == digests(note.parent):
                found[str(read["run"])] = Kept(note.parent, str(read["digest"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # fetched again
    return found


def keep(source: Path, folder: Path, run: str, digest: str) -> None:
    """Copies a run's files to their folder; its note, written last, makes them known."""
    drop(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        if (source / file).is_file():
            shutil.copyfile(source / file, folder / file)
    note: Mapping[str, object] = {"run": run, "digest": digest, "files": digests(folder)}
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def drop(folder: Path) -> None:
    """Removes a run's copy and nothing else that lies there."""
    for name in (NOTE, *FILES):
        (folder / name).unlink(missing_ok=True)


def digests(folder: Path) -> dict[str, str]:
    """The files of a run's copy by their contents."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _named(name: str, kind: str) -> str:
    return name if _is_safe(name) else f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _is_safe(name: str) -> bool:
    # below a folder of that name no rows are looked for
    return _SAFE.fullmatch(name) is not None and name != "wandb"
