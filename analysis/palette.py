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


Marker = str | tuple[int, int, int]  # matplotlib's letter, or rays, 1 for a star, and degrees


@dataclass(frozen=True)
class Look:
    """How a variant looks: a colour and a matplotlib marker."""

    color: str
    marker: Marker

    @property
    def size(self) -> float:
        """Points across, so that markers of every form weigh the same to the eye."""
        if isinstance(self.marker, tuple):
            return 7.4
        return {"*": 8.0, "P": 6.6, "X": 6.4, "d": 6.0, "D": 4.7, "s": 5.0}.get(self.marker, 5.6)

    @property
    def text_color(self) -> str:
        """Its colour a step towards ink, for letters that stay legible where it is light."""
        (r, g, b), (x, y, z) = to_rgb(self.color), to_rgb(INK)
        return to_hex((0.62 * r + 0.38 * x, 0.62 * g + 0.38 * y, 0.62 * b + 0.38 * z))


# Relatives share a hue, dark and light. The hues stay apart under the three kinds of colour
# blindness, and each marker is used once, so that a figure survives a grey print.
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
        "copy": Look("#3a3f47", "d"),
        "copy_triton": Look("#8b929c", "h"),
    }
)
FURTHER_COLORS = ("#a50f3c", "#4d9221", "#5e3fbe", "#1b9aaa", "#e0526e", "#8a8d0f")
FURTHER_MARKERS: tuple[Marker, ...] = (
    "H",
    "8",
    (4, 1, 0),  # stars of so many rays: symbols would need text to be read as mathematics
    (6, 1, 0),
    (8, 1, 0),
    (3, 1, 0),
    (3, 1, 180),
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
