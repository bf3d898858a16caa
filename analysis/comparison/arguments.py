"""The arguments of ``compare``, apart from what takes a second to import."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    for name, told in (("base", "what was before"), ("head", "what is now")):
        where = f"{told}: a folder of rows"
        command.add_argument(name, type=Path, metavar=name.upper(), help=where)
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
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 2% or 0.02")
    return value


def _chance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-6 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is no chance from 1e-6 to 0.5, such as 0.05")
    return value
