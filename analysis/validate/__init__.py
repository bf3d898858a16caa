"""``validate``: whether a folder of rows from someone's card can be taken; status 1 where not.

Four questions: do files, rows and records keep to the schema that every command reads by; is each
planned point there; does nothing say whose machine it was (see `analysis.validate.forms`); are the
times possible. Each finding names a file, with its line where it has one, or a point.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, RootModel

from analysis.format import visible
from analysis.validate import forms
from analysis.validate.plausible import Aspect, Finding, Placed, doubts, some
from experiments.data.files import (
    RowsError,
    parse_json,
    read_json,
    read_lines,
    validated,
    write_file,
)
from experiments.data.jobs import Config, Declaration, Session, SweepNote
from experiments.data.metrics import COPY
from experiments.data.records import KINDS
from experiments.data.rows import Row, parse_row

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
SHOWN = 12  # findings of one kind that are listed
MOST = 100  # findings of one file: a file of another kind is not reported line by line
TIMERS = {"cuda": "events", "cpu": "host"}  # what `auto` is
PROJECT = "softmax-roofline"  # W&B's, as conf/tracker has it
RECORDS: dict[str, type[BaseModel]] = {**KINDS, "sessions.jsonl": Session}
Model = TypeVar("Model", bound=BaseModel)


class Declarations(RootModel[dict[str, Declaration]]):
    """``variants.json``: what each label declares."""


@dataclass
class Job:
    """A job's folder below its sweep's: ``<grid>/<dtype>-<gpu>/[<variation>/]<label>``."""

    place: Path
    config: Config | None = None
    rows: list[Placed] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The kernel with its tunables."""
        return self.place.name

    def fits(self, row: Row, declared: Declaration | None) -> bool:
        """Whether a row that stands in another job's folder is of a point that this one plans."""
        config = self.config
        if declared is None or config is None or row.params != declared.params:
            return False
        timer = TIMERS[row.device] if config.timing.timer == "auto" else config.timing.timer
        return (
            config.gpu.card in (None, row.card)
            and config.gpu.device in ("auto", row.device)
            and row.timer in (None, timer)
            and row.cache in (None, config.timing.cache)
        )


@dataclass
class Sweep:
    """One sweep's folder, below the one that was asked about."""

    root: Path
    name: str | None = None
    variants: dict[str, Declaration] = field(default_factory=dict)
    jobs: dict[Path, Job] = field(default_factory=dict)

    @property
    def rows(self) -> list[Placed]:
        """All rows."""
        return [placed for job in self.jobs.values() for placed in job.rows]

    def at(self, place: object = "") -> str:
        """A place in it, as a path below the folder that was asked about."""
        found = (self.root / str(place)).as_posix()
        return "the sweep" if found == "." else found


@dataclass(frozen=True)
class Report:
    """What was found in a folder: the paths of what belongs, its sweeps, problems and warnings."""

    folder: Path
    data: Sequence[Path]
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
    show(report)
    if not report.problems and out is not None:
        _copy(report, out)
        print(f"\ncopied to {out}")
    elif any(one.kind in ("made by analysis", "packed") for one in report.problems):
        print("\nWhat is this machine's own can stay: --out DIR checks and copies the rest.")
    print(f"\n{verdict(report)}")
    return int(bool(report.problems))


