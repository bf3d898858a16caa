"""What W&B has been given of a sweep: ``wandb/mirrored.json``, beside W&B's own files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Mirrored:
    """What has been written of one run.

    Attributes:
        digest: Of the run's content when it was last written.
        order: Names of its lines; the place of each is its step in W&B.
        folders: The offline folders that hold them, below ``wandb/``.
    """

    digest: str = ""
    order: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


class Marker:
    """The file, read once and replaced whole after each run, so that a kill cannot tear it."""

    def __init__(self, folder: Path, runs: dict[str, Mirrored]) -> None:
        self.folder = folder
        self._runs = runs

    @classmethod
    def read(cls, folder: Path) -> Marker:
        """The marker of ``folder``; one that is missing or unreadable knows nothing."""
        try:
            stored = json.loads((folder / "mirrored.json").read_text(encoding="utf-8"))
            return cls(folder, {id: Mirrored(**run) for id, run in stored.items()})
        except (OSError, ValueError, TypeError, AttributeError):
            return cls(folder, {})

    def of(self, id: str) -> Mirrored:
        """What is known of a run, an empty record at first."""
        return self._runs.get(id, Mirrored())

    def probe(self) -> None:
        """Makes the folder and the file.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def add(self, id: str, written: Mirrored) -> None:
        """Records a run as written, its folders beside those it had."""
        folders = [*self.of(id).folders, *written.folders]
        self._runs[id] = Mirrored(written.digest, written.order, folders)
        self._save()

    def remove_unfinished(self, id: str) -> None:
        """Drops what a killed writer left of a run; the rows give it again, whole."""
        for file in self.waiting(id):
            if file.parent.name not in self.of(id).folders:
                shutil.rmtree(file.parent)

    def settle(self, id: str) -> None:
        """Marks offline folders, whose lines the server now has, the way W&B marks synced ones."""
        for file in self.waiting(id):
            file.with_name(f"{file.name}.synced").touch()

    def waiting(self, id: str) -> Iterator[Path]:
        """A run's offline files that were not uploaded yet."""
        for file in self.folder.glob(f"offline-run-*/run-{id}.wandb"):
            if not file.with_name(f"{file.name}.synced").exists():
                yield file

    def _save(self) -> None:
        stored = {id: asdict(run) for id, run in self._runs.items()}
        fresh = self.folder / "mirrored.json.new"
        fresh.write_text(json.dumps(stored), encoding="utf-8")
        os.replace(fresh, self.folder / "mirrored.json")
