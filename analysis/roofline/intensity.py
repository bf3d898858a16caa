"""The classic roofline: Tflop/s against flop a byte, by the model's bytes and by DRAM's."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis import style
from analysis.lines import variant_order
from analysis.load import Key, Records, key_of
from analysis.margin import Name, write_names
from analysis.palette import FAINT, INK, MUTED, Look, look_of
from analysis.plate import Plate
from analysis.roofline import arithmetic
from analysis.selection import records_of
from analysis.sheet import mark
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters

SPAN = (0.1, 12.0)  # flop a byte: from naive in float32 to where the exponential unit takes over
BELOW = 6  # how far below its slowest marker the figure reaches; smaller shapes fall off it


def intensity(points: pd.DataFrame, gpu: str, evidence: Records, suffix: str) -> Plate | None:
    """The most measured dtype's softmax points of one card and protocol; None without any.

    Points at their launch floor are left out: neither memory nor arithmetic bounds them.
    """
    own = points[(points["operation"] != "copy") & (points["verdict"] != "launch")]
    if own.empty:
        return None
    dtype = own["dtype"].value_counts().index[0]
    own, card, first = own[own["dtype"] == dtype], card_of(gpu), own.iloc[0]
    measured = evidence.counters_of(gpu)
    l2 = l2_ceiling(points, card, measured)
    small = style.provenance(own, card.name, first["timer"], first["cache"], [arithmetic.STATED])
    keys = ["marker: largest M·N by model bytes, dots: others, smallest cut off",
            "open: by DRAM bytes" if measured else "no DRAM counters recorded"]  # fmt: skip
    keys += [] if l2 else ["no L2 ceiling: neither warm copy nor counters"]

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((0.088, 0.205, 0.60, 0.62))
        _draw(ax, own, measured, _ceilings(points, card, l2))

    subtitle = f"{card.name}  ·  {dtype}  ·  all shapes"
    small.append("  ·  ".join(keys))
    name = f"roofline_intensity-{suffix}"
    return Plate(name, "Roofline of softmax", subtitle, small, draw, gpu=gpu)


def l2_gbps(points: pd.DataFrame, card: Card) -> float | None:
    """L2's measured bandwidth: the fastest warm copy whose input and output fit in it."""
    if card.l2_bytes is None:
        return None
    fits = points["compulsory_bytes"] <= card.l2_bytes
    warm = points[fits & (points["operation"] == "copy") & (points["cache"] == "warm")]
    return None if warm.empty else float(warm["modelled_gbps"].max())


def l2_ceiling(
    points: pd.DataFrame, card: Card, measured: dict[Key, Counters]
) -> tuple[str, float] | None:
    """L2's name and GB/s: a warm copy's, else the most that counters saw between L2 and the SMs.

    The second is a lower bound, and named so; no vendor publishes the figure itself.
    """
    copied = l2_gbps(points, card)
    if copied is not None:
        return "L2 copy", copied
    seen = [
        (record.l2_to_sm_bytes + record.requested_store_bytes) / record.kernel_us / 1e3
        for record in measured.values()
        if record.l2_to_sm_bytes is not None and record.requested_store_bytes is not None
    ]
    return ("L2, most seen", max(seen)) if seen else None


def _ceilings(
    points: pd.DataFrame, card: Card, l2: tuple[str, float] | None
) -> list[tuple[str, float, bool]]:
    """Name, height and whether it slopes: GB/s where it does, else Gflop/s."""
    name, height = l2 or ("L2", None)
    known = [
        (name, height, True),
        ("DRAM datasheet", card.peak_gbps, True),
        ("DRAM copy", float(points["roof_gbps"].max()), True),
        ("fp32", arithmetic.fp32_gflops(card), False),
        ("exp unit", arithmetic.exponential_gflops(card), False),
    ]
    return [(name, height, slopes) for name, height, slopes in known if height is not None]


def _draw(
    ax: Axes,
    own: pd.DataFrame,
    measured: dict[Key, Counters],
    ceilings: list[tuple[str, float, bool]],
) -> None:
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    span = np.array(SPAN)
    top = max([h / 1e3 for _, h, slopes in ceilings if not slopes], default=0.0) or None
    names = []
    for name, height, slopes in ceilings:
        line = span * height / 1e3 if slopes else np.full(2, height / 1e3)
        measured_one = name == "DRAM copy"
        ax.plot(span, line, color=INK if measured_one else MUTED, lw=1.5 if measured_one else 1.0,
                ls="-" if measured_one else (0, (5, 2)), label=name, zorder=2)  # fmt: skip
        unit = f"{height:,.0f} GB/s" if slopes else f"{height / 1e3:,.0f} Tflop/s"
        names.append(Name(f"{name} {unit}", span[1], float(line[1]), Look(MUTED, "")))
    for variant in sorted(own["variant"].unique(), key=variant_order):
        names.append(_variant(ax, own[own["variant"] == variant], variant, measured))
    ax.set_xlim(*SPAN)
    slowest = min(name.y for name in names if name.style.marker)
    ax.set_ylim(slowest / BELOW, (top or ax.get_ylim()[1]) * 1.8)
    ax.xaxis.set_major_locator(FixedLocator([2.0**e for e in range(-3, 4)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"1/{1 / v:g}" if v < 1 else f"{v:g}"))
    ax.set_xlabel("intensity, flop a byte")
    style.value_axis(ax, "Tflop/s")
    ax.grid(axis="x", color=FAINT)
    write_names(ax, names)


def _variant(ax: Axes, mine: pd.DataFrame, variant: str, measured: dict[Key, Counters]) -> Name:
    look = look_of(variant.split(" ")[0])
    done = arithmetic.flops(mine["rows"].to_numpy(), mine["cols"].to_numpy())
    y = arithmetic.flops_per_us(mine) / 1e6
    x = done / mine["model_bytes"].to_numpy(dtype=float)
    ax.plot(x, y, ls="", marker=".", ms=2.2, color=look.color, alpha=0.4, zorder=2.6)
    mark(ax, x, y, records_of(mine))
    last = int(np.lexsort((mine["cols"], done))[-1])
    ax.plot(x[last], y[last], ls="", marker=look.marker, ms=look.size, mfc=look.color,
            mec="white", mew=0.6, label=variant, zorder=4)  # fmt: skip
    for i, row in enumerate(records_of(mine)):
        if (seen := measured.get(key_of(row))) is None:
            continue
        moved = done[i] / (seen.dram_read_bytes + seen.dram_write_bytes)
        ax.plot([x[i], moved], [y[i], y[i]], color=look.color, lw=0.6, zorder=2.7)
        ax.plot(moved, y[i], ls="", marker=look.marker, ms=0.8 * look.size, mfc="white",
                mec=look.color, mew=0.9, zorder=3.5)  # fmt: skip
    return Name(variant, float(x[last]), float(y[last]), look, whole=False)