def validate(folder: Path, data_alone: bool = False) -> Report:
    """Checks a folder of rows, whole as a sweep left it.

    Args:
        folder: The folder.
        data_alone: Only rows and what lies beside them: the rest is not to be taken.

    Raises:
        RowsError: there is no such folder, or no rows file in it.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise RowsError(f"{folder}: no such folder; a sweep's whole folder can be validated")
    found: list[Finding] = []
    files: dict[str, list[Path]] = defaultdict(list)
    for path, unfit in forms.listed(folder):
        if unfit is None:
            files[forms.kind_of(path)].append(path)
        else:
            found.append(Finding("schema", "no plain file", str(path), f"{unfit}; take it out"))
    data = files.pop("data", [])
    if not found and not any(path.name == "rows.jsonl" for path in data):
        raise RowsError(f"{folder}: no rows.jsonl in it; a sweep's whole folder can be validated")
    sweeps = _Reader(folder, found, data_alone).sweeps(data)
    for sweep in sweeps:
        found += [*_identities(sweep), *_folders(sweep), *_points(sweep)]
        found += doubts(sweep.rows, sweep.at())
    if not data_alone:
        found += _others(files)
    found.sort(key=lambda one: (ASPECTS.index(one.aspect), not one.grave))
    return Report(folder, data, sweeps, list(dict.fromkeys(found)))


def show(report: Report) -> None:
    """Prints every finding, of each kind the first few."""
    kinds: dict[tuple[Aspect, str, bool], list[Finding]] = defaultdict(list)
    for one in report.findings:
        kinds[one.aspect, one.kind, one.grave].append(one)
    for (aspect, kind, grave), ones in kinds.items():
        print(f"\n{aspect}: {kind}" + ("" if grave else " (warning)"))
        for one in ones[:SHOWN]:
            print(f"  {visible(one.where, 200)}: {visible(one.what)}")
        if len(ones) > SHOWN:
            print(f"  … and {len(ones) - SHOWN:,} more")


def verdict(report: Report) -> str:
    """The last line: whether the folder can be taken, and in which respects it cannot."""
    problems, warnings = len(report.problems), len(report.findings) - len(report.problems)
    noted = f"{warnings:,} warning{'s' * (warnings != 1)}"
    if not problems:
        rows = [placed.row for sweep in report.sweeps for placed in sweep.rows]
        gpus = some(sorted({visible(row.gpu, 80) for row in rows}))
        return f"valid: {len(rows):,} rows of {gpus}; {noted}"
    lacking = [name for name in ASPECTS if any(p.aspect == name for p in report.problems)]
    return f"not valid: {problems:,} problem{'s' * (problems != 1)} ({', '.join(lacking)}); {noted}"


def _copy(report: Report, out: Path) -> None:
    """Rows and what lies beside them; whose W&B account it was stays behind."""
    for path in report.data:
        data = (report.folder / path).read_bytes()
        if path.name == "config.json":
            config = json.loads(data)
            config["tracker"] |= {"entity": None, "project": PROJECT}
            data = (json.dumps(config, indent=1, ensure_ascii=False) + "\n").encode()
        write_file(out / path, data)


def _others(files: Mapping[str, Sequence[Path]]) -> Iterator[Finding]:
    """What is not data: what git ignores is a warning; a whole folder is named once."""
    said = {
        "of this machine": "git ignores it below outputs/reference",
        "made by analysis": "made of the rows, and not checked: take it out",
        "packed": "packed, so nothing in it was checked: unpack it and validate it by itself",
        "does not belong": "no part of a sweep: take it out",
    }
    for kind, paths in files.items():
        for place in dict.fromkeys(forms.outermost(path) for path in paths):
            yield Finding("privacy", kind, str(place), said[kind], kind != "of this machine")


class _Reader:
    """Reads the files of a folder by the schema; what cannot be read is a finding."""

    def __init__(self, folder: Path, found: list[Finding], data_alone: bool) -> None:
        self._folder, self._found, self._data_alone = folder, found, data_alone

    def sweeps(self, data: Sequence[Path]) -> list[Sweep]:
        """Every sweep, with its jobs and rows."""
        roots = {path.parent for path in data if path.name == "sweep.json"}
        sweeps = {root: Sweep(root) for root in sorted(roots)}
        for path in data:
            self._own_names(path)
            root = next((above for above in path.parents if above in roots), Path())
            sweep = sweeps.setdefault(root, Sweep(root))
            if path.name == "sweep.json":
                note = self._object(path, SweepNote, forms.NOTE)
                sweep.name = note.sweep if note else None
            elif path.name == "variants.json":
                read = self._object(path, Declarations, forms.DECLARED)
                if read and path.parent == root:
                    sweep.variants = read.root
            elif path.name in forms.JOB:
                place = path.parent.relative_to(root)
                if len(place.parts) not in (3, 4):
                    what = "it lies in no job's folder, such as wide/native-auto/online"
                    self._say("schema", "misplaced", path, what)
                    continue
                job = sweep.jobs.setdefault(place, Job(place))
                if path.name == "rows.jsonl":
                    job.rows = list(self._rows(path, str(place)))
                else:
                    job.config = self._config(path)
            else:
                self._beside(path)
        return [sweep for sweep in sweeps.values() if sweep.jobs or sweep.root in roots]

    def _say(self, aspect: Aspect, kind: str, where: object, what: str) -> None:
        self._found.append(Finding(aspect, kind, str(where), visible(what, 200)))

    def _own_names(self, path: Path) -> None:
        """This machine's own names, in the file and in its path."""
        for kind, pattern in forms.own_names():
            if pattern.search(path.as_posix().encode()):
                self._say("privacy", kind, path, f"{kind} of this machine in its path")
            with contextlib.suppress(RowsError):  # of a line too long, which is refused anyway
                for number, line, _ in read_lines(self._folder / path):
                    if pattern.search(line):
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

    def _rows(self, path: Path, job: str) -> Iterator[Placed]:
        for where, line, torn in self._lines(path):
            try:
                row = parse_row(line)
            except ValueError as error:
                mended = "cut short: running the same sweep again repairs it"
                self._say("schema", "no row", where, mended if torn else str(error))
                continue
            self._texts(row.model_dump(exclude={"samples_us"}), forms.ROW, where)
            yield Placed(row, where, job)

    def _beside(self, path: Path) -> None:
        """Records, sessions, and the table that a sweep ends with."""
        for where, line, _ in self._lines(path):
            try:
                if path.name in RECORDS:
                    record = validated(RECORDS[path.name], parse_json(line))
                    self._texts(record.model_dump(), forms.ROW, where)
                elif not forms.table_line(line.decode()):
                    raise ValueError("no line of a sweep's table; the sweep writes it again")
            except ValueError as error:
                self._say("schema", "no record", where, str(error))

    def _object(self, path: Path, kind: type[Model], form: forms.Form) -> Model | None:
        try:
            value = read_json(self._folder / path)
            model = validated(kind, value)
        except (RowsError, ValueError) as error:
            what = str(error).removeprefix(f"{self._folder / path}: ")
            self._say("schema", "no configuration", path, what)
            return None
        self._texts(value, form, path)
        return model

    def _config(self, path: Path) -> Config | None:
        config = self._object(path, Config, forms.CONFIG)
        if config is None:
            return None
        try:
            config.planned()
        except (ValueError, TypeError, KeyError) as error:
            self._say("schema", "no configuration", path, f"no job's configuration: {error}")
            return None
        if reason := forms.odd_card(config.gpu.match):
            self._say("schema", "no configuration", path, reason)
        tracker = config.tracker  # which is not copied
        if not self._data_alone and (tracker.entity is not None or tracker.project != PROJECT):
            what = f"tracker.entity and tracker.project name one; null and {PROJECT} belong there"
            self._say("privacy", "a W&B account", path, what)
        return config


