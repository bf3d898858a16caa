"""``validate``: whether a folder of rows from someone's card can be taken; status 1 where not.

Four questions: do files, rows and records keep to the schema that every command reads by; is each
planned point there; does nothing say whose machine it was (see `analysis.forms`); are the times
possible. Each finding names a file, with its line where it has one, or a point.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis import forms
from analysis.format import visible
from experiments.data.cards import Card, card_of
from experiments.data.files import (
    RowsError,
    parse_json,
    read_json,
    read_lines,
    validated,
    write_file,
)
from experiments.data.jobs import Config, Declaration, Session, SweepNote
from experiments.data.metrics import derive, gbps, latest
from experiments.data.records import KINDS
from experiments.data.rows import ITEM_BYTES, Row, parse_row
from experiments.data.statistics import median

Aspect = Literal["schema", "completeness", "privacy", "plausibility"]
ASPECTS: tuple[Aspect, ...] = ("schema", "completeness", "privacy", "plausibility")
SHOWN = {True: 12, False: 5}  # problems and warnings of one kind that are listed
MOST = 100  # findings of one file: a file of another kind is not told line by line
PRESETS = forms.ROOT / "conf" / "experiment"
TIMERS = {"cuda": "events", "cpu": "host"}  # what `auto` is
VERSIONS = ("torch", "triton", "cuda", "driver", "python", "commit")
ROUNDED_US = 1e-4  # rows keep samples to four places
CLOCK_STEP = 1.01
PROJECT = "softmax-roofline"  # W&B's, as conf/tracker has it
# Elements that any implementation must move, in units of MN.
COMPULSORY = {"softmax": 2, "copy": 2, "softmax_backward": 3}
# A copy by the library may be slower than what L2 serves; on an H200 kernels reach 1.06 of it by a
# card's own timers. The host's clock counts launches of small shapes too, and proves nothing.
FAR_ABOVE = 1.25
BEYOND_L2 = 4  # times L2: of a matrix that large next to nothing is left there
# Twice the columns take up to a tenth less on an H200, where a library changes its algorithm.
MUCH_LESS = 0.5
Model = TypeVar("Model", bound=BaseModel)
Visit = tuple[int, int, int]  # rows, cols, round


@dataclass(frozen=True)
class Finding:
    """A problem, or a warning.

    Attributes:
        aspect: Which of the four questions it answers.
        kind: What findings of its like share, such as ``missing points``.
        where: A file, with its line where it has one, or the point.
        what: A short sentence.
        grave: Whether the folder cannot be taken with it; else it is a warning.
    """

    aspect: Aspect
    kind: str
    where: str
    what: str
    grave: bool = True


@dataclass(frozen=True)
class Placed:
    """A row and where it stands, ``file:line``."""

    row: Row
    where: str


@dataclass
class Job:
    """A job's folder below its sweep's: ``<grid>/<dtype>-<gpu>/[<variation>/]<label>``."""

    place: Path
    config: Config | None = None
    rows: list[Placed] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The kernel with its tunables."""
        return self.place.name

    @property
    def shard(self) -> str:
        """What it shares with the jobs whose roof is its own."""
        return self.place.parent.as_posix()

    @property
    def planned(self) -> list[Visit]:
        """The visits of each dtype."""
        rounds = self.config.rounds if self.config else 0
        return [(m, n, i) for i in range(rounds) for m, n in self.shapes]


@dataclass
class Sweep:
    """One sweep's folder, below the one that was asked about."""

    root: Path
    name: str | None = None
    variants: dict[str, Declaration] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)

    @property
    def rows(self) -> list[Placed]:
        """All rows."""
        return [row for job in self.jobs for row in job.rows]

    def at(self, place: str = "") -> str:
        """A place in it, as a path below the folder that was asked about."""
        return (self.root / place).as_posix() if place or self.root.name else "the sweep"


