"""Uploads the W&B runs that were written offline: ``python -m experiments.sync [--out DIR]``.

A run is uploaded once; W&B's own mark, a ``.synced`` file beside the run's, keeps it from being
uploaded again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.mirror.child import environment, talk

# An upload of a run takes about a second; one that hangs is given up, and taken up the next time.
START_S = 60
RUN_S = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Uploads and says in one line what came of it; 0 when nothing is left to upload."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.sync", description="Upload the W&B runs written offline."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs"), help="a sweep's folder, or one above several"
    )
    out = parser.parse_args(arguments).out
    if not out.is_dir():
        return _fail(f"--out {out}: no such folder")
    waiting = _waiting(out)
    total = sum(map(len, waiting.values()))
    if not total:
        print(f"nothing to upload below {out}")
        return 0
    refusal = _refusal(out)
    if refusal is not None:
        return _fail(refusal)
    for sweep, files in waiting.items():
        trouble = _upload(sweep, files)
        if trouble is not None:
            return _fail(f"{sweep}: {trouble}")
    left = sum(map(len, _waiting(out).values()))
    if left:
        return _fail(f"{left} of {total} runs were not uploaded; run this again")
    print(f"uploaded {total} run{'s' if total > 1 else ''} from {out}")
    return 0


def _waiting(out: Path) -> dict[Path, list[str]]:
    """Sweep folders and their offline files without W&B's mark, by names relative to the sweep."""
    waiting: dict[Path, list[str]] = {}
    for file in sorted(out.rglob("wandb/offline-run-*/run-*.wandb")):
        if not file.with_name(f"{file.name}.synced").exists():
            sweep = file.parents[2]
            waiting.setdefault(sweep, []).append(str(file.relative_to(sweep)))
    return waiting


def _refusal(out: Path) -> str | None:
    """Why the server does not take the upload, in one line, or None."""
    for message in talk(json.dumps({"mode": "check", "runs": []}), cwd=out):
        if message["event"] == "error":
            reason: str = message["reason"]
            if "No API key" in reason:
                return "no W&B key: set WANDB_API_KEY, or run `wandb login`"
            server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
            return f"{server} did not take the upload: {reason}"
    return None


def _upload(sweep: Path, files: Sequence[str]) -> str | None:
    """Has W&B upload the files, the oldest of a run first; what went wrong, or None."""
    # Offline files name their artifacts relative to the sweep's folder.
    command = [sys.executable, "-P", "-m", "wandb", "sync", *files]
    limit_s = START_S + RUN_S * len(files)
    try:
        ended = subprocess.run(
            command,
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


if __name__ == "__main__":
    sys.exit(main())