def _identities(sweep: Sweep) -> Iterator[Finding]:
    """Each identity is one row's, each key one measurement's, and each row in its place."""
    known: dict[tuple[Any, ...], str] = {}
    first: dict[str, tuple[tuple[Any, ...], str]] = {}
    for row, at, job in sweep.rows:
        label = Path(job).name
        where = known.setdefault((*row.identity, row.attempt), at)
        measured = row.kernel, str(row.params), row.rows, row.cols, row.dtype, row.gpu
        before, other = first.setdefault(row.key, (measured, at))
        for kind, wrong, what in (
            ("duplicate", where != at, f"the same key, card, round and attempt as {where}"),
            ("duplicate", before != measured, f"its key is that of another point, {other}"),
            ("misplaced", sweep.name not in (None, row.sweep),
             f"a row of sweep {row.sweep!r} in the folder of {sweep.name!r}"),
            ("misplaced", row.kernel != label.split(",")[0],
             f"a row of {row.kernel!r} in the folder of {label!r}"),
        ):  # fmt: skip
            if wrong:
                yield Finding("schema", kind, at, what)


def _folders(sweep: Sweep) -> Iterator[Finding]:
    """Files and jobs that a sweep's folder lacks, and shards without a roof."""
    lacking: list[tuple[str, object, str]] = []
    if sweep.name is None:
        what = "missing, or no sweep's name in it: a sweep's whole folder is needed"
        lacking.append(("missing file", "sweep.json", what))
    labels = {job.label for job in sweep.jobs.values()}
    if not sweep.variants:
        what = "missing or broken: what each variant declares is not known"
        lacking.append(("missing file", "variants.json", what))
    elif lost := sorted(labels - sweep.variants.keys()):
        lacking.append(("missing file", "variants.json", f"does not declare {some(lost)}"))
    for place, job in sweep.jobs.items():
        if job.config is None:
            what = "missing or broken, so what was planned is not known"
            lacking.append(("missing file", place / "config.json", what))
    # a sweep is a product of kernels and grids
    grids = {(place.parts[0], place.parts[1:-1]) for place in sweep.jobs}
    for (grid, rest), label in product(sorted(grids), sorted(labels | sweep.variants.keys())):
        elsewhere = any(p.parts[1:] == (*rest, label) for p in sweep.jobs) or label not in labels
        if elsewhere and Path(grid, *rest, label) not in sweep.jobs:
            what = f"no folder of {label}, which other grids have or variants.json declares"
            lacking.append(("missing folder", Path(grid, *rest), what))
    beside = {(place.parent, _operation(job, sweep)[0]) for place, job in sweep.jobs.items()}
    needed = {(place.parent, _operation(job, sweep)[1]) for place, job in sweep.jobs.items()}
    for shard, roof in sorted(needed - beside):
        what = f"no {roof} among its kernels, so that rows have no roof"
        lacking.append(("missing roof", shard, what))
    for kind, where, what in lacking:
        yield Finding("completeness", kind, sweep.at(where), what)


