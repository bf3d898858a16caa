"""``validate``: checks whether a contributed folder can be accepted; status 1 if it cannot.

It must hold sweeps, as measured or as recordings: plain files that follow their schema, no text
that identifies a machine or its owner, and only possible times. A problem is one line: the place,
the fault and the remedy. With ``--out`` a valid folder's sweeps are written there as recordings.
"""

import argparse
import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from analysis.format import visible
from analysis.load import Declarations
from experiments.data.cards import datasheet_of
from experiments.data.files import RowsError, parse_json, read_json, read_lines, validated
from experiments.data.jobs import CONF, Config, SweepNote, read_yaml
from experiments.data.metrics import gbps
from experiments.data.records import KINDS
from experiments.data.rows import CONFIG, JOBS, PACKED_ROWS, ROWS, Row, pack
from experiments.data.statistics import median

SHOWN = 20  # problems that are listed
MOST_PROBLEMS = 100  # of one file; a file of another kind would fail on every line
MOST_ROWS = 200_000  # rows of a folder; a card's recordings have some ten thousand
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')  # a string of JSON
TARGET = re.compile(r'"\w*target_?": *"([^"]*)"')  # the code that a kernel or a configuration names
OUR_TARGETS = re.compile(r"((kernels|tests\.doubles)(\.\w+)+)?", re.ASCII)
TIMES_L2 = 4  # times L2: of a matrix that large, L2 keeps next to nothing
LISTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
LOCAL, FACTS = set(LISTS["local"]), set(LISTS["facts"])
PRIVATE: dict[str, str] = LISTS["private"]
USUAL = ("root", "user", "ubuntu", "admin", "localhost", "runner", "docker")  # identify nobody
MODELS: dict[str, type[BaseModel]] = {
    **KINDS,
    **{"sweep.json": SweepNote, "variants.json": Declarations},
    **{CONFIG: Config, JOBS: Config, ROWS: Row, PACKED_ROWS: Row},
}


