"""Figures read point by point: by pointer, keyboard and finger, each time the row that is drawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from analysis.load import load
from tests.browser.conftest import PHONE, REFERENCE, Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return load(REFERENCE)


def reading_of(page: Page) -> dict[str, str]:
    """What the reading says, by its heads."""
    heads = page.locator("#reading dt").all_inner_texts()
    return dict(zip(heads, page.locator("#reading dd").all_inner_texts(), strict=True))


def series(page: Page, figure: str) -> list[dict[str, Any]]:
    points = json.loads(page.locator("#points").text_content() or "")
    found: list[dict[str, Any]] = points["pictures"][figure]
    return found


def lone_point(page: Page, figure: str, variant: str) -> list[float]:
    """The point of a variant that is farthest from all others: nothing else can be meant there."""
    every = [(p, s["name"]) for s in series(page, figure) for p in s["points"]]

    def room(point: list[float]) -> float:
        others = [p for p, _ in every if p is not point]
        return min((p[0] - point[0]) ** 2 + (p[1] - point[1]) ** 2 for p in others)

    return max((p for p, name in every if name == variant), key=room)


def place(page: Page, figure: str, point: list[float]) -> tuple[float, float]:
    canvas = page.locator(f"[id='{figure}'] .canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    return box["x"] + point[0] * box["width"], box["y"] + point[1] * box["height"]


@pytest.mark.parametrize(("figure", "variant"), [("A-fig2", "online"), ("E-fig1", "torch")])
def test_the_pointer_reads_the_row_that_was_recorded(
    page: Page, frame: pd.DataFrame, figure: str, variant: str
) -> None:
    point = lone_point(page, figure, variant)
    x, y = place(page, figure, point)
    page.mouse.move(x + 3, y - 2)  # near it is enough
    seen = reading_of(page)
    assert seen["variant"] == variant
    (row,) = frame[frame["key"] == seen["key"]].to_dict("records")
    assert seen["M×N"] == f"{row['rows']}×{row['cols']}"
    assert seen["dtype"] == row["dtype"]
    assert float(seen["time"].split(" ")[0].replace(",", "")) == pytest.approx(
        row["time_us"], rel=5e-4
    )
    assert seen["bandwidth"] == f"{row['effective_gbps']:,.0f} GB/s"
    assert seen["of the roof"].startswith(f"{100 * row['fraction_of_roof']:.1f} %")
    assert seen["status"] == "ok"
    page.mouse.move(5, 5)
    assert not page.locator("#reading").is_visible()


def test_arrow_keys_walk_along_a_line_and_to_its_neighbour(page: Page) -> None:
    canvas = page.locator("[id='D-fig1'] .canvas")
    canvas.focus()
    page.keyboard.press("Home")
    first = reading_of(page)
    page.keyboard.press("ArrowRight")
    second = reading_of(page)
    assert second["variant"] == first["variant"]
    assert int(second["M×N"].split("×")[1]) > int(first["M×N"].split("×")[1])
    page.keyboard.press("ArrowDown")
    other = reading_of(page)
    assert other["variant"] != first["variant"]
    assert other["M×N"] == second["M×N"]
    page.keyboard.press("Escape")
    assert not page.locator("#reading").is_visible()


def test_a_finger_reads_a_point_on_a_phone(opened: Open) -> None:
    page = opened(size=PHONE, has_touch=True).page
    point = lone_point(page, "A-fig2", "online")
    x, y = place(page, "A-fig2", point)
    page.touchscreen.tap(x, y)
    assert reading_of(page)["variant"] == "online"
    box = page.locator("#reading").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE[0]
