"""One colour and one marker for each variant, the same in every figure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from matplotlib.colors import to_hex, to_rgb

INK = "#22262b"
MUTED = "#6b7280"
FAINT = "#e8eaee"
BLUSH = "#fbe9e4"


# matplotlib's letter, or corners, 1 for a star, and degrees: a symbol would have to be text
Marker = str | tuple[int, int, int]


@dataclass(frozen=True)
class Look:
    """How a variant looks: a colour and a matplotlib marker."""

    color: str
    marker: Marker

    @property
    def size(self) -> float:
        """Points across, so that markers of every form weigh the same to the eye."""
        if isinstance(self.marker, tuple):
            return 7.4 if self.marker[1] else 6.6
        return {"*": 8.0, "P": 6.6, "X": 6.4, "d": 6.0, "D": 4.7, "s": 5.0}.get(self.marker, 5.6)

    @property
    def text_color(self) -> str:
        """Its colour a step towards ink, for letters that stay legible where it is light."""
        (r, g, b), (x, y, z) = to_rgb(self.color), to_rgb(INK)
        return to_hex((0.62 * r + 0.38 * x, 0.62 * g + 0.38 * y, 0.62 * b + 0.38 * z))


# Relatives share a hue, dark and light. The hues stay apart under the three kinds of colour
# blindness, and each marker is used once, so that a figure survives a grey print. Markers that
# look alike belong to variants that no preset draws together.
LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "naive": Look("#7a5c3e", "s"),
        "naive_script": Look("#bd9a6c", "D"),
        "torch": Look("#d55e00", "o"),
        "compiled": Look("#f0a30a", "^"),
        "three_pass": Look("#8f2d78", "v"),
        "hybrid": Look("#d583c0", "p"),
        "hybrid_whole": Look("#4400a6", "<"),
        "hybrid_capped": Look("#b065f2", ">"),
        "online": Look("#00795c", "X"),
        "fused": Look("#1f4fa3", "P"),
        "fused_row": Look("#56a8e0", "*"),
        "online_l2": Look("#5ad25a", (4, 1, 45)),
        "fused_multirow": Look("#001eff", (5, 1, 180)),
        "cluster": Look("#870f1e", (4, 1, 0)),
        "cluster_reduce": Look("#d26978", (6, 1, 0)),
        "cooperative": Look("#ff3c96", (3, 1, 270)),
        "auto": Look("#d2001e", (8, 1, 0)),
        "compiled_max": Look("#874b0f", (5, 0, 180)),
        "liger": Look("#96962d", (3, 1, 180)),
        "flag_gems": Look("#0fd2e1", (3, 1, 90)),
        "quack": Look("#b4d23c", (4, 0, 45)),
        "copy": Look("#3a3f47", "d"),
        "copy_triton": Look("#8b929c", "h"),
    }
)
FURTHER_COLORS = ("#a50f3c", "#4d9221", "#5e3fbe", "#1b9aaa", "#e0526e", "#8a8d0f")
FURTHER_MARKERS: tuple[Marker, ...] = (
    "H",
    "8",
    (3, 1, 0),
    (7, 1, 0),
    (10, 1, 0),
    (6, 1, 30),
    (5, 1, 90),
)


def look_of(kernel: str) -> Look:
    """The look of a variant, whichever others are drawn beside it.

    A variant this page does not know gets one from its name alone, so it keeps it too.
    """
    if kernel in LOOKS:
        return LOOKS[kernel]
    number = zlib.crc32(kernel.encode())
    color = FURTHER_COLORS[number % len(FURTHER_COLORS)]
    return Look(color, FURTHER_MARKERS[number // 64 % len(FURTHER_MARKERS)])