def arguments(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``validate``."""
    command.add_argument("--rows", type=Path, required=True, metavar="DIR", help="the folder")
    packed = "pack a valid folder's sweeps there, such as outputs/reference/rtx_4090"
    command.add_argument("--out", type=Path, metavar="DIR", help=packed)


def run(options: argparse.Namespace) -> int:
    """Checks a folder and prints the findings; with ``--out`` packs a valid one.

    Raises:
        RowsError: there is no folder of rows, or something lies at ``--out`` already.
    """
    folder, out = options.rows, options.out
    if folder.is_symlink() or not folder.is_dir():
        raise RowsError(f"{folder}: no such folder; name the whole folder of a sweep")
    if out is not None and (out.exists() or out.is_symlink()):
        raise RowsError(f"--out {out}: something is there already; name a new folder")
    found = check_folder(folder)
    if not found.rows and not found.problems:
        raise RowsError(f"{folder}: no {ROWS} or {PACKED_ROWS} below it; name a sweep's folder")
    if count := len(found.problems):
        print(*(f"problem: {one}" for one in found.problems[:SHOWN]), sep="\n")
        more = f"; the first {SHOWN} are shown" * (count > SHOWN)
        print(f"\nnot valid: {count:,} problem{'s' * (count > 1)}{more}")
        return 1
    for root in found.sweeps if out is not None else ():
        if (folder / root / JOBS).exists():
            print(f"{folder / root} is a recording already")
        elif found.sweeps.keys().isdisjoint(root.parents):  # the shards of Slurm are of one sweep
            print(*pack(folder / root, out / root), sep="\n")
    for note, rows in found.sweeps.values():
        numbers = {row.sequence for row in rows if row.sequence is not None}
        gaps = max(numbers, default=-1) + 1 - len(numbers)
        never = note.points - len({row.identity for row in rows})
        if (missing := max(gaps, never)) > 0:
            print(f"note: {visible(note.sweep)}: rows missing, by number or plan: {missing:,}")
    gpus = visible(", ".join(sorted({row.gpu for row in found.rows.values()})))
    print(f"\nvalid: {len(found.rows):,} rows of {gpus}")
    return 0


@dataclass(frozen=True)
class Findings:
    """The content of a folder, and what is wrong with it."""

    problems: list[str] = field(default_factory=list)  # place, fault and remedy in a line
    rows: dict[str, Row] = field(default_factory=dict)  # by place, a file and its line
    # by a sweep's folder its note, and its rows
    sweeps: dict[Path, tuple[SweepNote, list[Row]]] = field(default_factory=dict)

    def problem(self, where: object, fault: str, remedy: str) -> None:
        """Adds a problem, for which the folder is refused."""
        self.problems.append(f"{visible(str(where), 200)}: {visible(fault, 200)}; {remedy}")


def check_folder(folder: Path) -> Findings:
    """Checks all files that a sweep writes: each row by itself, then rows against each other."""
    found, files = Findings(), list[Path]()
    for path in folder.rglob("*"):
        here, mode = path.relative_to(folder), path.lstat().st_mode
        if LOCAL.isdisjoint(here.parts) and not stat.S_ISDIR(mode):
            if not stat.S_ISREG(mode):
                found.problem(here, "a link, a pipe or a device", "take it out")
            elif path.name in MODELS:  # other files are left behind
                files.append(here)
    # sweep.json comes first: the sweep of each row is compared with it
    for here in sorted(files, key=lambda one: (one.name != "sweep.json", one)):
        try:
            _read(folder, here, found)
        except RowsError as error:
            fault = str(error).removeprefix(str(folder / here)).lstrip(": ")
            found.problem(here, fault, "copy the file again from where it was measured")
    first: dict[tuple[Any, ...], str] = {}
    for where, row in found.rows.items():
        known = first.setdefault((row.sweep, *row.identity, row.attempt), where)
        if known != where:
            found.problem(where, f"key, card, round and attempt of {known}", "remove one")
    if len(gpus := sorted({row.gpu for row in found.rows.values()})) > 1:
        found.problem(".", f"rows of {', '.join(gpus)}", "make a folder for each card")
    return found


def _read(top: Path, path: Path, found: Findings) -> None:
    """Reads a file by its schema, line by line where it has lines."""
    begun, reported, whole = len(found.problems), set[str](), path.suffix == ".json"
    lines = [(0, (top / path).read_bytes(), False)] if whole else read_lines(top / path)
    for number, line, torn in lines:
        where = str(path) if whole else f"{path}:{number}"
        if len(found.problems) > begun + MOST_PROBLEMS or len(found.rows) > MOST_ROWS:
            return found.problem(path, "too many problems, or rows", "name one sweep")
        try:
            if MODELS[path.name] is Row:
                row = found.rows[where] = validated(Row, parse_json(line))
                beside = (found.sweeps[up] for up in path.parents if up in found.sweeps)
                note, rows = next(beside, (None, []))
                rows.append(row)
                if note is None or row.sweep != note.sweep:
                    remedy = "keep it beside its sweep.json"
                    found.problem(where, f"a row of sweep {row.sweep!r}", remedy)
                for fault in contradictions(row):
                    found.problem(where, fault, "measure that point again")
                vars(row)["samples_us"] = None  # checked by now, and most of a row's memory
            else:
                value = read_json(top / path) if whole else parse_json(line)
                _value(path, where, value, found)
        except ValueError as error:
            remedy = "run the same sweep again" if torn else "mend or remove that line"
            found.problem(where, str(error), remedy)
            continue
        # a private text is reported once per file, not for every row that has it
        for fault in private_texts(line.decode()):
            if fault not in reported:
                found.problem(where, fault, "blank that text; it changes no measurement")
            reported.add(fault)


def _value(path: Path, where: str, value: Any, found: Findings) -> None:
    """Checks a record, a job's configuration, a sweep's name, or the declarations of variants."""
    if path.name == JOBS:
        if not isinstance(value, dict) or {*value} != {"job", "rows", "config"}:
            raise ValueError("no job of a recording")
        value = value["config"]
    model = validated(MODELS[path.name], value) if value is not None else None
    if isinstance(model, SweepNote):
        found.sweeps[path.parent] = model, []
    elif isinstance(model, Config):
        known = {None, *(one.get("match") for one in read_yaml(CONF / "gpu").values())}
        if model.gpu.match not in known or model.tracker.entity is not None:
            fault = "gpu.match is in no file of conf/gpu, or tracker.entity names an account"
            found.problem(where, fault, "set both to null there")


def contradictions(row: Row) -> Iterator[str]:
    """Where a row contradicts itself, or the datasheet of its card."""
    if not re.fullmatch("[0-9a-f]{6,64}", row.key):
        yield f"the key {row.key!r} is not a hash"
    if unknown := sorted(row.environment.keys() - FACTS):
        yield f"environment has {unknown[0]!r}, which no sweep writes"
    if row.status != "ok" and row.time_us is not None:
        yield f"status {row.status}, but it has a time"
    if row.status != "ok" or row.backend == "interpreter":
        return
    if not row.samples_us or row.time_us is None:
        yield "status ok, but no samples or no time"
        return
    middle = median(row.samples_us)
    kept = row.time_us, row.time_low_us or 0.0, row.time_high_us or 0.0
    own = middle.value, middle.low, middle.high
    if any(abs(one - made) > 1e-4 + 1e-6 * made for one, made in zip(kept, own, strict=True)):
        yield f"time {row.time_us:.6g} µs or its interval is not that of its samples"
    card, size = datasheet_of(row.gpu), row.compulsory_bytes or 0
    if card.peak_gbps is None or card.l2_bytes is None or row.timer == "chain":
        return
    # a large matrix is not in L2; with a cold L2 at least half of the bytes come from memory
    large = size > TIMES_L2 * card.l2_bytes
    reached = gbps(size / (1 if large else 2), row.time_us)
    if (large or row.cache == "cold") and reached > card.peak_gbps:
        yield f"{reached:,.0f} GB/s, and {card.name} has {card.peak_gbps:,.0f}"


def private_texts(text: str) -> Iterator[str]:
    """The faults of some JSON: texts and keys that are private, or names of foreign code."""
    for one in sorted(set(TEXT.findall(text))):
        if kind := private(one):
            yield f"{kind}: {visible(json.loads(one), 80)!r}"
    for one in sorted({name for name in TARGET.findall(text) if not OUR_TARGETS.fullmatch(name)}):
        yield f"code that is not of this project: {visible(one, 80)!r}"


@lru_cache(maxsize=1 << 16)
def private(text: str) -> str:
    """The kind of private text that a string of JSON holds; empty for none."""
    names = socket.gethostname().split(".")[0], os.environ.get("USER", "")
    own = "|".join(re.escape(name) for name in names if len(name) > 3 and name not in USUAL)
    # a contributor checks on the machine that measured, so its own names are private too
    kinds = PRIVATE | ({"a name of this machine": rf"\b({own})\b"} if own else {})
    if OUR_TARGETS.fullmatch(known := json.loads(text)):
        return ""
    return next((kind for kind, pattern in kinds.items() if re.search(pattern, known)), "")
