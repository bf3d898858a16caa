"""A canvas as SVG that can stand in a page: ids of its own, colours as variables, no margins.

Each colour is a CSS variable with a counterpart on dark paper.
"""

from __future__ import annotations

import colorsys
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure as Canvas

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
HREF = f"{{{XLINK}}}href"
SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes less space
    "text.parse_math": False,  # a dollar in a name is a dollar
}
FONTS = "'DejaVu Sans', Verdana, 'Bitstream Vera Sans', sans-serif"  # alike in their widths
MARGIN = 0.08  # inches
PAPER, DARK_PAPER = "#ffffff", "#171a1f"
PALE = 0.85  # lightness (HLS) from which a colour is paper, grid or shade, not ink
GREY = 0.13  # spread of its channels up to which a colour is a grey
LEGIBLE = 4.5  # contrast that WCAG 2 asks of text; lines may as well keep it
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_URL = re.compile(r"url\(#([^)]+)\)")


@dataclass(frozen=True)
class Inlined:
    """A picture's markup and the colours it uses."""

    svg: str  # the element, with ids that start with the picture's own name
    colors: frozenset[str]  # hexadecimal, each a CSS variable of the page (see `variable`)
    width: float  # in points
    frame: tuple[float, float, float, float]  # left, top, width, height: shares of the canvas

    def place(self, left: float, top: float) -> tuple[float, float]:
        """Where a place of the canvas lies in the frame."""
        x, y, width, height = self.frame
        return (left - x) / width, (top - y) / height


def inlined(canvas: Canvas, name: str, label: str, beside: Sequence[str] = ()) -> Inlined:
    """The canvas as markup; call it within ``style.theme()`` and ``SETTINGS``.

    Args:
        canvas: What was drawn.
        name: Starts every id, so that two pictures of a page do not share one.
        label: What a screen reader says in place of the picture.
        beside: Texts of the canvas that stand beside the picture instead: title, small print.
    """
    for text in list(canvas.texts):
        if text.get_text() in beside:
            text.remove()
    drawn = io.BytesIO()
    canvas.savefig(drawn, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(drawn.getvalue())
    frame = _frame(canvas)
    colors, ids = set[str](), {""}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)  # a style would hold for the whole page
        _localize(parent, name, colors)
        if (own := parent.attrib.get("id", "")) in ids:
            parent.attrib.pop("id", None)  # the line of a variant in a second pair of axes
        ids.add(own)
        parent.text, parent.tail = _unindented(parent.text), _unindented(parent.tail)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    sizes = [share * full for share, full in zip(frame, (width, height) * 2, strict=True)]
    root.attrib["viewBox"] = " ".join(f"{size:.2f}" for size in sizes)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return Inlined(ElementTree.tostring(root, "unicode"), frozenset(colors), sizes[2], frame)


def _frame(canvas: Canvas) -> tuple[float, float, float, float]:
    """The part of the canvas that holds ink, with a margin."""
    box, (width, height) = canvas.get_tightbbox(), canvas.get_size_inches()
    left, right = max(box.x0 - MARGIN, 0), min(box.x1 + MARGIN, width)
    top, bottom = min(box.y1 + MARGIN, height), max(box.y0 - MARGIN, 0)
    return left / width, 1 - top / height, (right - left) / width, (top - bottom) / height


def _localize(element: ElementTree.Element, name: str, colors: set[str]) -> None:
    attributes = element.attrib
    for key, value in list(attributes.items()):
        if key == "id":
            attributes[key] = f"{name}-{value}"
        elif key == HREF and value.startswith("#"):
            attributes[key] = f"#{name}-{value[1:]}"
        elif key in ("d", "points", "x", "y", "transform", "width", "height"):
            attributes[key] = _LONG.sub(_rounded, value).replace("\n", " ").strip()
        elif key in ("style", "clip-path", "fill", "stroke"):
            colors |= set(_COLOR.findall(value))
            value = _URL.sub(rf"url(#{name}-\1)", value)
            value = _COLOR.sub(lambda found: f"var({variable(found[0])})", value)
            attributes[key] = value.replace("'DejaVu Sans'", FONTS)


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _unindented(text: str | None) -> str | None:
    return text if text and text.strip() else None


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
    light, dark = (
        sum(
            weight * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
            for weight, c in zip((0.2126, 0.7152, 0.0722), to_rgb(color), strict=True)
        )
        for color in (one, other)
    )
    return (max(light, dark) + 0.05) / (min(light, dark) + 0.05)


def variable(color: str) -> str:
    """The name of a colour's CSS variable."""
    return f"--c-{color.removeprefix('#')}"


def declarations(colors: Iterable[str]) -> str:
    """CSS that declares every colour's variable, with its counterpart on dark paper."""
    each = sorted(set(colors))
    return "".join(f"{variable(c)}:light-dark({c},{dark_of(c)});" for c in each)


def _hls(hue: float, light: float, saturation: float) -> str:
    return to_hex(colorsys.hls_to_rgb(hue, min(light, 1.0), saturation))
