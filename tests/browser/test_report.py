"""The report of the recorded rows as a reader meets it: whole, alone, and legible everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.report.test_report import Read, sound
from tests.browser.conftest import DESK, PHONE, Open

pytestmark = pytest.mark.browser
FAULTS = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
MOST_BYTES = 3_000_000
OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true })"


def test_it_is_one_file_of_at_most_3_mb_that_leads_to_each_operation(recorded: Path) -> None:
    assert recorded.stat().st_size <= MOST_BYTES
    found = Read(recorded.read_text(encoding="utf-8"))
    sound(found)
    for operation in ("softmax", "cross-entropy", "softmax-backward", "attention"):
        assert f"#of-{operation}" in found.all("href")
    assert all(given.get("alt") for tag, given in found.tags if tag == "img")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_is_drawn_over_anything_and_all_text_is_legible(
    opened: Open, size: tuple[int, int], scheme: str
) -> None:
    page = opened(size, scheme)
    for change in ("0", OPEN):
        page.evaluate(change)
        assert page.evaluate(FAULTS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_claim_stands_beside_its_figure_or_on_a_phone_below_it(
    opened: Open, size: tuple[int, int]
) -> None:
    page = opened(size)
    picture = page.locator("[id='C-fig3'] img").first.bounding_box()
    claim = page.locator("article[id^='C2-']").first.bounding_box()
    assert picture
    assert claim
    beside = claim["x"] >= picture["x"] + picture["width"] and claim["y"] < picture["y"] + 30
    assert beside == (size == DESK)
    assert beside or claim["y"] > picture["y"] + picture["height"]


def test_the_filter_leaves_what_mentions_all_of_its_words(opened: Open) -> None:
    page = opened()
    page.locator("#filter").fill("spill register")
    shown, all_items = page.locator(".item:visible"), page.locator(".item").count()
    assert 0 < shown.count() < all_items
    for text in shown.all_text_contents():
        assert "spill" in text.lower()
        assert "register" in text.lower()
    assert page.locator("#found").inner_text() == f"{shown.count()} of {all_items}"


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_stepper_steps_by_button_key_and_slider_and_nothing_moves(
    opened: Open, size: tuple[int, int]
) -> None:
    page = opened(size)
    stepper = page.locator("#stepper")
    count, shown = stepper.locator("output"), stepper.locator(".step.shown .say")
    heights = [stepper.bounding_box()]
    assert count.inner_text() == "step 0 of 16"
    stepper.locator("[data-go=next]").click()
    assert shown.inner_text().startswith("Row 1 reads columns 1 to 2. The maximum is 2.0")
    stepper.focus()
    for key, step in (("ArrowRight", 2), ("End", 16), ("ArrowLeft", 15), ("Home", 0)):
        page.keyboard.press(key)
        heights.append(stepper.bounding_box())
        assert count.inner_text() == f"step {step} of 16"
    stepper.locator("input").fill("16")
    assert stepper.locator(".step.shown .known td").nth(2).inner_text() == "1.000"
    assert "Row 2 reads columns 7 to 8 again" in shown.inner_text()
    assert len({box["height"] for box in heights if box}) == 1