@dataclass(frozen=True)
class Report:
    """What was found in a folder.

    Attributes:
        folder: The folder.
        files: Its files' paths below it, by what they are: ``data``, ``local``, ...
        sweeps: Its sweeps.
        findings: Problems and warnings, each once, in the order of the aspects.
    """

    folder: Path
    files: Mapping[str, Sequence[Path]]
    sweeps: Sequence[Sweep]
    findings: Sequence[Finding]

    @property
    def problems(self) -> list[Finding]:
        """What the folder cannot be taken with."""
        return [one for one in self.findings if one.grave]


def run(options: argparse.Namespace) -> int:
    """Checks a folder and prints what was found; with ``--out`` copies what belongs of a valid one.

    Raises:
        RowsError: there is no folder of rows, or something lies at ``--out`` already.
    """
    out: Path | None = options.out
    if out is not None and (out.exists() or out.is_symlink()):
        raise RowsError(f"--out {out}: there is something already; name a folder that is not there")
    report = validate(options.rows, data_alone=out is not None)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    show(report, console)
    style, notes = ("red", []) if report.problems else ("green", [])
    if (
        report.problems
        and out is None
        and any(report.files[k] for k in ("local", "made", "packed"))
    ):
        notes = ["What is this machine's own can stay: --out DIR checks and copies the rest."]
    elif not report.problems and out is not None:
        _copy(report, out)
        notes = [f"copied to {out}"]
    for note in notes:
        console.print(Text(f"\n{note}", style="dim"), soft_wrap=True)
    console.print(Text(f"\n{verdict(report)}", style=f"bold {style}"), soft_wrap=True)
    return int(bool(report.problems))


def validate(folder: Path, data_alone: bool = False) -> Report:
    """Checks a folder of rows.

    Args:
        folder: The folder, whole as a sweep left it.
        data_alone: Only rows and what lies beside them: the rest is not to be taken.

    Raises:
        RowsError: there is no such folder, or no rows file in it.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise RowsError(f"{folder}: no such folder; a sweep's whole folder can be validated")
    found: list[Finding] = []
    files: dict[str, list[Path]] = {k: [] for k in ("data", "made", "local", "packed", "stray")}
    for path, unfit in forms.listed(folder):
        if unfit is None:
            files[forms.kind_of(path)].append(path)
        else:
            found.append(Finding("schema", "no plain file", str(path), f"{unfit}; take it out"))
    if not found and not any(path.name == "rows.jsonl" for path in files["data"]):
        raise RowsError(f"{folder}: no rows.jsonl in it; a sweep's whole folder can be validated")
    sweeps = _Reader(folder, found, data_alone).sweeps(files["data"])
    for sweep in sweeps:
        found += [*_identities(sweep), *_folders(sweep), *_preset(sweep), *_points(sweep)]
        found += [*_limits(sweep), *_machine(sweep)]
        for placed in sweep.rows:
            for kind, what in _timing(placed.row):
                found.append(Finding("plausibility", kind, placed.where, what))
    if not data_alone:
        found += _others(files)
    found.sort(key=lambda one: (ASPECTS.index(one.aspect), not one.grave))
    return Report(folder, files, sweeps, list(dict.fromkeys(found)))


def show(report: Report, console: Console) -> None:
    """Prints the four answers, then every finding, a kind's first few."""
    table = Table("", "problems", "warnings", "checked", box=None, pad_edge=False)
    jobs = [job for sweep in report.sweeps for job in sweep.jobs]
    planned = sum(len(job.planned) * len(job.dtypes) for job in jobs)
    timed = sum(placed.row.time_us is not None for job in jobs for placed in job.rows)
    plural = "s" * (len(report.sweeps) != 1)
    checked = (f"{_rows(report)}, {len(report.sweeps)} sweep{plural}",
               f"{planned:,} planned points of {len(jobs):,} jobs",
               f"{len(report.files['data']):,} files", f"{timed:,} times")  # fmt: skip
    for aspect, count in zip(ASPECTS, checked, strict=True):
        mine = [one for one in report.findings if one.aspect == aspect]
        grave = sum(one.grave for one in mine)
        table.add_row(
            aspect,
            Text(f"{grave:,}", style="red" if grave else "green"),
            Text(f"{len(mine) - grave:,}", style="yellow" if len(mine) > grave else ""),
            Text(count),
        )
    console.print(table)
    kinds: dict[tuple[Aspect, str, bool], list[Finding]] = defaultdict(list)
    for one in report.findings:
        kinds[one.aspect, one.kind, one.grave].append(one)
    for (about, kind, grave), ones in kinds.items():
        heading = f"\n{about}: {kind}" + ("" if grave else " (warning)")
        console.print(Text(heading, style="red" if grave else "yellow"), soft_wrap=True)
        for one in ones[: SHOWN[grave]]:
            line = f"  {visible(one.where, 200)}: {visible(one.what)}"
            console.print(Text(line), soft_wrap=True)
        if (rest := len(ones) - SHOWN[grave]) > 0:
            console.print(Text(f"  … and {rest:,} more"), soft_wrap=True)


