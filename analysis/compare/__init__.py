"""Two sets of rows point by point, and the noise floor that such a comparison stands on.

Here are the arguments of ``compare`` alone, apart from what takes a second to import.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of ``compare``."""
    command.add_argument("base", type=Path, metavar="BASE", help="what was before: rows")
    command.add_argument("head", type=Path, metavar="HEAD", help="what is now: rows")
    beside = "default: compare/ in the rows of HEAD"
    command.add_argument("--out", type=Path, metavar="DIR", help=beside)
    least = "a change of less counts for nothing (default: 2%%)"
    command.add_argument("--threshold", type=_share, default=0.02, metavar="2%", help=least)
    across = "compare rows of two GPU models all the same"
    command.add_argument("--across-gpus", action="store_true", help=across)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 2% or 0.02")
    return value