def _operation(job: Job, sweep: Sweep) -> tuple[str, str]:
    """A job's operation and the one of its roof, empty where neither is known."""
    declared = sweep.variants.get(job.label)
    found = declared or next((placed.row for placed in job.rows), None)
    return (found.operation, found.roof or COPY) if found else ("", COPY)


def _points(sweep: Sweep) -> Iterator[Finding]:
    """Planned points without a row; and, as a warning, points whose last row is a failure.

    A point that several jobs plan has its row in the folder of the first, so it is looked for in
    the whole sweep.
    """
    everywhere: dict[tuple[Any, ...], list[Placed]] = defaultdict(list)
    for placed in sweep.rows:
        row = placed.row
        everywhere[row.kernel, row.dtype, row.rows, row.cols, row.round].append(placed)
    for job in sweep.jobs.values():
        if job.config is None:
            continue
        declared, name = sweep.variants.get(job.label), job.label.split(",")[0]
        where, rounds = sweep.at(job.place), range(job.config.rounds)
        shapes, dtypes = job.config.planned()
        for dtype in dtypes:
            missing, failed = [], defaultdict(list)
            for number, (m, n) in product(rounds, shapes):
                rows = everywhere.get((name, dtype, m, n, number), [])
                rows = [p for p in rows if p.job == str(job.place)] or [
                    p for p in rows if job.fits(p.row, declared)
                ]
                if not rows:
                    missing.append((f"{m}×{n}", str(number)))
                elif not rows[-1].row.expected:
                    failed[rows[-1].row.status].append(f"{m}×{n}")
            for status, names in failed.items():
                what = f"{dtype}: {status} at {some(names)}"
                # a failure is a result, and its row belongs to the record
                yield Finding("completeness", "failed points", where, what, grave=False)
            if missing:
                lost, of = (list(dict.fromkeys(each)) for each in zip(*missing, strict=True))
                what = (
                    f"{dtype}: {len(missing)} of {len(shapes) * len(rounds)} missing: {some(lost)}"
                )
                what += f", in round {some(of, 8)}" * (len(rounds) > 1)
                yield Finding("completeness", "missing points", where, what)
