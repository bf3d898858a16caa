"""Weights & Biases: one run per job, written from rows once measuring has ended.

The rows are the truth and W&B is their mirror. A process of its own writes it, so that the parent
never imports W&B, none of it is awake while a kernel is timed, and whatever goes wrong in it ends
as a warning within a bounded time. What has been written stands in ``wandb/mirrored.json`` below
the sweep's folder: rows written once are not written again, and a sweep that measured nothing new
starts no W&B at all.

``python -m experiments.wandb [--out DIR]`` uploads the runs that were written offline, by ``wandb
sync``; W&B's own mark, a ``.synced`` file beside the run's, keeps a run from being uploaded again.
"""

from __future__ import annotations

import argparse
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

if TYPE_CHECKING:
    from experiments.data.jobs import TrackerConfig

AXES = ("cols", "rows", "round")
METRICS = ("time_us", "time_low_us", "time_high_us", *DERIVED)
ROWS_STAY = "the rows are complete on disk"
OFFLINE = "wandb/offline-run-*/run-*.wandb"
WRITER = ("-P", "-m", "experiments.wandb", "--write")  # -P: a sweep's folder has a wandb/ too
SPARE_BYTES = 1 << 20
# Longest silence between two messages. W&B gives up on a server after 10 s and on its own service
# after 15 s, so that this only ends what hangs beyond W&B's own limits.
SILENCE_S = 20.0
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
        folder: Where its ``rows.jsonl`` lies.
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

    Where the server of ``mode=online`` cannot be had, the runs are written offline instead.

    Args:
        jobs: What becomes a run each.
        rows: Job id to that job's rows with their derived columns, as ``derive`` makes them.
        tracker: The backend ``none`` does nothing.
        out: The sweep's folder.

    Returns:
        One line for each thing that went wrong. Nothing is ever raised.
    """
    if tracker.backend == "none" or not jobs:
        return []
    try:
        return [f"{warning}; {ROWS_STAY}" for warning in _mirror(jobs, rows, tracker, out)]
    except Exception as error:
        return [f"W&B was not written ({type(error).__name__}: {error}); {ROWS_STAY}"]


def _mirror(
    jobs: Sequence[MirroredJob],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    tracker: TrackerConfig,
    out: Path,
) -> list[str]:
    notes = _Notes(out / "wandb")
    declared = _read_json(out / "variants.json")
    runs = [_run(job, rows.get(job.id, ()), declared, notes.of(job.id)) for job in jobs]
    due = {run["id"]: run for run in runs if run["digest"] != notes.of(run["id"])["digest"]}
    if not due:
        return []
    notes.save()  # W&B would write to the system's temporary folder instead, without a word
    to = {"mode": tracker.mode, "project": tracker.project, "entity": tracker.entity}
    left, error = _write(due, to, notes)
    warnings = [] if error is None else [f"W&B {tracker.mode}: {error}"]
    if error is None or tracker.mode == "offline" or not left:
        return warnings
    _, instead = _write(left, to | {"mode": "offline"}, notes)
    if instead is None:
        return [f"{warnings[0]}; written offline instead, upload later with make sync"]
    return [*warnings, f"W&B offline: {instead}"]


def _write(
    runs: Mapping[str, dict[str, Any]], to: Mapping[str, str | None], notes: _Notes
) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Has W&B's process write runs, and notes each.

    Returns:
        Those that were not begun, and what went wrong. Of a run that was begun online, only the
        server can say what arrived, when it is back.
    """
    if to["mode"] == "offline":
        for id in runs:
            for file in notes.waiting(id):
                if file.parent.name not in notes.of(id)["folders"]:  # a killed writer's
                    shutil.rmtree(file.parent)
    left = dict(runs)
    writer = Child(WRITER, environment(os.environ), cwd=notes.folder.parent)
    try:
        writer.send({**to, "runs": list(runs.values())})
        while "end" not in (message := writer.receive(SILENCE_S)):
            match message:
                case {"started": id}:
                    left.pop(id)
                case {"written": id, "folder": folder}:
                    notes.add(runs[id], folder if to["mode"] == "offline" else None)
                    shutil.rmtree(notes.folder / folder / "logs", ignore_errors=True)
                case _:
                    return left, str(message.get("error", message))
    except TimeoutError:
        return left, f"gave no answer for {SILENCE_S:g} s"
    except ChildError as error:
        return left, f"its process failed: {error}"
    finally:
        writer.close(patience_s=2.0)
    return left, None


