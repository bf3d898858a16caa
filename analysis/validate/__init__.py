"""``validate``: whether a folder of rows from someone's card can be taken; status 1 where not.

Four questions: do files, rows and records keep to the schema that every command reads by; is each
planned point there; does nothing say whose machine it was (see `analysis.validate.forms`); are the
times possible. Each finding names a file, with its line where it has one, or a point.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.format import visible
from analysis.validate import forms
from analysis.validate.plausible import Placed, doubts, some
from experiments.data.files import (
    RowsError,
    parse_json,
    read_json,
    read_lines,
    validated,
    write_file,
)
from experiments.data.jobs import Config, Declaration, Session, SweepNote
from experiments.data.records import KINDS
from experiments.data.rows import Row, parse_row

Aspect = Literal["schema", "completeness", "privacy", "plausibility"]
ASPECTS: tuple[Aspect, ...] = ("schema", "completeness", "privacy", "plausibility")
SHOWN = {True: 12, False: 5}  # problems and warnings of one kind that are listed
MOST = 100  # findings of one file: a file of another kind is not reported line by line
PRESETS = forms.ROOT / "conf" / "experiment"
TIMERS = {"cuda": "events", "cpu": "host"}  # what `auto` is
PROJECT = "softmax-roofline"  # W&B's, as conf/tracker has it
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
        found += _twice(sweep)
        for one in doubts(sweep.rows, sweep.at()):
            aspect: Aspect = "completeness" if one.kind == "missing roof" else "plausibility"
            found.append(Finding(aspect, one.kind, one.where, one.what, one.grave))
    if not data_alone:
        found += _others(files)
    found.sort(key=lambda one: (ASPECTS.index(one.aspect), not one.grave))
    return Report(folder, files, sweeps, list(dict.fromkeys(found)))


def show(report: Report, console: Console) -> None:
    """Prints the four answers, then every finding, the first few of each kind."""
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
    return f"{len(rows):,} rows of {some(sorted({visible(row.gpu, 80) for row in rows}))}"


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
                mended = "cut short: running the same sweep again repairs it"
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
        lacking.append(("missing file", "variants.json", f"does not declare {some(lost)}"))
    if places := [job.place.as_posix() for job in sweep.jobs if job.config is None]:
        which = f"of {len(places)} of {len(sweep.jobs)} jobs: {some(places)}"
        what = f"missing or broken, so what was planned is not known, {which}"
        lacking.append(("missing file", "config.json", what))
    if lost := sorted(sweep.variants.keys() - labels):
        what = f"declares what no folder holds rows of: {some(lost)}"
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
                what = f"no folder of {some(lost)}, which other grids have"
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
                what = f"the preset {name} has {group}={some(lost, 20).replace(', ', ',')} too"
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
            what = f"{dtype}: {status} at {some(names)}"
            where = sweep.at(job.place.as_posix())
            yield Finding("completeness", "failed points", where, what)
        for lost, dtypes in missing.items():
            lacking[job.shard, tuple(dtypes), lost].append(job)
    for (shard, of, lost), jobs in lacking.items():
        shapes = list(dict.fromkeys(f"{m}×{n}" for m, n, _ in lost))
        what = (f"{some([job.label for job in jobs], 8)}; {', '.join(of)}; "
                f"{len(lost)} of {len(jobs[0].planned)} missing: {some(shapes)}")  # fmt: skip
        if jobs[0].config and jobs[0].config.rounds > 1:
            what += f", in round {some(sorted({str(visit[2]) for visit in lost}), 8)}"
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


def _twice(sweep: Sweep) -> Iterator[Finding]:
    """Points that stand there twice, as code, versions or protocol changed in between."""
    for job in sweep.jobs:
        keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
        for row in (placed.row for placed in job.rows):
            keys[row.rows, row.cols, row.dtype, row.round, row.card].add(row.key)
        if count := sum(len(known) > 1 for known in keys.values()):
            what = f"{count:,} measured by two versions of code, library or protocol"
            place = sweep.at(job.place.as_posix())
            yield Finding("plausibility", "measured twice", place, what, grave=False)
