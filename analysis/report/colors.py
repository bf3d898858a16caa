"""What each colour of a figure becomes on dark paper."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable

from matplotlib.colors import to_hex, to_rgb

PAPER, DARK_PAPER = "#ffffff", "#171a1f"
PALE = 0.85  # lightness (HLS) from which a colour is paper, grid or shade, not ink
GREY = 0.13  # spread of its channels up to which a colour is a grey
LEGIBLE = 4.5  # contrast that WCAG 2 asks of text; lines may as well keep it


def dark_of(color: str) -> str:
    """The colour's counterpart on dark paper: pale turns dark, ink turns light, hues stay."""
    if color == PAPER:
        return DARK_PAPER
    hue, light, saturation = colorsys.rgb_to_hls(*to_rgb(color))
    spread = max(to_rgb(color)) - min(to_rgb(color))
    if light >= PALE:
        return _hls(hue, 0.11 + 1.2 * (1 - light), 0.3 * saturation)
    if spread <= GREY:
        light = 0.92 - 0.55 * light
    while contrast(_hls(hue, light, saturation), DARK_PAPER) < LEGIBLE:
        light += 0.01
    return _hls(hue, light, saturation)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21, as WCAG 2 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def variable(color: str) -> str:
    """The name of a colour's CSS variable."""
    return f"--c-{color.removeprefix('#')}"


def declarations(colors: Iterable[str]) -> str:
    """CSS that declares every colour's variable, with its counterpart on dark paper."""
    each = sorted(set(colors))
    return "".join(f"{variable(c)}:light-dark({c},{dark_of(c)});" for c in each)


def _hls(hue: float, light: float, saturation: float) -> str:
    return to_hex(colorsys.hls_to_rgb(hue, min(light, 1.0), saturation))


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
