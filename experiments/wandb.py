"""Weights & Biases: one run a curve, written from rows once measuring has ended.

A run holds what one kernel did in one dtype over N, or over M where N is fixed, under plain names:
``time_us`` over ``N``. One run more holds the whole sweep's rows as an artifact.

The rows are the truth and W&B is their mirror. A process of its own writes it, so that the parent
never imports W&B, none of it is awake while a kernel is timed, and any failure of it ends as a
warning within a bounded time; the same command, run again, writes the rest.

``wandb/mirrored.json`` below the sweep's folder has the lines that each run was given. A sweep that
measured nothing new starts no W&B at all; a run that still waits offline is written anew as a
whole; one that the server has is only given its further lines.

``python -m experiments.wandb [--out DIR]`` uploads the runs that were written offline, by ``wandb
sync``; W&B's own mark, a ``.synced`` file beside the run's, keeps a run from being uploaded again.
"""

from __future__ import annotations

import hashlib
import json
import math
import netrc
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from experiments import child
from experiments.child import Channel, Child, ChildError
from experiments.data.files import RowsError, read_json, write_file
from experiments.data.metrics import DERIVED, derive
from experiments.data.rows import EXPECTED, Row, rows_files
from experiments.errors import Parser, UserError

if TYPE_CHECKING:
    from experiments.data.jobs import TrackerConfig
    from experiments.sweep.jobs import Job

AXES = ("M", "N", "round")
METRICS = ("time_us", "time_low_us", "time_high_us", *DERIVED, "model_bytes", "flops", "peak_bytes",
           "max_abs_error", "relative_error", "deterministic", "batch_invariant")  # fmt: skip
ENVIRONMENT = ("torch", "triton", "cuda", "driver", "python", "commit", "dirty")
NOTE_LINES = 8  # lines of a run's notes
OFFLINE = "wandb/offline-run-*/run-*.wandb"
WRITER = ("-P", "-m", "experiments.wandb", "--write")  # -P: a sweep's folder has a wandb/ too
SPARE_BYTES = 1 << 20
SERVER_S = 10  # how long W&B waits for a server
SILENCE_S = 20.0  # longest between two messages: this only ends what hangs beyond W&B's own limits
UPLOAD_S, UPLOAD_RUN_S = 60, 15  # an upload that hangs is given up, and taken up the next time
NO_KEY = "no W&B key: set WANDB_API_KEY, or run `wandb login`"
# Of the user's W&B variables, those that say where and as whom. The others (WANDB_RUN_ID,
# WANDB_MODE, WANDB_SERVICE, …) would turn the sweep's runs into other runs.
KEPT = re.compile(
    "WANDB_(API_KEY|BASE_URL|ENTITY|CONFIG_DIR|IDENTITY_TOKEN_FILE|CREDENTIALS_FILE"
    "|INSECURE_DISABLE_SSL|HTTPS?_PROXY|HTTP_TIMEOUT)"
)
# Silent, bounded in time, and without anything about host, user, path, code or arguments.
SETTINGS: dict[str, Any] = {
    "root_dir": ".",
    "console": "off",
    "x_service_wait": 15,
    "reinit": "finish_previous",
    **dict.fromkeys(["silent", "finish_timeout_raises", "label_disable"], True),
    **dict.fromkeys(["x_disable_meta", "x_disable_stats", "x_disable_machine_info"], True),
    **dict.fromkeys(["disable_git", "disable_code", "disable_job_creation"], True),
    **dict.fromkeys(["symlink", "x_save_requirements", "save_code"], False),
    **dict.fromkeys(["host", "username", "email", "x_executable"], ""),
}


def check_tracker(tracker: TrackerConfig) -> None:
    """Checks before anything is measured that a sweep can be mirrored online.

    Raises:
        UserError: there is no key.
    """
    if tracker.backend == "wandb" and tracker.mode == "online" and not has_key():
        raise UserError(f"tracker=online: {NO_KEY}; tracker=wandb writes it offline")