class _Notes:
    """What W&B has been given of each run: ``mirrored.json``, read once, replaced as a whole.

    ``digest`` is of the run's content when it was last written, ``order`` names its lines, the
    place of each being its step, and ``folders`` are the offline folders that hold them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = _read_json(folder / "mirrored.json")

    def of(self, id: str) -> dict[str, Any]:
        found = self._runs.get(id)
        unknown: dict[str, Any] = {"digest": None, "order": [], "folders": []}
        return found if isinstance(found, dict) and found.keys() == unknown.keys() else unknown

    def add(self, run: Mapping[str, Any], folder: str | None) -> None:
        """Notes a run as written, into an offline folder or, without one, to the server."""
        folders = [*self.of(run["id"])["folders"], *([folder] if folder else [])]
        self._runs[run["id"]] = {name: run[name] for name in ("digest", "order")} | {
            "folders": folders
        }
        self.save()
        if folder is None:  # the server now has what waited offline, too
            for file in self.waiting(run["id"]):
                file.with_name(f"{file.name}.synced").touch()

    def waiting(self, id: str) -> list[Path]:
        """A run's offline files that were not uploaded yet."""
        return _waiting(self.folder.glob(f"offline-run-*/run-{id}.wandb"))

    def save(self) -> None:
        write_file(self.folder / "mirrored.json", json.dumps(self._runs))


def _run(
    job: MirroredJob,
    rows: Sequence[Mapping[str, Any]],
    declared: Mapping[str, Any],
    known: Mapping[str, Any],
) -> dict[str, Any]:
    """A run as the writer takes it, with a digest of all that a reader of it would notice.

    Its lines are numbered, those ``known`` first; a line whose row was measured again is left out.
    """
    # `out` is a path of this machine, the only one that a configuration holds
    config = {key: value for key, value in job.config.items() if key != "out"}
    mine = {
        label: variant
        for label, variant in declared.items()
        if isinstance(variant, dict) and variant.get("kernel") == job.kernel
    }
    timed = {
        f"{row['key']}:{row['card']}:{row['round']}:{row['attempt']}": _line(row)
        for row in rows
        if row["status"] == "ok" and row["time_us"] is not None
    }
    order = list(dict.fromkeys([*known["order"], *timed]))
    run = {
        "id": job.id,
        "name": job.name,
        "group": job.sweep,
        "job_type": job.kernel,
        "config": _plain(config),
        "order": order,
        "lines": [[step, timed[name]] for step, name in enumerate(order) if name in timed],
        "summary": _summary(rows),
        "exit_code": int(job.failed),
        "beside": {
            name: json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
            for name, value in (("variants.json", mine), ("config.json", config))
            if value
        },
    }
    digest = hashlib.sha256(json.dumps(run).encode()).hexdigest()
    rows_file = job.folder / "rows.jsonl"
    kept = str(rows_file.resolve()) if rows_file.is_file() else None
    return run | {"digest": digest, "rows_file": kept, "logged": len(known["order"])}


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
    """A job in a few numbers, each point counted once, by its last attempt."""
    attempts = sorted(rows, key=lambda row: int(row["attempt"]))
    points = {(row["key"], row["card"], row["round"]): row for row in attempts}.values()

    def known(name: str) -> list[float]:
        return [row[name] for row in points if row.get(name) is not None]

    numbers = {
        "points": len(points),
        "ok": sum(row["status"] == "ok" for row in points),
        "unsupported": sum(row["status"] == "unsupported" for row in points),
        "failed": sum(row["status"] not in EXPECTED for row in points),
        "best_effective_gbps": max(known("effective_gbps"), default=None),
    }
    for name in ("fraction_of_roof", "speedup_over_naive"):
        numbers[f"mean_{name}"] = geometric_mean(known(name)) if known(name) else None
    return {name: number for name, number in numbers.items() if number is not None}


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


def _read_json(path: Path) -> dict[str, Any]:
    """A file's object; empty where there is none."""
    try:
        found = read_json(path)
    except (OSError, RowsError):
        return {}
    return found if isinstance(found, dict) else {}


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
            wandb.Api(timeout=10)
        for run in plan["runs"]:
            _write_run(plan, run, channel)
        wandb.teardown()
        channel.send({"end": True})
    except BaseException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        channel.send({"error": lines[0].rstrip(".") if lines else type(error).__name__})


