"""E-fig1: bandwidth of E's kernel against torch, and their ratio, M = 4096, float32."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis import levels, style
from analysis.estimate import comparable, speedups
from analysis.figure import AXES, Figure
from analysis.figures.bandwidth import bandwidth
from analysis.figures.d_fig1 import WIDTHS
from analysis.lines import lines
from analysis.margin import Name, write_names
from analysis.palette import INK, LOOKS, MUTED, Look
from analysis.published import sources
from analysis.selection import Query, Selection
from experiments.data.cards import card_of

SHOWN = ("torch", "fused_row", "copy", "copy_triton")
LEFT, _, WIDE, _ = AXES
GAP = 0.105  # between names, in heights of a panel


def draw(ax: Axes, view: Selection) -> None:
    """GB/s above with the peak of E's own card; below, torch's time over that of E's kernel."""
    sheet = ax.get_figure(root=True)
    assert sheet is not None
    ax.set_position((LEFT, 0.49, WIDE, 0.365))
    below = sheet.add_axes((LEFT, 0.17, WIDE, 0.22))
    names = bandwidth(ax, view) + _peak(ax, view)
    write_names(ax, levels.reachable(ax, names), GAP)
    ax.set_xlabel("")
    style.power_axis(below, view)
    ratio = lines(below, speedups(view, "torch"), y="speedup")
    below.axhline(1, color=INK, lw=1.2, zorder=2.4, label="torch")
    ratio.append(Name("torch = 1", view.sizes[-1], 1, Look(INK, "")))
    ratio += levels.ratios(below, view, "E", over=("torch",))
    below.set_ylim(0, None)
    style.value_axis(below, "time of torch / time")
    write_names(below, ratio, 1.7 * GAP)


def _peak(ax: Axes, view: Selection) -> list[Name]:
    """The datasheet's peak of E's card: what E could have seen at most."""
    card = card_of(sources()["E"].card or "")
    if card.peak_gbps is None or not view.exact:
        return []
    ax.axhline(card.peak_gbps, color=MUTED, lw=1.0, ls=levels.DASH, label="E's card", zorder=2)
    text = f"E's card {card.peak_gbps:,.0f}"
    return [Name(text, view.sizes[-1], card.peak_gbps, Look(MUTED, ""))]


E_FIG1 = Figure(
    "e_fig1",
    "One program a row against torch",
    Query(4096, "float32", sizes=WIDTHS, without=tuple(k for k in LOOKS if k not in SHOWN)),
    draw,
    note="dotted: E's claim, and the peak of its RTX 3090 Ti, of which it prints no numbers",
    caption="E's figure: bandwidth of one program a row against torch, and their ratio beside E's "
    "“up to 3×”; E's own curve, of an RTX 3090 Ti, is not given in numbers.",
    size=(5.8, 4.8),
    allowed=comparable("torch"),
    besides="torch among them",
)