def verdict(report: Report) -> str:
    """The last line: whether the folder can be taken, and in which respects it cannot."""
    problems, warnings = len(report.problems), len(report.findings) - len(report.problems)
    noted = f"{warnings:,} warning{'s' * (warnings != 1)}"
    if not problems:
        return f"valid: {_rows(report)}; {noted}"
    lacking = [name for name in ASPECTS if any(p.aspect == name for p in report.problems)]
    return f"not valid: {problems:,} problem{'s' * (problems != 1)} ({', '.join(lacking)}); {noted}"


def _rows(report: Report) -> str:
    rows = [placed.row for sweep in report.sweeps for placed in sweep.rows]
    return f"{len(rows):,} rows of {_some(sorted({visible(row.gpu, 80) for row in rows}))}"


def _some(things: Sequence[str], most: int = 4) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(things) - most
    return ", ".join(things[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _copy(report: Report, out: Path) -> None:
    """Rows and what lies beside them; whose W&B account it was stays behind."""
    for path in report.files["data"]:
        data = (report.folder / path).read_bytes()
        if path.name == "config.json":
            config = json.loads(data)
            config["tracker"] |= {"entity": None, "project": PROJECT}
            data = (json.dumps(config, indent=1, ensure_ascii=False) + "\n").encode()
        write_file(out / path, data)


def _others(files: Mapping[str, Sequence[Path]]) -> Iterator[Finding]:
    """What is no data, a whole folder of it named once."""
    local = Counter(
        next((part for part in path.parts if part in forms.LOCAL), "a cache")
        for path in files["local"]
    )
    for name, count in local.items():
        what = f"{forms.LOCAL.get(name, 'a cache')}; git ignores it below outputs/reference"
        counted = f" ({count:,} files)" if count > 1 else ""
        yield Finding("privacy", "of this machine", f"{name}{counted}", what, grave=False)
    made = Counter(
        next(part for part in path.parts if part in forms.MADE) for path in files["made"]
    )
    for name, count in made.items():
        what = f"made of the rows, {count:,} file{'s' * (count != 1)}, and not checked: take it out"
        yield Finding("privacy", "made by analysis", name, what)
    for path in files["packed"]:
        what = "packed, so nothing in it was checked: unpack it and validate it by itself"
        yield Finding("privacy", "packed", str(path), what)
    for path in files["stray"]:
        yield Finding("privacy", "does not belong", str(path), "no part of a sweep: take it out")


class _Reader:
    """Reads the files of a folder by the schema; what cannot be read is a finding."""

    def __init__(self, folder: Path, found: list[Finding], data_alone: bool) -> None:
        self._folder, self._found, self._data_alone = folder, found, data_alone

    def sweeps(self, data: Sequence[Path]) -> list[Sweep]:
        """Every sweep, with its jobs and rows."""
        roots = {path.parent for path in data if path.name == "sweep.json"}
        sweeps = {root: Sweep(root) for root in sorted(roots)}
        jobs: dict[Path, Job] = {}
        for path in data:
            self._own_names(path)
            if path.name == "sweep.json":
                note = self._object(path, SweepNote, forms.NOTE)
                sweeps[path.parent].name = note.sweep if note else None
            elif path.name in ("sessions.jsonl", "table.md"):
                self._beside(path)
            elif path.name in KINDS:
                self._records(path)
            elif path.name in forms.JOB:
                root = next((above for above in path.parents if above in roots), Path())
                sweep = sweeps.setdefault(root, Sweep(root))
                place = path.parent.relative_to(root)
                if len(place.parts) not in (3, 4):
                    what = "it lies in no job's folder, such as wide/native-auto/online"
                    self._say("schema", "misplaced", path, what)
                    continue
                if path.parent not in jobs:
                    jobs[path.parent] = Job(place)
                    sweep.jobs.append(jobs[path.parent])
                if path.name == "rows.jsonl":
                    jobs[path.parent].rows = list(self._rows(path))
                else:
                    self._config(path, jobs[path.parent])
        for root, sweep in sweeps.items():
            if (self._folder / root / "variants.json").is_file():
                sweep.variants = self._variants(root / "variants.json")
        return list(sweeps.values())

    def _say(self, aspect: Aspect, kind: str, where: object, what: str) -> None:
        self._found.append(Finding(aspect, kind, str(where), visible(what, 200)))

    def _own_names(self, path: Path) -> None:
        """This machine's own names, in the file and in its path."""
        for kind, pattern in forms.own_names():
            if pattern.search(path.as_posix().encode()):
                self._say("privacy", kind, path, f"{kind} of this machine in its path")
            for number, line in enumerate((self._folder / path).open("rb"), start=1):
                if len(line) < 2**23 and pattern.search(line):
                    self._say("privacy", kind, f"{path}:{number}", f"{kind} of this machine")
                    break

    def _texts(self, value: Any, form: forms.Form, where: object) -> None:
        for place, text in forms.odd_texts(value, form):
            self._say("privacy", "not of its form", where, f"{place}: {visible(text, 80)!r}")

    def _lines(self, path: Path) -> Iterator[tuple[str, bytes, bool]]:
        """Lines with their places, until a file has shown that it is another thing."""
        begun = len(self._found)
        try:
            for number, line, torn in read_lines(self._folder / path):
                if len(self._found) - begun > MOST:
                    self._say("schema", "no row", path, f"and so on beyond line {number - 1}")
                    return
                yield f"{path}:{number}", line, torn
        except RowsError as error:
            self._say("schema", "no row", path, str(error).removeprefix(f"{self._folder / path}:"))

    def _rows(self, path: Path) -> Iterator[Placed]:
        for where, line, torn in self._lines(path):
            try:
                row = parse_row(line)
            except ValueError as error:
                mended = "cut short: the same sweep again mends it"
                self._say("schema", "no row", where, mended if torn else str(error))
                continue
            self._texts(row.model_dump(exclude={"samples_us"}), forms.ROW, where)
            yield Placed(row, where)

    def _records(self, path: Path) -> None:
        for where, line, _ in self._lines(path):
            try:
                record = validated(KINDS[path.name], parse_json(line))
            except ValueError as error:
                self._say("schema", "no record", where, str(error))
                continue
            self._texts(record.model_dump(), forms.ROW, where)

    def _beside(self, path: Path) -> None:
        for where, line, _ in self._lines(path):
            try:
                if path.suffix == ".jsonl":
                    validated(Session, parse_json(line))
                elif not forms.table_line(line.decode()):
                    raise ValueError("no line of a sweep's table; the sweep writes it again")
            except ValueError as error:
                self._say("schema", "no record", where, str(error))

    def _object(self, path: Path, kind: type[Model], form: forms.Form) -> Model | None:
        try:
            value = read_json(self._folder / path)
            model = validated(kind, value)
        except RowsError as error:
            self._say("schema", "not JSON", path, str(error).partition(": ")[2])
            return None
        except ValueError as error:
            self._say("schema", "no configuration", path, str(error))
            return None
        self._texts(value, form, path)
        return model

    def _config(self, path: Path, job: Job) -> None:
        config = self._object(path, Config, forms.CONFIG)
        if config is None:
            return
        try:
            job.shapes, job.dtypes = config.planned()
        except (ValueError, TypeError, KeyError) as error:
            self._say("schema", "no configuration", path, f"no job's configuration: {error}")
            return
        job.config = config
        if reason := forms.odd_card(config.gpu.model_dump()):
            self._say("schema", "no configuration", path, reason)
        tracker = config.tracker  # which is not copied
        if not self._data_alone and (tracker.entity is not None or tracker.project != PROJECT):
            what = f"tracker.entity and tracker.project name one; null and {PROJECT} belong there"
            self._say("privacy", "a W&B account", path, what)

    def _variants(self, path: Path) -> dict[str, Declaration]:
        try:
            value = read_json(self._folder / path)
            if not isinstance(value, dict):
                raise ValueError("a JSON object belongs here")
            variants = {name: validated(Declaration, one) for name, one in value.items()}
        except (RowsError, ValueError) as error:
            what = str(error).removeprefix(f"{self._folder / path}: ")
            self._say("schema", "not JSON", path, what)
            return {}
        self._texts(value, forms.DECLARED, path)
        return variants


def _identities(sweep: Sweep) -> Iterator[Finding]:
    """Each identity is one row's, each key one measurement's, and each row in its place."""
    known: dict[tuple[Any, ...], str] = {}
    first: dict[str, tuple[tuple[Any, ...], str]] = {}
    for job in sweep.jobs:
        for placed in job.rows:
            row = placed.row
            identity = row.key, row.card, row.round, row.attempt
            if identity in known:
                what = f"the same key, card, round and attempt as {known[identity]}"
                yield Finding("schema", "duplicate", placed.where, what)
            known.setdefault(identity, placed.where)
            measured = row.kernel, str(row.params), row.rows, row.cols, row.dtype, row.gpu
            before, where = first.setdefault(row.key, (measured, placed.where))
            if before != measured:
                what = f"its key is that of another point, {where}"
                yield Finding("schema", "duplicate", placed.where, what)
            if sweep.name is not None and row.sweep != sweep.name:
                what = f"a row of sweep {row.sweep!r} in the folder of {sweep.name!r}"
                yield Finding("schema", "misplaced", placed.where, what)
            if row.kernel != job.label.split(",")[0]:
                what = f"a row of {row.kernel!r} in the folder of {job.label!r}"
                yield Finding("schema", "misplaced", placed.where, what)


def _folders(sweep: Sweep) -> Iterator[Finding]:
    """Files and jobs that a sweep's folder lacks, and shards without a roof."""
    labels = {job.label for job in sweep.jobs}
    lacking: list[tuple[str, str, str]] = []
    if sweep.name is None:
        what = "missing, or no sweep's name in it: a sweep's whole folder is needed"
        lacking.append(("missing file", "sweep.json", what))
    if not sweep.variants:
        what = "missing or broken: what each variant declares is not known"
        lacking.append(("missing file", "variants.json", what))
    elif lost := sorted(labels - sweep.variants.keys()):
        lacking.append(("missing file", "variants.json", f"does not declare {_some(lost)}"))
    if places := [job.place.as_posix() for job in sweep.jobs if job.config is None]:
        which = f"of {len(places)} of {len(sweep.jobs)} jobs: {_some(places)}"
        what = f"missing or broken, so what was planned is not known, {which}"
        lacking.append(("missing file", "config.json", what))
    if lost := sorted(sweep.variants.keys() - labels):
        what = f"declares what no folder holds rows of: {_some(lost)}"
        lacking.append(("missing folder", "variants.json", what))
    # a sweep is a product of kernels and grids
    grids: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    shards: dict[str, bool] = {}
    for job in sweep.jobs:
        grids[job.place.parts[1:-1]][job.place.parts[0]].add(job.label)
        shards[job.shard] = shards.get(job.shard, False) or _is_copy(job, sweep)
    for rest, mine in grids.items():
        every = set().union(*mine.values())
        for grid, has in mine.items():
            if lost := sorted(every - has):
                what = f"no folder of {_some(lost)}, which other grids have"
                lacking.append(("missing folder", "/".join([grid, *rest]), what))
    for shard, has_roof in shards.items():
        if not has_roof:
            what = "no copy among its kernels, so its rows have no roof"
            lacking.append(("missing roof", shard, what))
    for kind, where, what in lacking:
        yield Finding("completeness", kind, sweep.at(where), what)


def _is_copy(job: Job, sweep: Sweep) -> bool:
    declared = sweep.variants.get(job.label)
    if declared is not None:
        return declared.operation == "copy"
    return any(placed.row.operation == "copy" for placed in job.rows)


def _preset(sweep: Sweep) -> Iterator[Finding]:
    """Warnings: a sweep may be a part of its preset by intent, but a reader should know."""
    has = {"kernel": {re.split(r"[,-]", job.label)[0] for job in sweep.jobs},
           "grid": {job.place.parts[0] for job in sweep.jobs}}  # fmt: skip
    for name in sorted({job.config.name for job in sweep.jobs if job.config}):
        path = PRESETS / f"{name}.yaml"
        if not re.fullmatch(r"\w+", name) or not path.is_file():
            continue
        preset = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        params = preset.get("hydra", {}).get("sweeper", {}).get("params", {})
        for group, known in has.items():
            asked = str(params.get(group, "")).split(",")
            if lost := [one for one in asked if one and one not in known]:
                what = f"the preset {name} has {group}={_some(lost, 20).replace(', ', ',')} too"
                yield Finding("completeness", "part of a preset", sweep.at(), what, grave=False)


def _points(sweep: Sweep) -> Iterator[Finding]:
    """Planned points without a row, and points whose last row is a failure.

    A point that several jobs plan has its row in the folder of the first, so it is looked for in
    the whole sweep. Jobs that lack the same are named together.
    """
    everywhere: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for placed in sweep.rows:
        row = placed.row
        everywhere[row.kernel, row.dtype, (row.rows, row.cols, row.round)].append(row)
    lacking: dict[tuple[str, tuple[str, ...], tuple[Visit, ...]], list[Job]] = defaultdict(list)
    for job in sweep.jobs:
        own = {(p.row.dtype, (p.row.rows, p.row.cols, p.row.round)): p.row for p in job.rows}
        failed: dict[tuple[str, str], list[str]] = defaultdict(list)
        missing: dict[tuple[Visit, ...], list[str]] = defaultdict(list)
        for dtype in job.dtypes:
            gone = []
            for visit in job.planned:
                last = own.get((dtype, visit))
                if last is None:
                    others = everywhere.get((job.label.split(",")[0], dtype, visit), ())
                    last = next((r for r in reversed(others) if _fits(r, job, sweep)), None)
                if last is None:
                    gone.append(visit)
                elif not last.expected:
                    failed[dtype, last.status].append(f"{visit[0]}×{visit[1]}")
            if gone:
                missing[tuple(gone)].append(dtype)
        for (dtype, status), names in failed.items():
            what = f"{dtype}: {status} at {_some(names)}"
            where = sweep.at(job.place.as_posix())
            yield Finding("completeness", "failed points", where, what)
        for lost, dtypes in missing.items():
            lacking[job.shard, tuple(dtypes), lost].append(job)
    for (shard, of, lost), jobs in lacking.items():
        shapes = list(dict.fromkeys(f"{m}×{n}" for m, n, _ in lost))
        what = (f"{_some([job.label for job in jobs], 8)}; {', '.join(of)}; "
                f"{len(lost)} of {len(jobs[0].planned)} missing: {_some(shapes)}")  # fmt: skip
        if jobs[0].config and jobs[0].config.rounds > 1:
            what += f", in round {_some(sorted({str(visit[2]) for visit in lost}), 8)}"
        yield Finding("completeness", "missing points", sweep.at(shard), what)


def _fits(row: Row, job: Job, sweep: Sweep) -> bool:
    """Whether another job's row is of a point that this job planned too."""
    declared, config = sweep.variants.get(job.label), job.config
    if declared is None or config is None or row.params != declared.params:
        return False
    timer = TIMERS[row.device] if config.timing.timer == "auto" else config.timing.timer
    return (
        config.gpu.card in (None, row.card)
        and config.gpu.device in ("auto", row.device)
        and row.timer in (None, timer)
        and row.cache in (None, config.timing.cache)
    )


def _limits(sweep: Sweep) -> Iterator[Finding]:
    """Points above their roof, above the datasheet, or faster than much narrower ones."""
    places = {id(placed.row): placed.where for placed in sweep.rows}
    rows = latest(placed.row for placed in sweep.rows)
    timed = [
        (places[id(row)], derived)
        for row, derived in zip(rows, derive(rows), strict=True)
        if derived["effective_gbps"] is not None
    ]
    cards = {gpu: card_of(gpu) for gpu in {row["gpu"] for _, row in timed}}
    timed.sort(key=lambda one: -(one[1]["fraction_of_roof"] or 0))
    for where, row in timed:
        if row["roof_gbps"] is None:
            what = f"{_name(row)}: timed with no copy beside it"
            yield Finding("completeness", "missing roof", where, what)
        elif row["above_roof"]:
            share = row["fraction_of_roof"]
            grave = share > FAR_ABOVE and row["timer"] != "host"
            kind = "far above the roof" if grave else "above the roof"
            suspect = f"; flagged: {row['suspect'][0]}" if row["suspect"] else ""
            what = f"{_name(row)}: {share:.0%} of the copy's bandwidth{suspect}"
            yield Finding("plausibility", kind, where, what, grave)
        if beyond := _beyond(row, cards[row["gpu"]]):
            yield Finding("plausibility", "above the datasheet", where, beyond)
    yield from _shrinking(timed)


def _beyond(row: dict[str, Any], card: Card) -> str | None:
    """Faster than the card's memory: by all bytes where L2 cannot help, else by what is read.

    Cold, at least half of the compulsory bytes are read, and none of them lies in L2.
    """
    peak, cache = card.peak_gbps, card.l2_bytes
    if peak is None:
        return None
    large = cache is not None and row["compulsory_bytes"] > BEYOND_L2 * cache
    if not large and row["cache"] != "cold":
        return None
    reached = gbps(row["compulsory_bytes"] / (1 if large else 2), row["time_us"])
    if reached <= peak:
        return None
    which = "" if large else " of reads"
    return f"{_name(row)}: {reached:,.0f} GB/s{which}; {card.name} has {peak:,.0f}"


def _shrinking(timed: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Finding]:
    """At least twice the columns in less than half of the time."""
    lines: dict[tuple[Any, ...], dict[int, tuple[str, dict[str, Any]]]] = defaultdict(dict)
    for where, row in timed:
        alike = ("kernel", "dtype", "rows", "timer", "cache", "round", "card")
        lines[(str(row["params"]), *(row[name] for name in alike))][row["cols"]] = where, row
    for line in lines.values():
        slowest: tuple[int, float] | None = None
        for cols in sorted(line):
            where, row = line[cols]
            if slowest and cols >= 2 * slowest[0] and row["time_us"] < MUCH_LESS * slowest[1]:
                before = f"{slowest[1]:.4g} at N = {slowest[0]}"
                what = f"{_name(row)}: {row['time_us']:.4g} µs, and {before}"
                yield Finding("plausibility", "wider and faster", where, what, grave=False)
            if slowest is None or row["time_us"] > slowest[1]:
                slowest = cols, row["time_us"]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['kernel']} {row['rows']}×{row['cols']} {row['dtype']}"


def _machine(sweep: Sweep) -> Iterator[Finding]:
    """Mixed cards or environments, impossible clocks, and what a reader of the rows must know."""
    rows, where = [placed.row for placed in sweep.rows], sweep.at()
    gpus = sorted({visible(row.gpu, 80) for row in rows})
    if len(gpus) > 1:
        what = f"rows of {', '.join(gpus)}: a folder for each"
        yield Finding("plausibility", "mixed cards", where, what)
    cards = {gpu: card_of(gpu) for gpu in {row.gpu for row in rows}}
    for placed in sweep.rows:
        for kind, what, grave in _state(placed.row, cards[placed.row.gpu]):
            yield Finding("plausibility", kind, placed.where, what, grave)
    for name in VERSIONS:
        seen = {str(row.environment.get(name) or "unknown") for row in rows}
        if len(seen) > 1:
            some = _some(sorted(visible(one[:10] if name == "commit" else one, 60) for one in seen))
            what = f"rows of {len(seen)} versions of {name}: {some}"
            yield Finding("plausibility", "mixed environments", where, what, grave=False)
    if dirty := sum(row.environment.get("dirty") is not False for row in rows):
        what = f"{dirty:,} of {len(rows):,} rows name no commit whose code they measured"
        yield Finding("plausibility", "no clean commit", where, what, grave=False)
    reasons = Counter(reason.split(":")[0] for row in rows for reason in row.suspect)
    if reasons:
        each = ", ".join(f"{visible(name, 40)} {count:,}" for name, count in reasons.most_common(9))
        what = f"{sum(bool(r.suspect) for r in rows):,} rows were flagged as measured: {each}"
        yield Finding("plausibility", "suspect rows", where, what, grave=False)
    for job in sweep.jobs:
        keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
        for row in (placed.row for placed in job.rows):
            keys[row.rows, row.cols, row.dtype, row.round, row.card].add(row.key)
        if count := sum(len(known) > 1 for known in keys.values()):
            what = f"{count:,} measured by two versions of code, library or protocol"
            place = sweep.at(job.place.as_posix())
            yield Finding("plausibility", "measured twice", place, what, grave=False)


def _state(row: Row, card: Card) -> Iterator[tuple[str, str, bool]]:
    own = row.environment.get("card")
    setup = own if isinstance(own, dict) else {}  # what the card itself said of its limits
    for clock, highest in (
        (row.sm_clock_mhz, setup.get("max_sm_clock_mhz") or card.facts.get("clock_mhz")),
        (row.memory_clock_mhz, setup.get("max_memory_clock_mhz")),
    ):
        if clock and isinstance(highest, int | float) and clock > CLOCK_STEP * highest > 0:
            what = f"a clock of {clock:,.0f} MHz, where this card reaches {highest:,.0f}"
            yield "impossible clock", what, True
    if row.throttled and not row.suspect:
        yield "throttled", f"throttled ({_some(row.throttled)}) and not flagged", False


def _timing(row: Row) -> Iterator[tuple[str, str]]:
    """What in a row contradicts itself: the kind, and a sentence."""
    item = ITEM_BYTES[row.dtype]
    if row.model_bytes is not None and row.model_reads is not None and row.model_writes is not None:
        made = (row.model_reads + row.model_writes) * item
        if row.model_bytes != made:
            yield "wrong bytes", f"model_bytes is {row.model_bytes}, its elements make {made}"
    passes = COMPULSORY.get(row.operation)
    if passes is not None and row.compulsory_bytes is not None:
        made = passes * row.rows * row.cols * item
        if row.compulsory_bytes != made:
            what = f"compulsory_bytes is {row.compulsory_bytes}, {passes}MN makes {made}"
            yield "wrong bytes", what
    if row.status != "ok":
        if row.time_us is not None:
            yield "no time", f"status {row.status}, and yet a time"
    elif row.backend != "interpreter":
        if not row.samples_us or row.time_us is None:
            yield "no time", "status ok, and no samples or no time"
        else:
            yield from _samples(row, row.samples_us, row.time_us)


def _samples(row: Row, samples_us: list[float], time_us: float) -> Iterator[tuple[str, str]]:
    middle = median(samples_us)
    recomputed = {"time_us": (time_us, middle.value), "time_low_us": (row.time_low_us, middle.low),
                  "time_high_us": (row.time_high_us, middle.high)}  # fmt: skip
    for name, (kept, made) in recomputed.items():
        if kept is None or abs(kept - made) > ROUNDED_US + 1e-6 * made:
            yield "not its samples'", f"{name} is {kept or 0:.6g}, its samples make {made:.6g}"
            break
    # A sample of a graph is the mean of its replays, so it takes at least as long as it says.
    total_s = sum(samples_us) / 1e6
    if row.sampling_s is not None and total_s > row.sampling_s:
        yield (
            "longer than it took",
            f"its samples add up to {total_s:.3g} s, sampling took {row.sampling_s:.3g} s",
        )
    spent_s = (row.sampling_s or 0) + (row.compile_s or 0)
    if row.wall_s is not None and spent_s > row.wall_s:
        yield (
            "longer than it took",
            f"sampling and compiling took {spent_s:.3g} s, the whole point {row.wall_s:.3g} s",
        )
