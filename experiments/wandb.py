"""Copies a sweep's rows to Weights & Biases (W&B) after measuring: one W&B run for each curve.

A curve is one kernel in one dtype over N, or over M if N is fixed. Runs are written offline and, if
the tracker is online, uploaded by ``wandb sync``, in processes with a time limit. A failure is only
a warning: the same command, run again, does the rest. A run's id has a hash of its content, so that
nothing is written twice; a curve with more points replaces its run until that is uploaded.

``python -m experiments.wandb [--out DIR]`` uploads the runs that lack W&B's mark, a ``.synced``.
"""

import contextlib
import hashlib
import json
import math
import netrc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from experiments.data.errors import Parser, UserError, command
from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import DERIVED, derive, mark_implausible
from experiments.data.rows import EXPECTED, Row
from experiments.parent.client import child_environment
from experiments.parent.jobs import Job

AXES = {"M": "rows", "N": "cols", "round": "round"}  # the row's field for each axis
LOGGED = ("time_us", "time_low_us", "time_high_us", *DERIVED, "model_bytes", "flops", "peak_bytes",
          "max_abs_error", "relative_error")  # fmt: skip
VALUES = ("operation", "dtype", "gpu", "timer", "cache", "model_formula", "environment")
SUMMED_UP = {"effective_gbps": "max", "relative_error": "max"}  # W&B summarizes no other metric
DONE = "written"  # this file lies beside a run's file that W&B has written to the end
LIMIT_S = 600  # for one process of W&B's
NO_KEY = "no W&B key: set WANDB_API_KEY, or run `wandb login`"
# The user's WANDB_ variables to pass on: server and account. Others, as RUN_ID, would interfere.
ACCOUNT = ("API_KEY", "BASE_URL", "ENTITY", "CONFIG_DIR", "IDENTITY_TOKEN_FILE", "CREDENTIALS_FILE",
           "INSECURE_DISABLE_SSL", "HTTP_PROXY", "HTTPS_PROXY", "HTTP_TIMEOUT")  # fmt: skip
VARIABLES = {
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",  # crash reports carry paths
    "WANDB_PROGRAM": "experiments",  # the default is the command line
    "WANDB_DATA_DIR": "wandb/data",
    "WANDB_CACHE_DIR": "wandb/cache",
}
# W&B prints nothing, and records nothing about host, user, paths, code or arguments.
SETTINGS: dict[str, Any] = {
    "root_dir": ".",
    "console": "off",
    **dict.fromkeys(["x_disable_meta", "x_disable_stats", "x_disable_machine_info"], True),
    **dict.fromkeys(["disable_git", "disable_code", "disable_job_creation", "label_disable"], True),
    **dict.fromkeys(["symlink", "x_save_requirements", "save_code"], False),
    **dict.fromkeys(["host", "username", "email", "x_executable"], ""),
}


def tracker_of(options: Mapping[str, Any]) -> TrackerConfig:
    """The tracker in a sweep's options.

    Raises:
        UserError: it is online, and there is no key.
    """
    tracker = TrackerConfig(**options["tracker"])
    if tracker.backend == "wandb" and tracker.mode == "online" and not has_key():
        raise UserError(f"tracker=online: {NO_KEY}; tracker=wandb writes it offline")
    return tracker


def has_key() -> bool:
    """Whether W&B will find a key: in the environment or in ``~/.netrc``."""
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    keys = [os.environ.get(f"WANDB_{name}") for name in ("API_KEY", "IDENTITY_TOKEN_FILE")]
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        keys += netrc.netrc(os.environ.get("NETRC")).authenticators(host) or ()
    return any(keys)


def mirror(
    sweep: str, jobs: Sequence[tuple[Job, Sequence[Row]]], tracker: TrackerConfig, out: Path
) -> list[str]:
    """Writes a sweep's runs into ``out/wandb``, unless they are there; online, uploads them.

    ``jobs`` has each job with the last rows of its points; jobs may share rows.

    Returns:
        A list with a line that says what went wrong, or empty. It raises nothing.
    """
    if tracker.backend == "none":
        return []
    try:
        runs = runs_of(sweep, jobs)
        due = [run for run in runs if not any(out.glob(f"wandb/*-{run['id']}/{DONE}"))]
        for run in due:
            curve = run["id"].partition("-")[0]
            for old in _waiting(out.glob(f"wandb/offline-run-*/run-{curve}-*.wandb")):
                shutil.rmtree(old.parent)
        if due:
            (out / "wandb").mkdir(exist_ok=True)  # else W&B would silently use another folder
            plan = {"where": {"project": tracker.project, "entity": tracker.entity}, "runs": due}
            _run(["-m", "experiments.wandb", "--write"], out, json.dumps(plan))
        if tracker.mode == "online":
            upload(out)
    except Exception as error:
        again = "the rows are complete on disk; the same command, run again, does the rest"
        return [f"W&B {tracker.mode}: {error}; {again}"]
    return []


