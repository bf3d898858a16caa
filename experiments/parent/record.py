"""A sweep's folder: its lock, its rows, and what lies beside them."""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.data.errors import UserError
from experiments.data.files import RowsError, validated, write_file
from experiments.data.rows import ROWS, Row, read_rows, rows_files
from experiments.parent.client import Worker, WorkerDied
from experiments.parent.plan import PROTOCOL, Identity, Plan, Point

DECLARED_FIELDS = ("rows", "cols", "dtype", "model_reads", "model_writes", "model_bytes",
                   "compulsory_bytes", "flops", "exponentials")  # fmt: skip
PROFILING_LIMIT_S = 600.0
# An H200's SM clock changes in steps of 15 MHz, 0.8 % of 1980, and by one step at any time. More
# than two steps slow a compute-bound kernel by more than the 1 % that ratios must resolve.
CLOCK_DRIFT = 0.02
# A point lasts 0.1 s to a few seconds. A card that warms by more than this (NVML: whole °C) within
# a point comes out of idle or loses its cooling; a busy card warms by less.
RAMP_C = 5.0


def folder_lock(out: Path) -> AbstractContextManager[object]:
    """Locks a sweep's folder by its ``.lock`` until the block ends; a crash releases it, too.

    Raises:
        UserError: the folder cannot be written, or another sweep has the lock.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        return FileLock(out / ".lock", timeout=0, thread_local=False).acquire()
    except Timeout:
        raise UserError(f"out={out}: another sweep writes there; wait or choose another") from None
    except FileExistsError:
        raise UserError(f"out={out} is a file; name a folder, or a new one") from None
    except OSError as error:
        raise UserError(f"out={out} cannot be written: {error.strerror}") from None


class Ledger:
    """All rows below ``out``; nothing else writes them.

    Before it appends a row it checks that all files are as it left them: somebody may have removed
    them, or the folder with its lock, and another sweep may write there. With ``read_only``, for a
    dry run, it leaves a torn last line in place.

    Raises:
        UserError: a row is malformed.
        OSError: a file cannot be read or repaired.
    """

    def __init__(self, out: Path, read_only: bool = False) -> None:
        self._out = out
        self._latest: dict[Identity, Row] = {}
        self.highest_mhz: dict[tuple[str, str | None], float] = {}  # SM clock by GPU name and mark
        self._files: dict[Path, tuple[int, int]] = {}  # inode and size as this sweep left them
        self._mutex, self._count = threading.Lock(), 0
        for path in rows_files(out):
            if path.name != ROWS:
                raise UserError(f"{path} is a recording, which takes no rows; choose another out=")
            try:
                if not read_only:  # a crash may have cut the last line short
                    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
                rows = [*read_rows(path)]
                self._files[path] = _inode_and_size(path)
            except RowsError as error:
                why = f"{error}; mend or remove that line, or choose another out="
                raise UserError(why) from None
            for row in rows:
                self._add(row)

    def latest(self, identity: Identity) -> Row | None:
        """The row of the last attempt at a point; None if there was none."""
        return self._latest.get(identity)

    def rows_of(self, identities: Iterable[Identity]) -> list[Row]:
        """The last row of each of these points that has one."""
        return [row for one in identities if (row := self.latest(one)) is not None]

    def record(self, job: str, row: Row) -> Row:
        """Sets the row's ``sequence``, appends it to a job's file, syncs the file, returns the row.

        Raises:
            UserError: it could not be written, or the folder is not as this sweep left it.
        """
        path = self._out / job / ROWS
        with self._mutex:
            self._files.setdefault(path, (0, 0))
            self.check_unchanged()
            row = row.model_copy(update={"sequence": self._count})
            try:
                self._files[path] = append_row(path, row)
            except OSError as error:
                raise UserError(f"{path}: {error.strerror}") from None
            self._add(row)
            return row

    def check_unchanged(self) -> None:
        """Raises `UserError` if a file of rows is no longer as this sweep left it."""
        for path, known in self._files.items():
            if _inode_and_size(path) != known:
                raise UserError(
                    f"{path} was removed or changed while this sweep was running; run the same "
                    "command again"
                )

    def _add(self, row: Row) -> None:
        """Counts a row on disk, and updates the latest attempts and the highest clocks."""
        self._count += 1
        known = self.latest(row.identity)
        if known is None or row.attempt >= known.attempt:
            self._latest[row.identity] = row
        if row.sm_clock_mhz is not None:
            card = row.gpu, row.environment.get("mark")
            self.highest_mhz[card] = max(row.sm_clock_mhz, self.highest_mhz.get(card, 0.0))


def append_row(path: Path, row: Row) -> tuple[int, int]:
    """Appends a row, waits until it is on disk, and returns the file's inode and size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(row.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())
        return _inode_and_size(file.fileno())


