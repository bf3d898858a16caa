"""Weights & Biases: one run a curve, written from rows once measuring has ended.

A run holds what one kernel did in one dtype over N, or over M where N is fixed, under plain names:
``time_us`` over ``N``. One run more holds the whole sweep's rows as an artifact.

The rows are the truth and W&B is their mirror. A process of its own writes it, so that the parent
never imports W&B, none of it is awake while a kernel is timed, and any failure of it ends as a
warning within a bounded time; the same command, run again, writes the rest.

A run's name at W&B ends in a digest of its content: what is written already is not written again,
and a curve with further points is a run of its own, which replaces the one that waits offline.

``python -m experiments.wandb [--out DIR]`` uploads the runs that were written offline, by ``wandb
sync``; W&B's own mark, a ``.synced`` file beside the run's, keeps a run from being uploaded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import netrc
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from experiments import child
from experiments.data.metrics import DERIVED, derive
from experiments.data.rows import EXPECTED, Row, rows_files
from experiments.errors import Parser, UserError, command

if TYPE_CHECKING:
    from experiments.data.jobs import TrackerConfig
    from experiments.sweep.jobs import Job

AXES = ("M", "N", "round")
METRICS = ("time_us", "time_low_us", "time_high_us", *DERIVED, "model_bytes", "flops", "peak_bytes",
           "max_abs_error", "relative_error", "deterministic", "batch_invariant")  # fmt: skip
ENVIRONMENT = ("torch", "triton", "cuda", "driver", "python", "commit", "dirty")
NOTE_LINES = 8  # lines of a run's notes
DONE = "written"  # beside a run's file: W&B has written it to the end
SPARE_BYTES = 1 << 20
SERVER_S = 10  # how long W&B waits for a server
LIMIT_S, LIMIT_RUN_S = 60, 15  # for all that W&B does, and for each run more
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
    """Writes the runs of a sweep that are not written yet, at ``out/wandb``.

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
        due = []
        for curve, run in runs_of(sweep, jobs, out):
            digest = hashlib.sha256(json.dumps([run, tracker.mode]).encode()).hexdigest()
            run["id"] = f"{_id(curve)}{digest[:8]}"
            if not any(out.glob(f"wandb/*run-*-{run['id']}/{DONE}")):
                due.append(run)
                for old in _waiting(out.glob(f"wandb/offline-run-*/run-{_id(curve)}*.wandb")):
                    shutil.rmtree(old.parent)
        if due:
            (out / "wandb").mkdir(exist_ok=True)  # else W&B would take another folder in silence
            plan = json.dumps(tracker.model_dump() | {"runs": due})
            _run(["-m", "experiments.wandb", "--write"], out, len(due), plan)
    except Exception as error:
        return [
            f"W&B {tracker.mode}: {error}; the rows are complete on disk, and the same command, "
            "run again, brings W&B up to date"
        ]
    return []


def runs_of(
    sweep: str, jobs: Sequence[tuple[Job, Sequence[Row]]], out: Path
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Each curve's name and its run as the writer takes it, the one with all rows first."""
    rows = {row.identity: row for _, found in jobs for row in found}
    derived = dict(zip(rows, derive([*rows.values()]), strict=True))
    name = ["rows", sweep]
    if out.parent.name == "shards":  # on Slurm each shard has a folder, and all have one name
        name.append(out.name)
    measured = rows_files(out)
    configs = [file.with_name("config.json") for file in measured]
    files = [*measured, *configs, out / "sweep.json", out / "variants.json"]
    named = {file.relative_to(out).as_posix(): file.stat().st_size for file in files
             if file.is_file()}  # fmt: skip
    about = {"name": " ".join(name), "job_type": "rows", "tags": ["rows"], "config": {}}
    about["notes"] = "All rows of the sweep, as an artifact."
    artifact = re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join(name))[:128]
    yield name, about | {"group": sweep, "summary": _summary([*derived.values()]), "lines": [],
                         "artifact": artifact, "files": named}  # fmt: skip
    for job, found in jobs:
        for number, curve in _curves(job, [derived[row.identity] for row in found]):
            run = {"group": sweep, "job_type": job.kernel} | _described(job, curve)
            yield [sweep, job.name, number], run


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
        "lines": [_line(row) for row in rows if row["status"] == "ok"],
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


