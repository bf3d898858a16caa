"""make, run in the checkout as a shell would, with an interpreter that notes its arguments."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

NOTING = """#!/bin/sh
[ "$1" = -m ] && [ "$2" = experiments.environment ] && exec {python} "$@"
{python} - "$@" <<'END'
import json, sys
open({notes!r}, "a").write(json.dumps(sys.argv[1:]) + "\\n")
END
case "$2" in experiments.run) exit {status};; esac
"""


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs make in the checkout, as typed in a shell of its own."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=outer | environment, capture_output=True, text=True
    )


@dataclass(frozen=True)
class Noted:
    """How a make ended, and the arguments of each call of its interpreter."""

    status: int
    stderr: str
    calls: list[list[str]]


def noted(folder: Path, *arguments: str, status: int = 0, **environment: str) -> Noted:
    """Runs make with an interpreter that does nothing; ``experiments.run`` ends with ``status``."""
    import sys

    python, notes = folder / "noting", folder / "notes"
    python.write_text(NOTING.format(python=sys.executable, notes=str(notes), status=status))
    python.chmod(0o755)
    notes.unlink(missing_ok=True)
    done = make("READY=", f"PY={python}", *arguments, **environment)
    lines = notes.read_text().splitlines() if notes.exists() else []
    return Noted(done.returncode, done.stderr, [json.loads(line) for line in lines])
