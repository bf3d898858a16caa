"""make, run in the checkout as a shell would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs make in the checkout, as typed in a shell of its own."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=outer | environment, capture_output=True, text=True
    )


def variable(name: str, *arguments: str) -> list[str]:
    """A Makefile variable's words."""
    shown = make(*arguments, "--eval", f"shown: ; @echo '$({name})'", "shown")
    return shown.stdout.split()
