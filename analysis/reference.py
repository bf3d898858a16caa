"""Draws all of outputs/reference again and compares it with what is committed there.

``python -m analysis.reference`` names every file that differs, and exits with status 1
if there is one. Tables are compared as text, the decimal numbers in them as numbers, and of
pictures the names alone. ``--write`` accepts what was drawn; folders of outputs/reference limit
it to the drawings that belong below them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from analysis.__main__ import main as analysis
from analysis.load import load
from experiments.data.packed import unpacked

REFERENCE = Path("outputs") / "reference"
NAMES = "drawn.txt"  # the names of all files that are drawn
KINDS = ("figures", "tables", "roofline", "claims", "report")
TABLES = (".csv", ".md")  # committed and compared
SHOWN = ".png"  # committed where the documentation shows it
DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")


class Drawing(NamedTuple):
    """What one command makes of recorded rows; places are paths below outputs/reference.

    Attributes:
        command: Words for ``python -m analysis``.
        rows: The recordings it reads: a folder, an archive or a part of what one holds, and records
            beside them.
        out: Where its files belong.
    """

    command: tuple[str, ...]
    rows: tuple[str, ...]
    out: str


PAPER = ("h200", "h200_exploration")
ONLINE = "h200_online"  # wide rows, some of them incorrect
LOSSES = "h200_cross_entropy"
LIMITS = "h200_limits/limits.tar.gz"
BACKWARD, ATTENTION = "h200_backward", "h200_attention"
HOST = "h200_limits/hostcost.json"
OWN = (LIMITS, HOST, BACKWARD, ATTENTION, LOSSES)  # what this project claims: of all its kernels
DETERMINISM = "h200_determinism/determinism.tar.gz"  # not to be drawn among others' times
ATTENTION_SHAPES = "h200_attention/shapes.tar.gz"  # nor these, of other softmaxes and shapes
OF_LOSSES = "cross_entropy,cross_entropy_backward,cross_entropy_grad,limits,limits_ratio"
DRAWINGS = (
    *(Drawing((kind,), PAPER, f"h200/{kind}") for kind in ("figures", "tables", "roofline")),
    *(
        Drawing((kind,), (*PAPER, ONLINE, ATTENTION, LOSSES), f"h200/{kind}")
        for kind in ("claims", "report")
    ),
    Drawing(("compare",), ("h200/again.tar.gz/once", "h200/again.tar.gz/again"), "h200/compare"),
    Drawing(("selftest",), ("h200/selftest/twins.tar.gz",), "h200/selftest"),
    Drawing(("selftest",), ("h200_limits/selftest.tar.gz",), "h200_limits/selftest"),
    Drawing(
        ("figures", "--only", "headline,limits,limits_ratio"), (LIMITS,), "h200_limits/figures"
    ),
    Drawing(
        ("figures", "--only", "backward,limits,limits_ratio"), (BACKWARD,), "h200_backward/figures"
    ),
    Drawing(
        ("figures", "--only", "attention_traffic,attention_time,attention_parts"),
        (ATTENTION,),
        "h200_attention/figures",
    ),
    Drawing(
        ("tables", "--only", "limits,limits_summary,above_roof,environment"),
        (LIMITS,),
        "h200_limits/tables",
    ),
    Drawing(("figures", "--only", OF_LOSSES), (LOSSES,), f"{LOSSES}/figures"),
    Drawing(
        ("tables", "--only", "memory,limits,above_roof,environment"), (LOSSES,), f"{LOSSES}/tables"
    ),
    Drawing(("tables", "--only", "determinism"), (DETERMINISM,), "h200_determinism/tables"),
    Drawing(("claims", "--claims", "analysis/own_claims.yaml"), OWN, "h200_limits/claims"),
    *(
        Drawing(words, tuple(f"{host}/cards.tar.gz/{part}" for part in parts), f"{host}/{words[0]}")
        for host in ("h200_cards", "h200_x4")
        for words, parts in (
            (("figures", "--only", "card_to_card"), ("together",)),
            (("tables", "--only", "card_to_card"), ("together",)),
            (("compare",), ("alone", "together")),
        )
    ),
)


def draw(out: Path, reference: Path = REFERENCE, drawings: Iterable[Drawing] = DRAWINGS) -> None:
    """Draws everything, or some drawings, below ``out``.

    Raises:
        RuntimeError: a command failed; it has the command and what was printed.
    """
    # several commands draw the same rows, which are read once
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch("analysis.load.load", cache(load)),
    ):
        for drawing in drawings:
            _run(drawing, _rows(drawing, reference, Path(scratch)), out / drawing.out)


def names(drawn: Path) -> list[str]:
    """The files below a folder that are drawn, as paths below it."""
    made = (path for path in drawn.rglob("*") if path.is_file())
    found = (path.relative_to(drawn).as_posix() for path in made)
    return sorted(name for name in found if not name.endswith(".manifest.json"))


def differences(
    drawn: Path, reference: Path = REFERENCE, drawings: Iterable[Drawing] = DRAWINGS
) -> list[str]:
    """What differs between the files drawn and those committed, one line per file."""
    found = set(names(drawn))
    places = {drawing.out for drawing in drawings}
    listed = (reference / NAMES).read_text(encoding="utf-8").splitlines()
    known = {name for name in listed if name.rpartition("/")[0] in places}
    lines = []
    for name in sorted(known | found):
        if name not in found or name not in known:
            lines.append(f"{name}: {'new' if name in found else 'no longer drawn'}")
        elif not name.endswith(TABLES):
            continue
        elif not (reference / name).is_file():
            lines.append(f"{name}: not committed")
        elif text := change(*((place / name).read_text("utf-8") for place in (reference, drawn))):
            lines.append(f"{name}:{text}")
    return lines


def change(committed: str, drawn: str) -> str:
    """Where and how two texts first differ, by more than the last digit of a decimal number."""
    before, after = (text.splitlines() for text in (committed, drawn))
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new and not _alike(old, new):
            return f"{number}: {_around(old, new)!r} is now {_around(new, old)!r}"
    return f" {len(before)} lines are now {len(after)}" if len(before) != len(after) else ""


def _alike(old: str, new: str) -> bool:
    """Whether two lines have the same text, and the same numbers but for the last digit written."""
    if DECIMAL.sub("#", old) != DECIMAL.sub("#", new):
        return False
    pairs = zip(DECIMAL.findall(old), DECIMAL.findall(new), strict=True)
    return all(
        a == b or abs(float(a) - float(b)) <= 1.001 * min(_last_digit(a), _last_digit(b))
        for a, b in pairs
    )


def _last_digit(number: str) -> float:
    """What one unit in the last digit written of a number is worth."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def _around(text: str, other: str, width: int = 60) -> str:
    """The part of a line where it begins to differ from another."""
    first = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    return text[max(0, first - width // 3) :][:width]


def write(drawn: Path, reference: Path = REFERENCE) -> None:
    """Keeps the tables that were drawn, the pictures that are shown, and all names."""
    found = names(drawn)
    listed = (reference / NAMES).read_text(encoding="utf-8").split()
    for name in {*listed} - {*found}:
        (reference / name).unlink(missing_ok=True)
    for name in found:
        kept = name.endswith(TABLES) or (name.endswith(SHOWN) and (reference / name).exists())
        if kept:
            (reference / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn / name, reference / name)
    (reference / NAMES).write_text("\n".join(found) + "\n", encoding="utf-8")


def _rows(drawing: Drawing, reference: Path, scratch: Path) -> list[Path]:
    """The folders a drawing reads: one by one for compare, else all of them below one folder."""
    places = [_place(name, reference) for name in drawing.rows]
    if len(places) == 1 or drawing.command[0] == "compare":
        return places
    together = scratch / "+".join(drawing.rows)
    if not together.exists():
        for name, place in zip(drawing.rows, places, strict=True):
            ignored = shutil.ignore_patterns(*KINDS, "selftest", "[!r]*.tar.gz", ".unpacked")
            if place.is_file():
                shutil.copy(place, together / name)
            else:
                shutil.copytree(place, together / name, ignore=ignored)
    return [together]


def _place(name: str, reference: Path) -> Path:
    archive, packed, part = name.partition(".tar.gz")
    if not packed:
        return reference / name
    return unpacked(reference / (archive + packed)) / part.strip("/")


def _run(drawing: Drawing, rows: Sequence[Path], out: Path) -> None:
    if drawing.command[0] == "compare":
        words = [*drawing.command, *map(str, rows)]
    else:
        words = [*drawing.command, "--rows", str(rows[0])]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = analysis([*words, "--out", str(out)])
    if status > (drawing.command[0] == "compare"):  # its status 1 is a verdict
        raise RuntimeError(f"python -m analysis {' '.join(words)}: {printed.getvalue()}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws, and compares or writes; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.reference", description=__doc__)
    parser.add_argument("--write", action="store_true", help="accept what is drawn")
    known = sorted({drawing.out for drawing in DRAWINGS})
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"of {', '.join(known)}")
    options = parser.parse_args(arguments)
    if unknown := [one for one in options.folders if one not in known]:
        parser.error(f"no drawing belongs in {unknown[0]!r}; known are {', '.join(known)}")
    if options.write and options.folders:
        parser.error("--write accepts everything, or nothing: name no folder")
    drawings = [one for one in DRAWINGS if not options.folders or one.out in options.folders]
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch) / "reference"
        draw(drawn, REFERENCE, drawings)
        if options.write:
            write(drawn)
            print(f"{REFERENCE}: {len(names(drawn))} files")
            return 0
        lines = differences(drawn, REFERENCE, drawings)
        count = len(names(drawn))
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{count} files drawn, {len(lines)} differ from {REFERENCE}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
