"""``validate``: whether a stranger's folder of rows can be taken; status 1 where it cannot.

A folder holds one sweep or several, as they were measured or as recordings. Each file must be a
plain one that a sweep writes and keep to its schema, no text may say whose machine it was, and the
times must be possible. A problem is one line: the place, the fault and the remedy. With ``--out``
the sweeps of a valid folder are written there as recordings, and nothing else is.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from analysis.format import visible
from analysis.load import Declarations
from experiments.data.cards import card_of, descriptions
from experiments.data.files import RowsError, parse_json, read_json, read_lines, validated
from experiments.data.jobs import Config, Session, SweepNote
from experiments.data.metrics import derive, gbps, latest
from experiments.data.recordings import CONFIG, JOBS, pack
from experiments.data.records import HOSTCOST, KINDS, HostCost
from experiments.data.rows import PACKED_ROWS, ROWS, Row, parse_row
from experiments.data.statistics import median

SHOWN = 20  # problems, and warnings, that are listed
MOST = 100  # problems of one file: a file of another kind is not reported line by line
MOST_ROWS = 200_000  # a card's recordings have some ten thousand
PLAIN = re.compile(r"\w[\w.,=+-]{0,199}", re.ASCII)
TARGET = re.compile(r"((kernels|tests\.doubles)(\.\w+)+)?", re.ASCII)
BEYOND_L2 = 4  # times L2: next to nothing of a matrix that large is left there
LISTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
LOCAL, FACTS, PRIVATE = set(LISTS["local"]), set(LISTS["facts"]), LISTS["private"]
AGAIN = "measure that point again"


MODELS: dict[str, type[BaseModel]] = {
    **KINDS,
    **{"sessions.jsonl": Session, "sweep.json": SweepNote, "variants.json": Declarations},
    **{CONFIG: Config, HOSTCOST: HostCost, JOBS: Config, ROWS: Row, PACKED_ROWS: Row},
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
    checked = Checked(folder)
    if not checked.rows and not checked.problems:
        raise RowsError(f"{folder}: no {ROWS} or {PACKED_ROWS} below it; name a sweep's folder")
    counts = []
    for kind, found in (("warning", checked.warnings), ("problem", checked.problems)):
        counts.append(f"{len(found):,} {kind}{'s' * (len(found) != 1)}")
        for one in found[:SHOWN]:
            print(f"{kind}: {one}")
        if len(found) > SHOWN:
            print(f"{kind}: … and {len(found) - SHOWN:,} more")
    if checked.problems:
        print(f"\nnot valid: {counts[1]}, {counts[0]}")
        return 1
    for root in checked.sweeps if out is not None else ():
        if (folder / root / JOBS).exists():
            print(f"{folder / root} is a recording already")
        else:
            print(*pack(folder / root, out / root), sep="\n")
    gpus = visible(", ".join(sorted({row.gpu for row in checked.rows.values()})))
    print(f"\nvalid: {len(checked.rows):,} rows of {gpus}; {counts[0]}")
    return 0


class Checked:
    """A folder as it was checked.

    Attributes:
        problems: The folder cannot be taken with them: place, problem and remedy in one line.
        warnings: Facts that a reader of its rows must know.
        rows: All rows by place, a file and its line.
        sweeps: The name of each sweep by its folder, below the one that is checked.
    """

    def __init__(self, folder: Path) -> None:
        """Checks all of it."""
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.rows: dict[str, Row] = {}
        self.sweeps: dict[Path, str] = {}
        self._folder = folder
        self._seen: set[tuple[str, str, str]] = set()
        # rows are compared with their sweep's name
        for path in sorted(self._files(), key=lambda path: (path.name != "sweep.json", path)):
            self._read(path)
        self._judge_together()

    def _problem(self, where: object, fault: str, remedy: str) -> None:
        self.problems.append(f"{visible(str(where), 200)}: {visible(fault, 200)}; {remedy}")

    def _files(self) -> Iterator[Path]:
        """The files that a sweep writes; others are left behind, and a link is a problem."""
        for place, folders, files in os.walk(self._folder):
            here = Path(place).relative_to(self._folder)
            for name in sorted({*folders, *files} - LOCAL):
                mode = Path(place, name).lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    self._problem(here / name, "a link, a pipe or a device", "take it out")
                elif not PLAIN.fullmatch(name):
                    self._problem(here / name, "an odd name", "rename it")
                elif name in MODELS and name in files:
                    yield here / name
                elif name in files:
                    self.warnings.append(f"{here / name}: no file of a sweep, and left behind")
            folders[:] = sorted(set(filter(PLAIN.fullmatch, folders)) - LOCAL)

    def _read(self, path: Path) -> None:
        """Reads a file by its schema, line by line where it has lines."""
        full, begun = self._folder / path, len(self.problems)
        try:
            if path.suffix == ".json":
                return self._value(path, str(path), read_json(full))
            for number, line, torn in read_lines(full):
                where = f"{path}:{number}"
                try:
                    if MODELS[path.name] is Row:
                        self._row(path, where, parse_row(line))
                    else:
                        self._value(path, where, parse_json(line))
                except ValueError as error:
                    remedy = "run the same sweep again" if torn else "mend or remove that line"
                    self._problem(where, str(error), remedy)
                if len(self.problems) > begun + MOST or len(self.rows) > MOST_ROWS:
                    return self._problem(path, "too many problems, or rows", "name one sweep")
        except (RowsError, ValueError) as error:
            fault = str(error).removeprefix(str(full)).lstrip(": ")
            self._problem(path, fault, "copy the file again from where it was measured")

    def _row(self, path: Path, where: str, row: Row) -> None:
        self.rows[where] = row
        self._texts(path, where, {k: one for k, one in vars(row).items() if k != "samples_us"})
        sweep = next((self.sweeps[up] for up in path.parents if up in self.sweeps), None)
        if row.sweep != sweep:
            self._problem(where, f"a row of sweep {row.sweep!r}", "keep it beside its sweep.json")
        for fault in contradictions(row):
            self._problem(where, fault, AGAIN)
        vars(row)["samples_us"] = None  # most of its memory, and judged

    def _value(self, path: Path, where: str, value: Any) -> None:
        """A record, a job's configuration, the sweep's name, or the declarations of variants."""
        self._texts(path, where, value)
        if path.name == JOBS:
            if not isinstance(value, dict) or {*value} != {"job", "rows", "config"}:
                raise ValueError("no job of a recording")
            value = value["config"]
        model = validated(MODELS[path.name], value) if value is not None else None
        if isinstance(model, SweepNote):
            self.sweeps[path.parent] = model.sweep
        elif isinstance(model, Config):
            known = {None, *(one.get("match") for one in descriptions())}
            if model.gpu.match not in known or model.tracker.entity is not None:
                fault = "gpu.match is in no file of conf/gpu, or tracker.entity names an account"
                self._problem(where, fault, "set both to null there")

    def _texts(self, path: Path, where: str, value: Any) -> None:
        """Names each private text once for all the rows of a file that share it."""
        for place, text in texts_of(value):
            if (str(path), place, text) not in self._seen and (kind := private(place, text)):
                fault = f"{place} holds {kind}: {visible(text, 80)!r}"
                self._problem(where, fault, "blank that text; it changes no measurement")
            self._seen.add((str(path), place, text))

    def _judge_together(self) -> None:
        """Judges rows beside each other."""
        first: dict[tuple[Any, ...], str] = {}
        for where, row in self.rows.items():
            known = first.setdefault((row.sweep, *row.identity, row.attempt), where)
            if known != where:
                self._problem(where, f"key, card, round and attempt of {known}", "remove one")
        if len(gpus := sorted({row.gpu for row in self.rows.values()})) > 1:
            self._problem(".", f"rows of {', '.join(gpus)}", "make a folder for each card")
        newest, counts = latest(self.rows.values()), Counter[str]()
        for row, own in zip(newest, derive(newest), strict=True):
            lacks = row.status == "ok" and own["roof_gbps"] is None
            counts.update(f"flagged {flag.partition(':')[0]}" for flag in row.suspect)
            counts[f"status {row.status}"] += not row.expected
            counts["without a time of their roof"] += lacks
            counts["above their roof by more than noise"] += own["above_roof"] is True
            counts["of no clean commit"] += row.environment.get("dirty") is not False
            if own["effective_gbps"] is not None and (fault := impossible(row)):
                self._problem(first[row.sweep, *row.identity, row.attempt], fault, AGAIN)
        self.warnings += [visible(f"points {kind}: {n:,}") for kind, n in counts.items() if n]


def contradictions(row: Row) -> Iterator[str]:
    """Where a row contradicts itself."""
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
    # a sample of a graph is the mean of its replays, so it takes at least as long as it says
    if row.sampling_s is not None and sum(row.samples_us) / 1e6 > row.sampling_s:
        yield "its samples add up to more than sampling took"


def impossible(row: Row) -> str:
    """Why no card can have reached a time by its datasheet; empty where one can."""
    card, size = card_of(row.gpu), row.compulsory_bytes or 0
    if None in (card.peak_gbps, card.l2_bytes, row.time_us) or row.timer == "chain":
        return ""
    # L2 cannot help; or it is cold, and at least half of the bytes are read from memory
    large = size > BEYOND_L2 * (card.l2_bytes or 0)
    reached = gbps(size / (1 if large else 2), row.time_us or 1.0)
    if (large or row.cache == "cold") and reached > (card.peak_gbps or 0):
        return f"{reached:,.0f} GB/s, and {card.name} has {card.peak_gbps:,.0f}"
    return ""


def texts_of(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, and every name in it, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield f"a name in {place}", name
            yield from texts_of(one, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for one in value:
            yield from texts_of(one, place)


@lru_cache(maxsize=1 << 16)
def private(place: str, text: str) -> str:
    """The kind of private text that this one holds, or foreign code; empty for none."""
    if place.endswith(("target", "_target_")):
        return "" if TARGET.fullmatch(text) else "code that is not of this project"
    if own := next((own for own in own_names() if re.search(rf"\b{re.escape(own)}\b", text)), ""):
        return f"a name of this machine, {own}"
    return next((kind for kind, pattern in PRIVATE.items() if re.search(pattern, text)), "")


@cache
def own_names() -> tuple[str, ...]:
    """This machine's own names: a contributor checks rows where they were measured."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without an entry for its user
        user = ""
    usual = {"root", "user", "ubuntu", "admin", "localhost", "runner", "docker"}
    names = socket.gethostname().split(".")[0], user
    return tuple(name for name in names if len(name) > 3 and name not in usual)
