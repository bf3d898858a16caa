"""Which rows files share a columnar copy: those of a sweep, in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

State = list[list[str | int]]


@dataclass(frozen=True)
class Unit:
    """Rows files that are read and kept together.

    Attributes:
        folder: Where their copy is kept.
        files: All rows files below it, in order.
    """

    folder: Path
    files: tuple[Path, ...]

    def state(self) -> State:
        """Each file's name, size, and times of its last change: any change of a file shows."""
        told: State = []
        for file in self.files:
            now = file.stat()
            name = file.relative_to(self.folder).as_posix()
            told.append([name, now.st_size, now.st_mtime_ns, now.st_ctime_ns])
        return told


def units_of(folders: Sequence[Path], files: Sequence[Path]) -> list[Unit]:
    """A unit for each sweep, in the files' order; where one lies in no sweep, for each folder.

    None at all where a rows file was asked for by name, or some files were asked for twice.
    """
    units = []
    for folder in folders:
        below = [file for file in files if file.is_relative_to(folder) and file != folder]
        homes = {file.parent: _home(file.parent, folder) for file in below}
        if None in homes.values():
            homes = dict.fromkeys(homes, folder)
        found: dict[Path, list[Path]] = {}
        for file in below:
            found.setdefault(homes[file.parent] or folder, []).append(file)
        units += [Unit(home, tuple(mine)) for home, mine in found.items()]
    return units if sum(len(unit.files) for unit in units) == len(files) else []


def _home(folder: Path, top: Path) -> Path | None:
    """The outermost sweep's folder from ``top`` down to ``folder``."""
    above = [one for one in (folder, *folder.parents) if one.is_relative_to(top)]
    return next((one for one in reversed(above) if (one / "sweep.json").is_file()), None)
