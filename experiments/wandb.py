"""Weights & Biases: one run per job, written from rows once measuring has ended.

The rows are the truth and W&B is their mirror. A process of its own writes it, so that the parent
never imports W&B, none of it is awake while a kernel is timed, and whatever goes wrong in it ends
as a warning within a bounded time; the same command, run again, writes what is missing.

``wandb/mirrored.json`` below the sweep's folder says what each run was given. A sweep that measured
nothing new starts no W&B at all; a run that still waits offline is written anew as a whole; one
that the server has is only given its further lines.

``python -m experiments.wandb [--out DIR]`` uploads the runs that were written offline, by ``wandb
sync``; W&B's own mark, a ``.synced`` file beside the run's, keeps a run from being uploaded again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from experiments import child
from experiments.child import Channel, Child, ChildError
from experiments.data.files import RowsError, read_json, write_file
from experiments.data.metrics import DERIVED
from experiments.data.rows import EXPECTED
from experiments.errors import Parser, UserError

if TYPE_CHECKING:
    from experiments.data.jobs import TrackerConfig

AXES = ("cols", "rows", "round")
METRICS = ("time_us", "time_low_us", "time_high_us", *DERIVED)
OFFLINE = "wandb/offline-run-*/run-*.wandb"
WRITER = ("-P", "-m", "experiments.wandb", "--write")  # -P: a sweep's folder has a wandb/ too
SPARE_BYTES = 1 << 20
SERVER_S = 10  # how long W&B waits for a server
SILENCE_S = 20.0  # longest between two messages: this only ends what hangs beyond W&B's own limits
UPLOAD_S, UPLOAD_RUN_S = 60, 15  # an upload that hangs is given up, and taken up the next time
# Of the user's W&B variables, those that say where and as whom. The others (WANDB_RUN_ID,
# WANDB_MODE, WANDB_SERVICE, …) would turn the sweep's runs into other runs.
KEPT = tuple(
    f"WANDB_{name}"
    for name in ("API_KEY", "BASE_URL", "ENTITY", "CONFIG_DIR", "IDENTITY_TOKEN_FILE",
                 "CREDENTIALS_FILE", "INSECURE_DISABLE_SSL", "HTTP_PROXY", "HTTPS_PROXY",
                 "HTTP_TIMEOUT")
)  # fmt: skip


@dataclass(frozen=True)
class MirroredJob:
    """A job as W&B is to know it.

    Attributes:
        id: Of the W&B run: from the job and its sweep, so that a resumed sweep finds it again;
            letters, digits and ``-``, at most 64.
        name: As people read it, ``online/tutorial/float32``.
        sweep: The run's group.
        kernel: The run's job type.
        config: The resolved configuration.
        folder: Where its ``rows.jsonl`` and ``config.json`` lie.
        failed: Whether a requested point is missing or of an unexpected status.
    """

    id: str
    name: str
    sweep: str
    kernel: str
    config: dict[str, Any]
    folder: Path
    failed: bool


def mirror(
    jobs: Sequence[MirroredJob],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    tracker: TrackerConfig,
    out: Path,
) -> list[str]:
    """Brings each job's W&B run up to date with its rows, at ``out/wandb``.

    Args:
        jobs: What becomes a run each.
        rows: Job id to that job's rows with their derived columns, as ``derive`` makes them.
        tracker: The backend ``none`` does nothing.
        out: The sweep's folder.

    Returns:
        A line that says what went wrong, if anything did. Nothing is ever raised.
    """
    if tracker.backend == "none" or not jobs:
        return []
    try:
        _mirror(jobs, rows, tracker, out)
    except Exception as error:
        return [
            f"W&B {tracker.mode}: {error}; the rows are complete on disk, and the same command, "
            "run again, brings W&B up to date"
        ]
    return []


def _mirror(
    jobs: Sequence[MirroredJob],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    tracker: TrackerConfig,
    out: Path,
) -> None:
    notes_file = out / "wandb" / "mirrored.json"
    try:
        notes = read_json(notes_file)
    except (OSError, RowsError):
        notes = {}
    due = {}
    for job in jobs:
        note = {"digest": None, "order": [], "sent": 0} | notes.get(job.id, {})
        waiting = _waiting(out.glob(f"wandb/offline-run-*/run-{job.id}.wandb"))
        known = note["order"][: note["sent"]] if waiting else note["order"]
        run = _run(job, rows.get(job.id, ()), known, out)
        if run["digest"] == note["digest"]:
            continue
        due[job.id] = run
        notes[job.id] = {"digest": None, "order": known, "sent": len(known)}
        for file in waiting:
            shutil.rmtree(file.parent)
    if not due:
        return
    write_file(notes_file, json.dumps(notes))  # without a folder W&B would take another in silence
    plan = {
        "mode": tracker.mode,
        "project": tracker.project,
        "entity": tracker.entity,
        "server_s": SERVER_S,
    }
    for message in _answers(plan | {"runs": list(due.values())}, out):
        run = due[message["written"]]
        notes[run["id"]] |= {"digest": run["digest"], "order": run["order"]}
        write_file(notes_file, json.dumps(notes))


def _answers(plan: Mapping[str, Any], out: Path) -> Iterable[dict[str, Any]]:
    """What W&B's process says of a plan until it is done.

    Raises:
        OSError: it could not carry it out, ended, or fell silent.
    """
    writer = Child(WRITER, environment(os.environ), cwd=out)
    try:
        writer.send(plan)
        while "end" not in (message := writer.receive(SILENCE_S)):
            if "error" in message:
                raise OSError(message["error"])
            yield message
    except TimeoutError:
        raise OSError(f"gave no answer for {SILENCE_S:g} s") from None
    except ChildError as error:
        raise OSError(f"its process failed: {error}") from None
    finally:
        writer.close(patience_s=2.0)


def _run(
    job: MirroredJob, rows: Sequence[Mapping[str, Any]], known: Sequence[str], out: Path
) -> dict[str, Any]:
    """A run as the writer takes it, with a digest of all that a reader of it would notice.

    Its lines are numbered, those that are ``known`` to the server first.
    """
    timed = {  # by what identifies a row
        f"{row['key']}:{row['card']}:{row['round']}:{row['attempt']}": _line(row)
        for row in rows
        if row["status"] == "ok" and row["time_us"] is not None
    }
    order = list(dict.fromkeys([*known, *timed]))
    run = {
        "id": job.id,
        "name": job.name,
        "group": job.sweep,
        "job_type": job.kernel,
        # `out` is a path of this machine, the only one that a configuration holds
        "config": _plain({key: value for key, value in job.config.items() if key != "out"}),
        "summary": _summary(rows),
        "exit_code": int(job.failed),
    }
    files = (job.folder / "rows.jsonl", job.folder / "config.json", out / "variants.json")
    return run | {
        "digest": hashlib.sha256(json.dumps([run, timed]).encode()).hexdigest(),
        "order": order,
        "lines": [[step, timed[name]] for step, name in enumerate(order) if name in timed],
        "known": len(known),
        "files": [str(file.resolve()) for file in files if file.is_file()],
    }


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a line of history.

    Metrics carry the series they belong to, ``float16_M4096/time_us``, so that dtypes and M stay
    apart on the axis of N.
    """
    series = f"{row['dtype']}_M{row['rows']}"
    return {axis: row[axis] for axis in AXES} | {
        f"{series}/{name}": int(value) if isinstance(value, bool) else value
        for name in METRICS
        if (value := row.get(name)) is not None and math.isfinite(value)
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A job in a few numbers; each point is in ``rows`` once."""

    def known(name: str) -> list[float]:
        return [row[name] for row in rows if row.get(name) is not None]

    statuses = [row["status"] for row in rows]
    numbers: dict[str, float] = {
        "points": len(rows),
        "ok": statuses.count("ok"),
        "unsupported": statuses.count("unsupported"),
        "failed": sum(status not in EXPECTED for status in statuses),
    }
    if known("effective_gbps"):
        numbers["best_effective_gbps"] = max(known("effective_gbps"))
    for name in ("fraction_of_roof", "speedup_over_naive"):
        if known(name):
            numbers[f"mean_{name}"] = geometric_mean(known(name))
    return numbers


def _plain(value: Any) -> Any:
    """Values that JSON knows; W&B reads a dot in a key as nesting, so none is left."""
    if isinstance(value, Mapping):
        return {str(key).replace(".", "_"): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _waiting(files: Iterable[Path]) -> list[Path]:
    """Those of some offline files that were not uploaded yet."""
    return sorted(file for file in files if not file.with_name(f"{file.name}.synced").exists())


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of W&B's: the user's, without what would leak or ask."""
    kept = {key: value for key, value in given.items() if not key.startswith("WANDB_")}
    kept |= {key: given[key] for key in KEPT if key in given}
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
    """Writes the runs of one plan, and reports each; ``mode=check`` only asks the server."""
    plan = next(iter(channel))
    try:
        import wandb

        if plan["mode"] == "check":
            wandb.Api(timeout=plan["server_s"])
        for run in plan["runs"]:
            _write_run(plan, run)
            channel.send({"written": run["id"]})
        wandb.teardown()
        channel.send({"end": True})
    except BaseException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        channel.send({"error": lines[0].rstrip(".") if lines else type(error).__name__})


def _write_run(plan: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Writes what is new of one run."""
    import wandb

    online = plan["mode"] == "online"
    run = wandb.init(
        project=plan["project"],
        entity=plan["entity"],
        mode=plan["mode"],
        # offline there is nobody to ask; the lines then carry the steps that follow the known ones
        resume="allow" if online else None,
        settings=_settings(plan["server_s"]),
        **{name: content[name] for name in ("id", "name", "group", "job_type", "config")},
    )
    folder = Path(run.dir).parent
    first = run.starting_step if online else content["known"]
    for axis in AXES:
        run.define_metric(axis, summary="none")
    metrics = {key for _, line in content["lines"] for key in line}.difference(AXES)
    for series in sorted({metric.partition("/")[0] for metric in metrics}):
        run.define_metric(f"{series}/*", step_metric="cols", summary="none")
    for step, line in content["lines"]:
        if step >= first:
            run.log(line, step=step)
    run.summary.update(content["summary"])
    artifact = wandb.Artifact(f"rows-{content['id']}", type="rows")
    for file in map(Path, content["files"]):
        # a copy, as rows may follow; by another name, as it is not a rows file of the sweep's
        copy = shutil.copyfile(file, folder / f"{file.stem}.artifact")
        relative = os.path.relpath(copy)
        artifact.add_file(relative, name=file.name, policy="immutable", skip_cache=True)
    run.log_artifact(artifact)
    run.finish(exit_code=content["exit_code"])
    # W&B says nothing about a run that it could not write to the end.
    if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
        raise OSError(f"no room left to write {folder.name}")
    shutil.rmtree(folder / "logs", ignore_errors=True)


def _settings(server_s: int) -> Any:
    """Silent, bounded in time, and without anything about host, user, path, code or arguments."""
    import wandb

    on = ("silent", "finish_timeout_raises", "x_disable_meta", "x_disable_stats",
          "x_disable_machine_info", "disable_git", "disable_code", "disable_job_creation",
          "label_disable")  # fmt: skip
    off = ("symlink", "x_save_requirements", "save_code")
    return wandb.Settings(
        root_dir=".",
        console="off",
        init_timeout=server_s,
        finish_timeout=server_s,
        x_service_wait=15,
        reinit="finish_previous",
        **dict.fromkeys(on, True),
        **dict.fromkeys(off, False),
        **dict.fromkeys(("host", "username", "email", "x_executable"), ""),
    )


def upload(out: Path) -> str:
    """Uploads what waits below a folder, and says what came of it.

    Raises:
        UserError: something is left to upload.
    """
    if not out.is_dir():
        raise UserError(f"--out {out}: no such folder")
    found = _waiting(out.rglob(OFFLINE))
    if not found:
        return f"nothing to upload below {out}"
    try:
        list(_answers({"mode": "check", "server_s": SERVER_S, "runs": []}, out))
    except OSError as error:
        if "No API key" in str(error):
            raise UserError("no W&B key: set WANDB_API_KEY, or run `wandb login`") from None
        server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        raise UserError(f"{server} did not take the upload: {error}") from None
    for sweep in dict.fromkeys(file.parents[2] for file in found):
        _sync(sweep)
    left = len(_waiting(found))
    if left:
        raise UserError(f"{left} of {len(found)} runs were not uploaded; run this again")
    return f"uploaded {len(found)} run{'s' if len(found) > 1 else ''} from {out}"


def _sync(sweep: Path) -> None:
    """Has W&B upload the files of a sweep."""
    # offline files name their artifacts relative to the sweep's folder
    files = [str(file.relative_to(sweep)) for file in _waiting(sweep.glob(OFFLINE))]
    limit_s = UPLOAD_S + UPLOAD_RUN_S * len(files)
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "wandb", "sync", *files],
            cwd=sweep,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{sweep}: the upload did not end within {limit_s} s") from None
    for log in sweep.glob("wandb/debug-cli.*.log"):
        log.unlink(missing_ok=True)  # an empty file named after the user
    for line in ended.stderr.splitlines():
        if "ERROR" in line:
            raise UserError(f"{sweep}: {line.removeprefix('wandb: ERROR ')}")


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