def has_key() -> bool:
    """Whether W&B finds a key where it looks for one: in the environment or in ``~/.netrc``."""
    if any(os.environ.get(f"WANDB_{name}") for name in ("API_KEY", "IDENTITY_TOKEN_FILE")):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def mirror(
    sweep: str, jobs: Sequence[tuple[Job, Sequence[Row]]], tracker: TrackerConfig, out: Path
) -> list[str]:
    """Brings W&B's runs up to date with a sweep's rows, at ``out/wandb``.

    Args:
        sweep: The sweep's name.
        jobs: Each job with the last row of each point that it asked for; jobs may share rows.
        tracker: The backend ``none`` does nothing.
        out: The sweep's folder.

    Returns:
        A line that says what went wrong, if anything did. Nothing is ever raised.
    """
    if tracker.backend == "none":
        return []
    try:
        _mirror(_runs(sweep, jobs, out), tracker, out)
    except Exception as error:
        return [
            f"W&B {tracker.mode}: {error}; the rows are complete on disk, and the same command, "
            "run again, brings W&B up to date"
        ]
    return []


def _mirror(runs: Iterable[dict[str, Any]], tracker: TrackerConfig, out: Path) -> None:
    """Has the runs written that hold something new.

    Raises:
        OSError: W&B's process could not write them, ended, or fell silent.
    """
    file = out / "wandb" / "mirrored.json"
    try:
        notes = read_json(file)
    except (OSError, RowsError):
        notes = {}
    due, written = [], {}
    for run in runs:
        digest = hashlib.sha256(json.dumps(run).encode()).hexdigest()
        note = {"digest": None, "order": [], "sent": 0} | notes.get(run["id"], {})
        if digest == note["digest"]:
            continue
        waiting = _waiting(out.glob(f"wandb/offline-run-*/run-{run['id']}.wandb"))
        known = note["order"][: note["sent"]] if waiting else note["order"]
        # lines are numbered, those that are known to the server first
        lines = run["lines"]
        order = list(dict.fromkeys([*known, *lines]))
        numbered = [[step, lines[name]] for step, name in enumerate(order) if name in lines]
        due.append(run | {"lines": numbered, "known": len(known)})
        written[run["id"]] = {"digest": digest, "order": order, "sent": len(known)}
        notes[run["id"]] = {"digest": None, "order": known, "sent": len(known)}
        for old in waiting:
            shutil.rmtree(old.parent)
    if not due:
        return
    write_file(file, json.dumps(notes))  # without a folder W&B would take another in silence
    plan = tracker.model_dump() | {"server_s": SERVER_S, "runs": due}
    writer = Child(WRITER, environment(os.environ), cwd=out)
    try:
        writer.send(plan)
        while "end" not in (message := writer.receive(SILENCE_S)):
            if "error" in message:
                raise OSError(message["error"])
            notes[message["written"]] = written[message["written"]]
            write_file(file, json.dumps(notes))
    except TimeoutError:
        raise OSError(f"gave no answer for {SILENCE_S:g} s") from None
    except ChildError as error:
        raise OSError(f"its process failed: {error}") from None
    finally:
        writer.close(patience_s=2.0)


def _runs(
    sweep: str, jobs: Sequence[tuple[Job, Sequence[Row]]], out: Path
) -> Iterator[dict[str, Any]]:
    """All runs of a sweep as the writer takes them: one with the rows, and then the curves."""
    rows = {row.identity: row for _, found in jobs for row in found}
    derived = dict(zip(rows, derive([*rows.values()]), strict=True))
    parts = [sweep]
    if out.parent.name == "shards":  # on Slurm each shard has a folder, and all have one name
        parts.append(out.name)
    measured = rows_files(out)
    configs = [file.with_name("config.json") for file in measured]
    files = [*measured, *configs, out / "sweep.json", out / "variants.json"]
    yield {
        "id": _id(*parts),
        "name": " ".join(["rows", *parts]),
        "group": sweep,
        "job_type": "rows",
        "tags": ["rows"],
        "notes": "All rows of the sweep, as an artifact.",
        "config": {},
        "summary": _summary([*derived.values()]),
        "lines": {},
        "artifact": re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join(["rows", *parts]))[:128],
        "files": [
            (file.relative_to(out).as_posix(), file.stat().st_size)
            for file in files
            if file.is_file()
        ],
    }
    for job, found in jobs:
        for number, curve in _curves(job, [derived[row.identity] for row in found]):
            run = {"id": _id(sweep, job.name, number), "group": sweep, "job_type": job.kernel}
            yield run | _described(job, curve)