def _write_run(plan: Mapping[str, Any], content: Mapping[str, Any], channel: Channel) -> None:
    """Writes what is new of one run."""
    import wandb

    run = wandb.init(
        project=plan["project"],
        entity=plan["entity"],
        mode=plan["mode"],
        # offline there is nobody to ask; the lines then carry the steps that follow the known ones
        resume="allow" if plan["mode"] == "online" else None,
        settings=_settings(),
        **{name: content[name] for name in ("id", "name", "group", "job_type", "config")},
    )
    channel.send({"started": run.id})
    folder = Path(run.dir).parent
    first = run.starting_step if plan["mode"] == "online" else content["logged"]
    for axis in AXES:
        run.define_metric(axis, summary="none")
    metrics = {key for _, line in content["lines"] for key in line}.difference(AXES)
    for series in sorted({metric.partition("/")[0] for metric in metrics}):
        run.define_metric(f"{series}/*", step_metric="cols", summary="none")
    for step, line in content["lines"]:
        if step >= first:
            run.log(line, step=step)
    run.summary.update(content["summary"])
    if content["rows_file"] is not None:
        artifact = wandb.Artifact(f"rows-{content['id']}", type="rows")
        for name in ("rows.jsonl", *content["beside"]):
            copy = folder / f"{Path(name).stem}.artifact"  # no rows file to whoever looks for those
            if name == "rows.jsonl":
                shutil.copyfile(content["rows_file"], copy)
            else:
                copy.write_text(content["beside"][name], encoding="utf-8")
            artifact.add_file(os.path.relpath(copy), name=name, policy="immutable", skip_cache=True)
        run.log_artifact(artifact)
    run.finish(exit_code=content["exit_code"])
    # W&B says nothing about a run that it could not write to the end.
    if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
        raise OSError(f"no room left to write {folder.name}")
    channel.send({"written": run.id, "folder": folder.name})


def _settings() -> Any:
    """Silent, bounded in time, and without anything about host, user, path, code or arguments."""
    import wandb

    on = ("silent", "finish_timeout_raises", "x_disable_meta", "x_disable_stats",
          "x_disable_machine_info", "disable_git", "disable_code", "disable_job_creation",
          "label_disable")  # fmt: skip
    off = ("symlink", "x_save_requirements", "save_code")
    return wandb.Settings(
        root_dir=".",
        console="off",
        init_timeout=10,
        finish_timeout=10,
        x_service_wait=15,
        reinit="finish_previous",
        **dict.fromkeys(on, True),
        **dict.fromkeys(off, False),
        **dict.fromkeys(("host", "username", "email", "x_executable"), ""),
    )


def upload(out: Path) -> int:
    """Uploads what waits below a folder and says in one line what came of it.

    Returns:
        0 when nothing is left to upload, else 1.
    """
    if not out.is_dir():
        return _fail(f"--out {out}: no such folder")
    found = _waiting(out.rglob(OFFLINE))
    total = len(found)
    if not total:
        print(f"nothing to upload below {out}")
        return 0
    refusal = _refusal(out)
    if refusal is not None:
        return _fail(refusal)
    for sweep in dict.fromkeys(file.parents[2] for file in found):
        trouble = _sync(sweep)
        if trouble is not None:
            return _fail(f"{sweep}: {trouble}")
    left = len(_waiting(found))
    if left:
        return _fail(f"{left} of {total} runs were not uploaded; run this again")
    print(f"uploaded {total} run{'s' if total > 1 else ''} from {out}")
    return 0


def _refusal(out: Path) -> str | None:
    """Why the server does not take the upload, in one line, or None."""
    _, reason = _write({}, {"mode": "check"}, _Notes(out / "wandb"))
    if reason is not None and "No API key" in reason:
        return "no W&B key: set WANDB_API_KEY, or run `wandb login`"
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return None if reason is None else f"{server} did not take the upload: {reason}"


def _sync(sweep: Path) -> str | None:
    """Has W&B upload a sweep's files; what went wrong, or None."""
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
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the upload did not end within {limit_s} s; run this again"
    for log in sweep.glob("wandb/debug-cli.*.log"):
        log.unlink(missing_ok=True)  # an empty file named after the user
    errors = [line for line in ended.stderr.splitlines() if "ERROR" in line]
    return errors[0].removeprefix("wandb: ERROR ") if errors else None


def _fail(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


def main() -> int:
    """Uploads, or is the writer."""
    if "--write" in sys.argv:
        write(Channel())
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m experiments.wandb", description="Upload the W&B runs written offline."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs"), help="a sweep's folder, or one above several"
    )
    return upload(parser.parse_args().out)


if __name__ == "__main__":
    sys.exit(main())
