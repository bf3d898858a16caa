"""Pictures within a page: colours for dark paper, ids of their own, nothing that leaks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import style
from analysis.figures.page import Canvas
from analysis.figures.style import BLUSH, FAINT, INK, MUTED, STYLES
from analysis.report.colors import DARK_PAPER, LEGIBLE, contrast, dark_of, declarations
from analysis.report.inline import SETTINGS, Inlined, inlined

COLORS = st.from_regex(r"#[0-9a-f]{6}", fullmatch=True)


@given(COLORS)
def test_ink_is_legible_on_dark_paper_and_paper_stays_dark(color: str) -> None:
    dark = dark_of(color)
    assert re.fullmatch("#[0-9a-f]{6}", dark)
    seen = contrast(dark, DARK_PAPER)
    assert seen >= LEGIBLE or (contrast(color, "#ffffff") < 2 and seen < 2.5)


def test_the_palette_keeps_its_order_of_contrast_on_dark_paper() -> None:
    quiet = [contrast(dark_of(c), DARK_PAPER) for c in ("#ffffff", FAINT, MUTED, INK)]
    assert quiet == sorted(quiet)
    assert contrast(dark_of(BLUSH), DARK_PAPER) < 1.5
    assert len({dark_of(style.color) for style in STYLES.values()}) == len(STYLES)


def test_contrast_is_wcags() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def drawn(name: str, text: str = "a <b> & $x$") -> Inlined:
    with matplotlib.rc_context(style.theme() | SETTINGS):
        sheet = Canvas((4, 2))
        sheet.text(0.02, 0.95, "title")
        ax = sheet.add_axes((0.2, 0.2, 0.6, 0.6))
        ax.plot([0, 1], [0, 1], marker="o", color="#d55e00", label="line", gid="rows:torch")
        ax.set_title(text)
        return inlined(sheet, name, "what it shows", ["title"])


def test_ids_are_the_pictures_own_and_references_find_them() -> None:
    root = ElementTree.fromstring(drawn("D-fig1").svg)
    ids = {e.attrib["id"] for e in root.iter() if "id" in e.attrib}
    assert ids
    assert all(name.startswith("D-fig1-") for name in ids)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", drawn("D-fig1").svg))
    assert used
    assert used <= ids


def test_it_has_no_style_sheet_no_metadata_and_its_colors_are_variables() -> None:
    picture = drawn("D-fig1")
    assert "<style" not in picture.svg
    assert "metadata" not in picture.svg
    assert not re.findall(r"(?<!url\()#[0-9a-f]{6}\b", picture.svg)
    assert "var(--c-d55e00)" in picture.svg
    assert "--c-d55e00:light-dark(#d55e00," in declarations(picture.colors)


def test_text_stays_text_and_what_stands_beside_is_left_out() -> None:
    picture = drawn("D-fig1")
    root = ElementTree.fromstring(picture.svg)
    words = ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]
    assert "a <b> & $x$" in words
    assert "title" not in words
    assert root.attrib["aria-label"] == "what it shows"


def test_margins_are_cut_to_the_ink() -> None:
    _, top, width, height = drawn("D-fig1", text="").frame
    assert top > 0.1  # the title's place
    assert width < 0.75
    assert height < 0.85
