"""Draws the recorded rows again and compares tables with the committed ones: ``make reference``.

All that pages include lies in ``docs/generated``. Text is compared as text, decimal numbers as
numbers, and of pictures the names alone. ``--write`` keeps what was drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from unittest import mock

from analysis.__main__ import main as analysis
from analysis.claims import judge, sources_table
from analysis.format import Table, write_table
from analysis.headline import headline, operations, versions
from analysis.load import REFERENCE, Inputs, load, read_inputs
from experiments.data.files import write_file

GENERATED = Path("docs") / "generated"
NAMES = "drawn.txt"  # the names of all files that are drawn
TABLES = (".csv", ".md")  # committed and compared
SHOWN = ".png"  # committed where a page shows it
DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")
ALL = str(REFERENCE)


# By the folder below docs/generated: the words of the command that fills it.
DRAWINGS: dict[str, tuple[str, ...]] = {
    **{name: (name, "--rows", ALL) for name in ("figures", "tables", "roofline", "claims")},
    "report": ("report", "--rows", ALL),
    "compare/h200": ("compare", f"{REFERENCE}/h200_again/once", f"{REFERENCE}/h200_again/again"),
    "compare/h200_cards": (
        "compare",
        f"{REFERENCE}/h200_cards/alone",
        f"{REFERENCE}/h200_cards/together",
    ),
    "compare/h200_x4": ("compare", f"{REFERENCE}/h200_x4/alone", f"{REFERENCE}/h200_x4/together"),
    "selftest/h200": ("selftest", "--rows", f"{REFERENCE}/h200_selftest"),
    "selftest/h200_limits": ("selftest", "--rows", f"{REFERENCE}/h200_limits_selftest"),
}


def draw(out: Path, folders: Sequence[str] = ()) -> None:
    """Draws everything, or some folders, below ``out``.

    Raises:
        RuntimeError: a command failed; it has the command and what was printed.
    """
    reading = sys.modules[load.__module__]
    with mock.patch.object(reading, "load", cache(load)):  # several commands draw the same rows
        for name, words in DRAWINGS.items():
            if folders and name not in folders:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                status = analysis([*words, "--out", str(out / name)])
            if status > (words[0] == "compare"):  # its status 1 is a verdict
                raise RuntimeError(f"python -m analysis {' '.join(words)}: {printed.getvalue()}")
        if not folders:
            with contextlib.redirect_stdout(io.StringIO()):
                summarize(read_inputs(REFERENCE, out, "summary"))


def summarize(inputs: Inputs) -> list[Path]:
    """Writes the summary tables of `analysis.headline`, which README includes."""
    gpu = inputs.main["gpu"].value_counts().index[0]
    found: dict[str, Table | None] = {
        "headline": headline(inputs.frame, inputs.points),
        "operations": operations(inputs.frame, inputs.points),
        "sources": sources_table(judge(inputs, gpu)),
    }
    made = [write_table(inputs.out, name, one) for name, one in found.items() if one is not None]
    text = f"Measured with {versions(inputs.frame, inputs.points)}.\n"
    return [write_file(inputs.out / "versions.md", text), *itertools.chain.from_iterable(made)]


def names(drawn: Path) -> list[str]:
    """The files below a folder, as paths below it."""
    return sorted(p.relative_to(drawn).as_posix() for p in drawn.rglob("*") if p.is_file())


def differences(drawn: Path, kept: Path = GENERATED, folders: Sequence[str] = ()) -> list[str]:
    """The differences between the files drawn and those committed, one line per file."""
    found = set(names(drawn))
    listed = (kept / NAMES).read_text(encoding="utf-8").splitlines()
    known = {n for n in listed if not folders or any(n.startswith(f"{f}/") for f in folders)}
    lines = []
    for name in sorted(known | found):
        if name not in found or name not in known:
            lines.append(f"{name}: {'new' if name in found else 'no longer drawn'}")
        elif not name.endswith(TABLES):
            continue
        elif not (kept / name).is_file():
            lines.append(f"{name}: not committed")
        elif text := change(*((place / name).read_text("utf-8") for place in (kept, drawn))):
            lines.append(f"{name}:{text}")
    return lines


def change(committed: str, drawn: str) -> str:
    """Where two texts first differ, by more than the last digit of a decimal number; else empty."""
    before, after = (text.splitlines() for text in (committed, drawn))
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new and not _alike(old, new):
            pairs = zip(old, new, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
            shown = [text[max(0, at - 20) :][:60] for text in (old, new)]
            return f"{number}: {shown[0]!r} is now {shown[1]!r}"
    return f" {len(before)} lines are now {len(after)}" if len(before) != len(after) else ""


def _alike(old: str, new: str) -> bool:
    """Whether two lines have the same text, and the same numbers but for the last digit written."""
    if DECIMAL.sub("#", old) != DECIMAL.sub("#", new):
        return False
    found = (map(Decimal, DECIMAL.findall(text)) for text in (old, new))
    return all(
        abs(a - b) <= Decimal(1).scaleb(min(int(one.as_tuple().exponent) for one in (a, b)))
        for a, b in zip(*found, strict=True)
    )


def write(drawn: Path, kept: Path = GENERATED, shown: Sequence[str] = ()) -> None:
    """Keeps the tables that were drawn, the pictures that pages show, and the names of all."""
    found = names(drawn)
    for old in kept.rglob("*"):
        if old.is_file() and old.relative_to(kept).as_posix() not in found:
            old.unlink()
    for name in found:
        if name.endswith(TABLES) or name in shown:
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn / name, kept / name)
    (kept / NAMES).write_text("\n".join(found) + "\n", encoding="utf-8")


def shown_on_pages() -> list[str]:
    """The pictures of `GENERATED` that README and the pages of docs/ show."""
    pages = [Path("README.md"), *Path("docs").glob("*.md")]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"\]\((?:docs/)?generated/([^)\s]+\.png)\)", texts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws, and compares or writes; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.reference", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep what is drawn")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"of {', '.join(DRAWINGS)}")
    options = parser.parse_args(arguments)
    if unknown := [one for one in options.folders if one not in DRAWINGS]:
        parser.error(f"nothing is drawn into {unknown[0]!r}; known are {', '.join(DRAWINGS)}")
    if options.write and options.folders:
        parser.error("--write keeps everything, or nothing: name no folder")
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch)
        draw(drawn, options.folders)
        if options.write:
            write(drawn, GENERATED, shown_on_pages())
        lines = differences(drawn, GENERATED, options.folders)
        print(*lines, sep="\n", end="\n" * bool(lines), file=sys.stderr)
        print(f"{len(names(drawn))} files drawn, {len(lines)} differ from {GENERATED}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
