"""Draws all of outputs/reference again and compares it with ``checksums.json`` there.

``python -m analysis.reference`` names every file that differs, and exits with status 1
if there is one. ``--write`` accepts what was drawn: it writes the checksums, and the few
pictures and tables that are committed because the documentation shows them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from analysis.__main__ import main as analysis
from analysis.load import load
from analysis.output import digest, drawn_by
from experiments.data.packed import unpacked

REFERENCE = Path("outputs") / "reference"
CHECKSUMS = "checksums.json"
KINDS = ("figures", "tables", "roofline", "claims", "report")
PICTURES = (".png", ".svg", ".html")  # their bytes depend on the versions that draw them


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


def draw(out: Path, reference: Path = REFERENCE, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Draws everything below ``out``; returns the checksum of each file by its path there.

    ``leave_out`` names commands whose files are not wanted.

    Raises:
        RuntimeError: a command failed; it has the command and what was printed.
    """
    # several commands draw the same rows, which are read once
    with (
        tempfile.TemporaryDirectory() as scratch,
        mock.patch("analysis.load.load", cache(load)),
    ):
        for drawing in (one for one in DRAWINGS if one.command[0] not in leave_out):
            _run(drawing, _rows(drawing, reference, Path(scratch)), out / drawing.out)
    made = sorted(path for path in out.rglob("*") if path.is_file())
    return {
        path.relative_to(out).as_posix(): digest([path])
        for path in made
        if not path.name.endswith(".manifest.json")
    }


def differences(found: dict[str, str], reference: Path = REFERENCE) -> list[str]:
    """What differs from the checksums, one line per file.

    Pictures count only under the versions that drew the recorded ones; numbers and texts always.
    """
    recorded = json.loads((reference / CHECKSUMS).read_text(encoding="utf-8"))
    same_versions = recorded["drawn_by"] == drawn_by()
    known: dict[str, str] = recorded["files"]
    lines = []
    for name in sorted(known.keys() | found.keys()):
        if name not in found or name not in known:
            lines.append(f"{name}: {'new' if name in found else 'no longer drawn'}")
        elif found[name] != known[name] and (same_versions or not name.endswith(PICTURES)):
            lines.append(f"{name}: differs")
        if (path := reference / name).exists() and digest([path]) != known.get(name):
            lines.append(f"{name}: the committed file differs from the checksum")
    return lines


def write(found: dict[str, str], drawn: Path, reference: Path = REFERENCE) -> None:
    """Keeps the checksums, and of what was drawn the files that are committed."""
    for name in found:
        if (reference / name).exists():
            shutil.copyfile(drawn / name, reference / name)
    recorded = {"drawn_by": drawn_by(), "files": found}
    text = json.dumps(recorded, indent=1, sort_keys=True) + "\n"
    (reference / CHECKSUMS).write_text(text, encoding="utf-8")


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
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch) / "reference"
        found = draw(drawn)
        if options.write:
            write(found, drawn)
            print(f"{REFERENCE / CHECKSUMS}: {len(found)} files")
            return 0
        lines = differences(found)
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{len(found)} files drawn, {len(lines)} differ from {REFERENCE / CHECKSUMS}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
