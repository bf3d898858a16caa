"""Two sets of rows point by point, and the noise floor that such a comparison stands on.

Here are the arguments of ``compare`` alone, apart from what takes a second to import.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of ``compare``."""
    for name, text in (("base", "what was before"), ("head", "what is now")):
        command.add_argument(
            name, type=Path, metavar=name.upper(), help=f"{text}: a folder of rows"
        )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="default: compare/ in the rows of HEAD"
    )
    command.add_argument(
        "--threshold", type=_share, default=0.02, metavar="2%",
        help="a change of less counts for nothing (default: 2%%)",
    )  # fmt: skip
    command.add_argument(
        "--alpha", type=_chance, default=0.05, metavar="0.05",
        help="the chance of a false alarm in the whole comparison (default: 0.05)",
    )  # fmt: skip
    command.add_argument(
        "--across-gpus", action="store_true", help="compare rows of two GPU models all the same"
    )


def _share(text: str) -> float:
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    value = _float(number) / (100 if percent else 1)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 2% or 0.02")
    return value


def _chance(text: str) -> float:
    value = _float(text)
    if not 1e-6 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is no chance from 1e-6 to 0.5, such as 0.05")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
