"""Draws the recorded rows again and compares tables with the committed ones: ``make reference``.

Text is compared as text, decimal numbers as numbers, of pictures the names alone. ``--write`` keeps
what was drawn in ``docs/generated``, and puts each table that README.md or docs/results.md includes
between its ``<!-- include: NAME -->`` and ``<!-- end -->``.
"""

import argparse
import contextlib
import io
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
from analysis.load import REFERENCE, load

GENERATED = Path("docs") / "generated"
PAGES = (Path("README.md"), Path("docs/results.md"))
INCLUDE = re.compile(r"(<!-- include: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = "drawn.txt"  # the names of all files that are drawn
TABLES = (".csv", ".md")  # committed and compared
H200, INVARIANCE = f"{REFERENCE}/h200", f"{REFERENCE}/h100_invariance/invariance"
DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")
# By the folder below docs/generated: the words of the command that fills it.
DRAWINGS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("figures", "tables", "roofline", "claims", "report")},
    "compare/h200": ("compare", f"{H200}_again/once", f"{H200}_again/again"),
    "compare/invariance": ("compare", INVARIANCE, "--kernels", "auto_batch_invariant,auto"),
    "selftest/h200": ("selftest", "--rows", f"{H200}_selftest"),
    "selftest/h200_limits": ("selftest", "--rows", f"{H200}_limits_selftest"),
}


def _draw(out: Path, folders: Sequence[str] = ()) -> None:
    """Draws everything, or some folders, below ``out``."""
    reading, printed = sys.modules[load.__module__], io.StringIO()
    with (
        mock.patch.object(reading, "load", cache(load)),  # several commands draw the same rows
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        for name in folders or DRAWINGS:
            status = analysis([*DRAWINGS[name], "--out", str(out / name)])
            if status > name.startswith("compare"):  # its status 1 is a verdict
                raise RuntimeError(f"analysis {' '.join(DRAWINGS[name])}: {printed.getvalue()}")


def names(drawn: Path) -> list[str]:
    """The files below a folder, as paths below it."""
    return sorted(p.relative_to(drawn).as_posix() for p in drawn.rglob("*") if p.is_file())


def differences(drawn: Path, kept: Path = GENERATED, folders: Sequence[str] = ()) -> list[str]:
    """The differences between the files drawn and those committed, one line per file."""
    found = set(names(drawn))
    listed = (kept / NAMES).read_text(encoding="utf-8").splitlines()
    known = {n for n in listed if not folders or n.startswith(tuple(f"{f}/" for f in folders))}
    lines = [f"{name}: new" for name in found - known]
    lines += [f"{name}: no longer drawn" for name in known - found]
    for name in (name for name in known & found if name.endswith(TABLES)):
        if not (kept / name).is_file():
            lines.append(f"{name}: not committed")
        elif text := change(*((place / name).read_text("utf-8") for place in (kept, drawn))):
            lines.append(f"{name}:{text}")
    return sorted(lines)


def change(committed: str, drawn: str) -> str:
    """Where two texts first differ, by more than the last digit of a decimal number; else empty."""
    before, after = (text.splitlines() for text in (committed, drawn))
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        words = [DECIMAL.sub("#", text) for text in (old, new)]
        numbers = [map(Decimal, DECIMAL.findall(text)) for text in (old, new)]
        if old != new and (words[0] != words[1] or not all(map(_near, *numbers))):
            return f"{number}: {old[:99]!r} is now {new[:99]!r}"
    return f" {len(before)} lines are now {len(after)}" if len(before) != len(after) else ""


def _near(old: Decimal, new: Decimal) -> bool:
    """Whether two numbers differ by one of the last digit that both have, or less."""
    digit = min(int(one.as_tuple().exponent) for one in (old, new))
    return abs(old - new) <= Decimal(1).scaleb(digit)


def write(drawn: Path, kept: Path = GENERATED) -> None:
    """Keeps the tables that were drawn, the pictures that are committed, and the names of all."""
    found = names(drawn)
    for old in set(names(kept)) - {*found}:
        (kept / old).unlink()
    for name in found:
        if name.endswith(TABLES) or (kept / name).is_file():
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn / name, kept / name)
    (kept / NAMES).write_text("\n".join(found) + "\n", encoding="utf-8")


def included(text: str, kept: Path = GENERATED) -> str:
    """A page with the tables of today between its markers, without their headings.

    Raises:
        StopIteration: a page includes a table that is not drawn.
    """

    def table(match: re.Match[str]) -> str:
        shown = next(kept.rglob(f"{match[2]}.md")).read_text(encoding="utf-8")
        shown = shown.partition("\n")[2] if shown.startswith("## ") else shown
        return f"{match[1]}\n{shown.strip()}\n\n{match[3]}"

    return INCLUDE.sub(table, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws, and compares or writes; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.reference", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep what is drawn")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"of {', '.join(DRAWINGS)}")
    options = parser.parse_args(arguments)
    if {*options.folders} - {*DRAWINGS} or (options.write and options.folders):
        parser.error("a FOLDER is one of those listed by --help, and none goes with --write")
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch)
        _draw(drawn, options.folders)
        if options.write:
            write(drawn)
            for page in PAGES:
                page.write_text(included(page.read_text("utf-8")), encoding="utf-8")
        lines = differences(drawn, GENERATED, options.folders)
        print(*lines, sep="\n", end="\n" * bool(lines), file=sys.stderr)
        print(f"{len(names(drawn))} files drawn, {len(lines)} differ from {GENERATED}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
