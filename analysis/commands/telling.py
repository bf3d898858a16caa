"""What every subcommand says at its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def tell(made: Sequence[Path], missed: Sequence[str]) -> None:
    """Prints the paths of what was made and, to standard error, what was left out and why."""
    for path in made:
        print(path)
    for needs in missed:
        print(f"skipped: {needs}", file=sys.stderr)