def _inode_and_size(file: Path | int) -> tuple[int, int]:
    """A file's inode and size, both 0 if there is no file."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size


def outcome_of(point: Point, worker: Worker, **more: str | int) -> dict[str, Any]:
    """Has a worker measure a point; returns the row's fields that the measurement decides.

    A worker's crash or timeout is an outcome, too. ``more``: ``workers``, how many the sweep has on
    the card; ``range``, the name of a profiler range: the kernel is called in it and not timed.
    ``wall_s`` is the time of the request; the start of a new worker is not in it.

    Raises:
        WorkerError: no worker could be started.
    """
    if point.refusal:
        return point.refusal
    worker.start()
    config = point.job.config
    asked = {name: config[name] for name in ("kernel", "timing", "seed", "determinism")}
    asked |= {name: point.declared[name] for name in ("rows", "cols", "dtype")} | more
    timing, request = config["timing"], {"do": "measure", "point": asked}
    limits = {"sampling": timing["sampling_limit_s"], "compiling": timing["compile_limit_s"]}
    started, began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.perf_counter()
    try:
        # a profiler may replay a kernel and save its memory in between, so it has another limit
        stages = {"profiling": PROFILING_LIMIT_S} if "range" in more else limits
        outcome = worker.request(request, **stages)
    except WorkerDied as error:
        outcome = {"status": error.status, "reason": str(error)}
    outcome |= {"wall_s": time.perf_counter() - began, "started": started}
    if outcome.pop("sticky", False):
        worker.stop()  # its CUDA context is lost, or a kernel changed what other kernels use
    return outcome


def suspicions(row: Mapping[str, Any], highest_mhz: float | None) -> list[str]:
    """Every reason to distrust a timed row, such as ``shared: 1 other compute process``.

    A suspect row is kept, and its point is measured once more: the last attempt counts.

    Args:
        row: Fields of a row, as `outcome_of` returns them.
        highest_mhz: The highest SM clock that earlier rows of this sweep have on the card, if any.
    """
    if row.get("time_us") is None:
        return []
    found = [f"throttled: {reason}" for reason in row.get("throttled") or []]
    before, after = row.get("sm_clock_before_mhz"), row.get("sm_clock_mhz")
    if before and after and abs(after - before) > CLOCK_DRIFT * max(before, after):
        found.append(f"clock: from {before:g} to {after:g} MHz within the point")
    elif after is not None and highest_mhz and after < (1 - CLOCK_DRIFT) * highest_mhz:
        found.append(f"clock: {after:g} MHz, where this card ran at {highest_mhz:g} in this sweep")
    if others := row.get("other_processes"):
        found.append(f"shared: {others} other compute process{'es' * (others > 1)} on the card")
    before, after = row.get("temperature_before_c"), row.get("temperature_c")
    if before is not None and after is not None and after - before > RAMP_C:
        found.append(f"heating: from {before:g} to {after:g} °C within the point")
    if row.get("timer") == "host" and (row.get("late") or 0) > len(row["samples_us"]) / 2:
        found.append(f"disturbed: another process had a core in {row['late']} windows")
    return found


def row_of(
    point: Point, outcome: dict[str, Any], worker: Worker, sweep: str, ledger: Ledger | None = None
) -> Row:
    """The row of a point and its outcome; the ledger, if any, has the point's earlier attempts.

    An outcome that no row can hold, such as a time below zero, makes a row with status crashed.
    """
    timing, handshake = point.job.config["timing"], worker.handshake
    known = None if ledger is None else ledger.latest(point.identity)
    card = point.gpu, handshake["environment"].get("mark")
    highest_mhz = None if ledger is None else ledger.highest_mhz.get(card)
    # a later command may replace config.json, so the row itself holds what repeats it
    provenance = {
        "target": point.variant["target"],
        "source": point.variant["source"],
        "protocol": {name: timing[name] for name in PROTOCOL},
        "seed": point.job.config["seed"],
    }
    if packages := point.variant["packages"]:  # versions of the variant's own libraries
        provenance["packages"] = packages
    fields = {
        "attempt": known.attempt + 1 if known else 1,
        "sweep": sweep,
        "kernel": point.job.kernel,
        "host_cards": handshake.get("host_cards"),
        "environment": handshake["environment"] | provenance,
        "model_formula": point.variant["formula"],
        **{name: getattr(point, name) for name in ("key", "card", "round", "device", "gpu")},
        **{name: point.variant[name] for name in ("operation", "roof", "params")},
        "backend": outcome.get("backend", point.variant["backend"]),
        **{name: point.declared[name] for name in DECLARED_FIELDS},
    }
    try:
        return validated(Row, outcome | {"suspect": suspicions(outcome, highest_mhz)} | fields)
    except ValueError as error:
        crash = {"status": "crashed", "reason": f"the worker's answer makes no row: {error}"}
        empty = dict.fromkeys(["model_formula", *DECLARED_FIELDS[3:]])  # one of them may be wrong
        return validated(Row, crash | fields | empty)


def sweep_name(out: Path, points: int = 0) -> str:
    """The name of the folder's sweep, from ``sweep.json``, which it makes if missing.

    It ends in a random token, so that two folders of the same name are two sweeps. The file keeps
    the largest number of ``points`` that a command has planned there.
    """
    path, token = out / "sweep.json", secrets.token_hex(3)
    known = {"sweep": f"{out.resolve().name}-{token}"} | read_object(path)
    write_json(path, known | {"points": max(int(known.get("points", 0)), points)})
    return str(known["sweep"])


def save_plan(plan: Plan, out: Path) -> None:
    """Writes ``variants.json``, and the ``config.json`` of each job."""
    path = out / "variants.json"
    variants = read_object(path)
    for job in plan.jobs:
        declared = {k: v for k, v in plan.variants[job.name].items() if k != "points"}
        variants[job.label] = {"kernel": job.kernel, **declared}
        # without the paths of this machine
        kernel = dict(job.config["kernel"])
        if "file" in kernel:
            kernel["file"] = Path(kernel["file"]).name
        config = job.config | {"out": out.name, "kernel": kernel}
        write_json(out / job.name / "config.json", config)
    write_json(path, variants)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no file, or a crash cut it short."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object to a file, as a whole or not at all."""
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