def _curves(job: Job, rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    """A job's rows by dtype, each as a curve over N, or over M where there is only one N.

    Where an N has several M, as in M × N of a grid, the smallest M of each N make a curve, the next
    larger ones another, and so on.
    """
    beside = defaultdict[int, list[int]](list)
    for m, n in sorted(job.shapes):
        beside[n].append(m)
    curves = defaultdict[str, list[Any]](list)
    for row in sorted(rows, key=lambda row: (row["cols"], row["rows"], row["round"])):
        number = beside[row["cols"]].index(row["rows"]) if len(beside) > 1 else 0
        curves[f"{row['dtype']} {number}"].append(row)
    return curves.items()


def _described(job: Job, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A curve's run: its name, the values to filter by, its lines."""
    last, place = rows[-1], dict[str, Any]()
    for name, field in (("M", "rows"), ("N", "cols")):
        low, *_, high = sorted(row[field] for row in [*rows, last])
        place[name] = low if low == high else {"min": low, "max": high}
    fixed = [f"{name}={size}" for name, size in place.items() if isinstance(size, int)]
    tags = [last["operation"], job.grid, last["dtype"], last["gpu"][:64]]
    notes = [f"{job.config['grid']['source']}; modelled traffic {last['model_formula']}."]
    if last["backend"] == "interpreter":
        tags.append("interpreted")
        notes.append("Triton's interpreter ran it: its answers and traffic count, not its speed.")
    for row in rows:
        if row["status"] != "ok" or row["suspect"]:
            why = "; ".join(filter(None, [row["reason"], *row["suspect"]]))
            notes.append(f"{row['rows']}×{row['cols']} {row['status']}: {why}")
    return {
        "name": " ".join(filter(None, [job.label, job.grid, last["dtype"], *fixed, job.variation])),
        "tags": list(dict.fromkeys(tags)),
        "notes": "\n".join(notes[:NOTE_LINES]),
        "config": {
            "kernel": {**last["params"], "name": job.kernel, "backend": last["backend"]},
            "grid": job.grid,
            **place,
            **{name: last[name] for name in ("operation", "dtype", "gpu", "timer", "cache")},
            **{name: last["environment"].get(name) for name in ENVIRONMENT},
        },
        "summary": _summary(rows),
        "axis": "M" if len({n for _, n in job.shapes}) == 1 < len(job.shapes) else "N",
        "lines": {
            f"{row['key']}:{row['card']}:{row['round']}:{row['attempt']}": _line(row)
            for row in rows
            if row["status"] == "ok"
        },
    }


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a line of history: the point's place and its metrics."""
    return dict(zip(AXES, (row["rows"], row["cols"], row["round"]), strict=True)) | {
        name: int(value) if isinstance(value, bool) else value
        for name in METRICS
        if (value := row.get(name)) is not None and math.isfinite(value)
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A run in a few numbers."""
    statuses = Counter(row["status"] for row in rows)
    numbers: dict[str, float] = {
        "points": len(rows),
        "ok": statuses["ok"],
        "unsupported": statuses["unsupported"],
        "failed": sum(count for status, count in statuses.items() if status not in EXPECTED),
    }
    for metric, name, of in (
        ("effective_gbps", "best", max),
        ("relative_error", "worst", max),
        ("fraction_of_roof", "mean", geometric_mean),
        ("speedup_over_naive", "mean", geometric_mean),
    ):
        if known := [row[metric] for row in rows if row.get(metric) is not None]:
            numbers[f"{name}_{metric}"] = of(known)
    return numbers


def _id(*parts: str) -> str:
    """The same for the same run, so that a resumed sweep finds it again."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _waiting(files: Iterable[Path]) -> list[Path]:
    """Those of some offline files that were not uploaded yet."""
    return sorted(file for file in files if not file.with_name(f"{file.name}.synced").exists())


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of W&B's: the user's, without what would leak or ask."""
    kept = {k: v for k, v in given.items() if not k.startswith("WANDB_") or KEPT.fullmatch(k)}
    return child.environment(kept) | {
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",  # crash reports carry paths
        "WANDB_PROGRAM": "experiments",  # else the command line is taken
        "WANDB_DATA_DIR": "wandb/data",
        "WANDB_CACHE_DIR": "wandb/cache",
    }


# The writer: a process that runs in the sweep's folder and names files relative to it, so that an
# offline folder holds no path of this machine and can be uploaded from another.


def write(channel: Channel) -> None:
    """Writes the runs of one plan, and reports each."""
    plan = next(iter(channel))
    try:
        import wandb

        for run in plan["runs"]:
            _write_run(plan, run)
            channel.send({"written": run["id"]})
        wandb.teardown()
        channel.send({"end": True})
    except BaseException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        channel.send({"error": lines[0].rstrip(".") if lines else type(error).__name__})


def _write_run(plan: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Writes the new lines of one run."""
    import wandb

    online, named = plan["mode"] == "online", ("id", "name", "group", "job_type", "tags", "notes")
    limits = dict.fromkeys(("init_timeout", "finish_timeout"), plan["server_s"])
    run = wandb.init(
        **{name: plan[name] for name in ("project", "entity", "mode")},
        **{name: content[name] for name in (*named, "config")},
        # offline there is nobody to ask; the lines then carry the steps that follow the known ones
        resume="allow" if online else None,
        settings=wandb.Settings(**SETTINGS, **limits),
    )
    folder = Path(run.dir).parent
    first = run.starting_step if online else content["known"]
    for name in {key: None for _, line in content["lines"] for key in line}:
        axis = None if name in AXES else content["axis"]
        run.define_metric(name, step_metric=axis, summary="none", hidden=name in AXES)
    for step, line in content["lines"]:
        if step >= first:
            run.log(line, step=step)
    run.summary.update(content["summary"])
    if name := content.get("artifact"):
        artifact = wandb.Artifact(name, type="rows")
        for number, (file, _) in enumerate(content["files"]):
            # a copy, as rows may follow; by another name, as it is not a rows file of the sweep's
            copy = os.path.relpath(shutil.copyfile(file, folder / f"{number}.artifact"))
            artifact.add_file(copy, name=file, policy="immutable", skip_cache=True)
        run.log_artifact(artifact)
    run.finish(exit_code=int(content["summary"]["failed"] > 0))
    # W&B says nothing about a run that it could not write to the end.
    if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
        raise OSError(f"no room left to write {folder.name}")
    shutil.rmtree(folder / "logs", ignore_errors=True)


def upload(out: Path) -> str:
    """Uploads the runs that wait below a folder, and gives a line on the outcome.

    Raises:
        UserError: something is left to upload.
    """
    if not out.is_dir():
        raise UserError(f"--out {out}: no such folder")
    found = _waiting(out.rglob(OFFLINE))
    if not found:
        return f"nothing to upload below {out}"
    if not has_key():
        raise UserError(NO_KEY)
    asked = _asked_of_wandb(["-c", f"import wandb; wandb.Api(timeout={SERVER_S})"], out, UPLOAD_S)
    if asked.returncode:  # which `wandb sync` would not mention
        server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        why = asked.stderr.strip().rpartition("\n")[2].partition(": ")[2]
        raise UserError(f"{server} did not take the upload: {why}")
    for sweep in dict.fromkeys(file.parents[2] for file in found):
        # offline files name their artifacts relative to the sweep's folder
        files = [str(file.relative_to(sweep)) for file in _waiting(sweep.glob(OFFLINE))]
        words = ["-m", "wandb", "sync", *files]
        ended = _asked_of_wandb(words, sweep, UPLOAD_S + UPLOAD_RUN_S * len(files))
        for log in sweep.glob("wandb/debug-cli.*.log"):
            log.unlink(missing_ok=True)  # an empty file named after the user
        for line in ended.stderr.splitlines():
            if "ERROR" in line:
                raise UserError(f"{sweep}: {line.partition('ERROR ')[2]}")
    left = len(_waiting(found))
    if left:
        raise UserError(f"{left} of {len(found)} runs were not uploaded; run this again")
    return f"uploaded {len(found)} run{'s' * (len(found) > 1)} from {out}"


def _asked_of_wandb(
    words: Sequence[str], folder: Path, limit_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs Python with W&B's environment in a folder.

    Raises:
        UserError: it did not end in time.
    """
    try:
        return subprocess.run(
            [sys.executable, "-P", *words],
            cwd=folder,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{folder}: W&B did not answer within {limit_s:g} s") from None


def main() -> None:
    """Uploads, or is the writer."""
    if "--write" in sys.argv:
        write(Channel())
        return
    parser = Parser(prog="python -m experiments.wandb", description="Upload what waits offline.")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs"), help="a sweep's folder, or one above several"
    )
    try:
        print(upload(parser.parse_args().out))
    except UserError as error:
        parser.exit(1, f"error: {error}\n")


if __name__ == "__main__":
    main()