def runs_of(sweep: str, jobs: Sequence[tuple[Job, Sequence[Row]]]) -> Iterator[dict[str, Any]]:
    """The run of each curve, for `write_runs`. A grid of several M and N has a curve for each M."""
    every = {row.identity: row for _, found in jobs for row in found}
    derived = dict(zip(every, derive(mark_implausible([*every.values()])), strict=True))
    for job, found in jobs:
        widths = {n for _, n in job.shapes}
        curves = defaultdict[str, list[dict[str, Any]]](list)
        for row in sorted(found, key=lambda row: (row.cols, row.rows, row.round)):
            m = row.rows if 1 < len(widths) < len(job.shapes) else ""
            curves[f"{row.dtype} {m}"].append(derived[row.identity])
        for name, rows in curves.items():
            last, (grid, _, *variation) = rows[-1], job.shard
            sizes = {name: {row[AXES[name]] for row in rows} for name in ("M", "N")}
            fixed = {name: last[AXES[name]] for name, some in sizes.items() if len(some) == 1}
            texts = [f"{name}={size}" for name, size in fixed.items()]
            values = {name: last[name] for name in VALUES}
            kernel = {**last["params"], "name": job.kernel, "backend": last["backend"]}
            run = {
                "group": sweep,
                "job_type": job.kernel,
                "name": " ".join([job.label, grid, last["dtype"], *texts, *variation]),
                "axis": "M" if len(widths) == 1 < len(job.shapes) else "N",
                "config": {"kernel": kernel, "grid": grid, **fixed, **values},
                "summary": {"points": len(rows), **Counter(row["status"] for row in rows)},
                "lines": [
                    {axis: row[field] for axis, field in AXES.items()}
                    | {k: n for k in LOGGED if (n := row[k]) is not None and math.isfinite(n)}
                    for row in rows
                    if row["status"] == "ok"
                ],
            }
            own, content = (
                hashlib.sha256(json.dumps(one).encode()).hexdigest()
                for one in ([sweep, job.name, name], run)
            )
            yield run | {"id": f"{own[:12]}-{content[:8]}"}


def _waiting(files: Iterable[Path]) -> list[Path]:
    """The runs' files that have not been uploaded yet, sorted."""
    return sorted(file for file in files if not file.with_name(f"{file.name}.synced").exists())


def _run(words: Sequence[str], folder: Path, text: str = "") -> str:
    """Runs Python with ``text`` as input; returns its standard error, or raises it as `OSError`."""
    given = {k: v for k, v in os.environ.items() if k[:6] != "WANDB_" or k[6:] in ACCOUNT}
    process = subprocess.Popen(
        [sys.executable, "-P", *words],  # -P: the folder's wandb/ must not hide the package
        cwd=folder,
        env=child_environment(given) | VARIABLES,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(text, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {LIMIT_S:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # also ends the processes that W&B started
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = errors.strip().rpartition("\n")[2]
        raise OSError(last.partition(": ")[2] or f"its process ended with {process.returncode}")
    return errors


def write_runs(plan: Mapping[str, Any]) -> None:
    """Writes the runs of a plan of `mirror` offline, into the current folder."""
    import wandb

    for content in plan["runs"]:
        own = {key: content[key] for key in ("id", "name", "group", "job_type", "config")}
        settings = wandb.Settings(**SETTINGS)
        run = wandb.init(mode="offline", settings=settings, **plan["where"], **own)
        folder = Path(run.dir).parent
        for name in {key: None for line in content["lines"] for key in line}:
            of_axis = {"hidden": True} if name in AXES else {"step_metric": content["axis"]}
            run.define_metric(name, summary=SUMMED_UP.get(name, "none"), **of_axis)
        for line in content["lines"]:
            run.log(line)
        run.summary.update(content["summary"])
        run.finish(exit_code=int(not {*content["summary"]} <= {"points", *EXPECTED}))
        # W&B says nothing about a run that it could not write to the end.
        if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < 1 << 20:
            raise OSError(f"no room left to write {folder.name}")
        shutil.rmtree(folder / "logs", ignore_errors=True)
        (folder / DONE).touch()
    wandb.teardown()


def upload(out: Path) -> str:
    """Uploads the offline runs below a folder; returns a line that says how many.

    Raises:
        UserError: there is no such folder or no key, or some runs could not be uploaded.
    """
    if not out.is_dir():
        raise UserError(f"--out {out}: no such folder")
    found = _waiting(out.rglob("wandb/offline-run-*/run-*.wandb"))
    if not found:
        return f"nothing to upload below {out}"
    if not has_key():
        raise UserError(NO_KEY)
    files = [str(file.relative_to(out)) for file in found]
    errors = _run(["-m", "wandb", "sync", *files], out)
    for log in out.glob("wandb/debug-cli.*.log"):
        log.unlink(missing_ok=True)  # it is empty, and its name contains the user's
    if left := len(_waiting(found)):
        why = (errors.strip().splitlines() or ["W&B gives no reason"])[-1]
        raise UserError(f"{left} of {len(found)} runs were not uploaded; run this again: {why}")
    return f"uploaded {len(found)} run{'s' * (len(found) > 1)} from {out}"


def main() -> int:
    """Uploads offline runs; with ``--write`` writes runs offline, from a plan on standard input."""
    if "--write" in sys.argv:
        return command(lambda: write_runs(json.load(sys.stdin)))
    parser = Parser(prog="python -m experiments.wandb", description="Upload what waits offline.")
    parser.add_argument("--out", type=Path, default=Path("outputs"), help="of one sweep or several")
    return command(lambda: print(upload(parser.parse_args().out)))


if __name__ == "__main__":
    sys.exit(main())