def _id(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


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


def _run(words: Sequence[str], folder: Path, runs: int, text: str = "") -> str:
    """Runs Python in W&B's environment and gives its standard error; -P: there is a wandb/ here.

    Raises:
        OSError: it failed, or did not end in time; its last line.
    """
    with subprocess.Popen(
        [sys.executable, "-P", *words],
        cwd=folder,
        env=environment(os.environ),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        limit_s = LIMIT_S + LIMIT_RUN_S * runs
        try:
            _, errors = process.communicate(text, timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise OSError(f"no answer within {limit_s:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # W&B's own processes too
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = errors.strip().rpartition("\n")[2]
        raise OSError(last.partition(": ")[2] or f"its process ended with {process.returncode}")
    return errors


def write(plan: Mapping[str, Any]) -> None:
    """Writes the runs of a plan, in the sweep's folder and with names relative to it.

    An offline folder so holds no path of this machine and can be uploaded from another.
    """
    import wandb

    online, named = plan["mode"] == "online", ("id", "name", "group", "job_type", "tags", "notes")
    limits = dict.fromkeys(("init_timeout", "finish_timeout"), SERVER_S)
    for content in plan["runs"]:
        run = wandb.init(
            **{name: plan[name] for name in ("project", "entity", "mode")},
            **{name: content[name] for name in (*named, "config")},
            resume="allow" if online else None,  # offline there is nobody to ask
            settings=wandb.Settings(**SETTINGS, **limits),
        )
        folder = Path(run.dir).parent
        for name in {key: None for line in content["lines"] for key in line}:
            axis = None if name in AXES else content["axis"]
            run.define_metric(name, step_metric=axis, summary="none", hidden=name in AXES)
        for step, line in enumerate(content["lines"]):
            if step >= (run.starting_step if online else 0):  # an interrupted one goes on
                run.log(line, step=step)
        run.summary.update(content["summary"])
        if name := content.get("artifact"):
            artifact = wandb.Artifact(name, type="rows")
            for number, file in enumerate(content["files"]):
                # a copy, as rows may follow; by another name, as it is no rows file of the sweep's
                copy = os.path.relpath(shutil.copyfile(file, folder / f"{number}.artifact"))
                artifact.add_file(copy, name=file, policy="immutable", skip_cache=True)
            run.log_artifact(artifact)
        run.finish(exit_code=int(content["summary"]["failed"] > 0))
        # W&B says nothing about a run that it could not write to the end.
        if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
            raise OSError(f"no room left to write {folder.name}")
        shutil.rmtree(folder / "logs", ignore_errors=True)
        (folder / DONE).touch()
    wandb.teardown()


def upload(out: Path) -> None:
    """Uploads the runs that wait below a folder.

    Raises:
        UserError: something is left to upload.
    """
    if not out.is_dir():
        raise UserError(f"--out {out}: no such folder")
    found = _waiting(out.rglob("wandb/offline-run-*/run-*.wandb"))
    if not found:
        print(f"nothing to upload below {out}")
        return
    if not has_key():
        raise UserError(NO_KEY)
    errors = ""
    for sweep in dict.fromkeys(file.parents[2] for file in found):
        # offline files name their artifacts relative to the sweep's folder
        files = [str(file.relative_to(sweep)) for file in found if file.parents[2] == sweep]
        errors += _run(["-m", "wandb", "sync", *files], sweep, len(files))
        for log in sweep.glob("wandb/debug-cli.*.log"):
            log.unlink(missing_ok=True)  # an empty file named after the user
    if left := len(_waiting(found)):
        why = (errors.strip().splitlines() or ["W&B gives no reason"])[-1]
        raise UserError(f"{left} of {len(found)} runs were not uploaded; run this again: {why}")
    print(f"uploaded {len(found)} run{'s' * (len(found) > 1)} from {out}")


def main() -> int:
    """Uploads, or is the writer."""
    if "--write" in sys.argv:
        write(json.load(sys.stdin))
        return 0
    parser = Parser(prog="python -m experiments.wandb", description="Upload what waits offline.")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs"), help="a sweep's folder, or one above several"
    )
    return command(lambda: upload(parser.parse_args().out))


if __name__ == "__main__":
    sys.exit(main())
