"""What a command made, as a W&B run beside the runs of the sweep it was made from."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from analysis.manifest import ROOT, inputs
from analysis.style import rows_hash
from experiments.mirror.content import RunContent
from experiments.mirror.marker import Marker
from experiments.mirror.record import Destination, record

if TYPE_CHECKING:  # which reads through this package
    from analysis.material import Material

FINISH_S = 60.0  # pictures and a report of some megabytes, on a slow line
LONGEST = 128  # letters of a group's name
SHOWN = {".png": "images", ".csv": "tables", ".html": "pages"}


class Judged(Protocol):
    """A claim's verdict: an `analysis.claims.Judgement`."""

    @property
    def gpu(self) -> str:
        """The driver's name of the GPU."""

    @property
    def verdict(self) -> str:
        """One of the four words."""


def log(
    kind: str,
    found: Material,
    made: Sequence[Path],
    tracker: str,
    judgements: Iterable[Judged] = (),
) -> list[str]:
    """Logs pictures (their PNGs), tables (their CSVs) and pages of a command as one run.

    The run is of the sweep's group, with the job type ``analysis``. What was logged once is not
    logged again: the run's id is a hash of the group, the command and all that it shows. Offline
    files lie in ``<out>/wandb``, where `make sync` finds them.

    Args:
        kind: The command, such as ``figures``; also the run's name.
        found: What it read.
        made: The files that it made.
        tracker: ``wandb`` writes offline files, ``online`` goes to the server, ``none`` to neither.
        judgements: Claims; verdicts are counted in the run's summary.

    Returns:
        One line for each thing that went wrong. Nothing is ever raised.
    """
    if tracker == "none" or not made:
        return []
    try:
        run = _content(kind, found, made, _verdicts(judgements))
        marker = Marker.read(found.out / "wandb")
        online = tracker == "online"
        if marker.of(run.id).digest == run.digest and not (online and any(marker.waiting(run.id))):
            return []
        warnings = record([run], _destination(found.rows, online), marker)
    except Exception as error:
        warnings = [f"W&B was not written ({type(error).__name__}: {error})"]
    return [f"{warning}; the files made are complete" for warning in warnings]


def _content(
    kind: str, found: Material, made: Sequence[Path], verdicts: dict[str, int]
) -> RunContent:
    sweeps = sorted(map(str, found.frame["sweep"].unique()))
    config = {
        "command": kind,
        "sweeps": sweeps,
        "gpus": sorted(map(str, found.frame["gpu"].unique())),
        "points": len(found.frame),
        "rows": rows_hash(found.frame),
        "inputs": inputs(found.rows),
    }
    media: dict[str, dict[str, Any]] = {"images": {}, "tables": {}, "pages": {}}
    for path in sorted(made):
        shown = SHOWN.get(path.suffix)
        if shown is not None:
            key = f"{'figures' if shown == 'images' else shown}/{path.stem}"
            media[shown][key] = cells(path) if shown == "tables" else str(path.resolve())
    contents = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(made)]
    group = " + ".join(sweeps)
    if len(group) > LONGEST:
        group = f"{len(sweeps)} sweeps {_hash(group)[:12]}"
    digest = _hash(json.dumps([group, kind, contents, verdicts]))
    return RunContent(
        id=digest[:16], name=kind, group=group, job_type="analysis", config=config,
        order=[kind], lines=[{}], summary={"points": len(found.frame), **verdicts},
        rows_file=None, exit_code=0, digest=digest, media=media,
    )  # fmt: skip


def _verdicts(judgements: Iterable[Judged]) -> dict[str, int]:
    """How often each verdict was given, by GPU where there are several."""
    told = [(judgement.gpu, judgement.verdict) for judgement in judgements]
    several = len({gpu for gpu, _ in told}) > 1
    names = [f"claims/{gpu}/{verdict}" if several else f"claims/{verdict}" for gpu, verdict in told]
    return dict(sorted(Counter(names).items()))


def cells(path: Path) -> dict[str, list[Any]]:
    """A CSV's columns and data; a column in which every cell is a number or empty holds numbers."""
    heads, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines(keepends=True))
    columns = [_numbers(column) for column in zip(*lines, strict=True)]
    return {"columns": heads, "data": [list(line) for line in zip(*columns, strict=True)]}


def _numbers(column: Sequence[str]) -> Sequence[Any]:
    try:
        numbers = [float(cell) if cell else None for cell in column]
    except ValueError:
        return column
    return numbers if any(number is not None for number in numbers) else column


def _destination(rows: Path, online: bool) -> Destination:
    """Where the sweep itself was mirrored to, else where ``conf/tracker/wandb.yaml`` says."""
    told = yaml.safe_load((ROOT / "conf" / "tracker" / "wandb.yaml").read_text(encoding="utf-8"))
    folder = rows.parent if rows.is_file() else rows
    for path in sorted(folder.rglob("config.json")):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))["tracker"]
            return Destination(_mode(online), told["project"], told["entity"], FINISH_S)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return Destination(_mode(online), told["project"], told["entity"], FINISH_S)


def _mode(online: bool) -> str:
    return "online" if online else "offline"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
