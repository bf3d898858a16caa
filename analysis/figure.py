"""A figure: which rows it wants, how it draws them, and its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from analysis import style
from analysis.lines import FLAG_NOTE
from analysis.palette import MUTED
from analysis.view import View, Wanted, view_of

WIDTH, HEIGHT, DPI = 5.8, 3.8, 240  # inches, dots an inch


@dataclass(frozen=True)
class Figure:
    """One figure of a source, drawn again.

    Attributes:
        id: Its file name, e.g. ``"d_fig1"``.
        title: What it shows, in a few words.
        wanted: The rows it wants.
        draw: Puts it on axes whose size axis is ready.
        note: A last remark for the small print.
    """

    id: str
    title: str
    wanted: Wanted
    draw: Callable[[Axes, View], None]
    note: str = ""

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        over = style.SYMBOLS[self.wanted.over]
        fixed = "M" if over == "N" else "N"
        return (
            f"{self.id} needs timed softmax rows of one {fixed} and dtype at two or more {over}, "
            f"best {fixed} = {self.wanted.at} {self.wanted.dtype}"
        )


def draw_files(figure: Figure, frame: pd.DataFrame, out: Path) -> list[Path]:
    """Writes ``<id>-<gpu>.svg`` and ``.png`` for each GPU whose rows allow it; returns them."""
    made = []
    for gpu in sorted(frame["gpu"].unique()):
        view = view_of(frame, gpu, figure.wanted)
        if view is None:
            continue
        with matplotlib.rc_context(style.theme()):
            canvas = render(figure, view)
            for kind in ("svg", "png"):
                path = out / f"{figure.id}-{slug(gpu)}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                canvas.savefig(path, dpi=DPI, metadata=metadata(figure, view, kind))
                made.append(path)
    return made


def render(figure: Figure, view: View) -> Canvas:
    """The figure on a canvas of its own; call it within ``style.theme()``."""
    canvas = Canvas(figsize=(WIDTH, HEIGHT), facecolor="white")
    ax = canvas.add_axes((0.088, 0.205, 0.652, 0.62))
    style.power_axis(ax, view)
    figure.draw(ax, view)
    style.headline(ax, figure.title, view)
    for i, line in enumerate(_small_print(figure, view)):
        canvas.text(0.02, 0.052 - 0.03 * i, line, fontsize=5.6, color=MUTED)
    return canvas


def metadata(figure: Figure, view: View, kind: str) -> dict[str, str | None]:
    """The title and small print for the file itself; no date, so that a redraw is the same file."""
    told = "\n".join(_small_print(figure, view))
    if kind == "svg":
        return {"Title": f"{figure.id}: {figure.title}", "Description": told, "Date": None}
    return {"Title": f"{figure.id}: {figure.title}", "Description": told}


def slug(gpu: str) -> str:
    """A device's name as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def _small_print(figure: Figure, view: View) -> list[str]:
    own = view.points[view.points["operation"] != "copy"]
    notes = [FLAG_NOTE] if own["above_roof"].eq(True).any() else []
    return style.small_print(view, notes + ([figure.note] if figure.note else []))
