"""The report of the recorded rows as a reader meets it: whole, alone, and legible everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.report.reading import Read
from tests.browser.conftest import DESK, PHONE, Open

pytestmark = pytest.mark.browser
FAULTS = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
MOST_BYTES = 3_000_000
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true })"


def test_it_is_one_file_of_at_most_3_mb_with_each_heading_once(recorded: Path) -> None:
    assert recorded.stat().st_size <= MOST_BYTES
    found = Read(recorded.read_text(encoding="utf-8"))
    assert len(found.headings) == len(set(found.headings))
    ids, links = found.all("id"), {at[1:] for at in found.all("href") if at.startswith("#")}
    assert len(ids) == len(set(ids))
    assert links <= set(ids)
    for operation in ("softmax", "cross_entropy", "softmax_backward", "attention"):
        assert f"of-{operation}" in links
    assert all(given.get("alt") for tag, given in found.tags if tag == "img")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_is_drawn_over_anything_and_all_text_is_legible(
    opened: Open, size: tuple[int, int], scheme: str
) -> None:
    page = opened(size, scheme)
    assert page.evaluate(FAULTS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.evaluate(OPEN_ALL)
    assert page.evaluate(FAULTS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_claim_stands_beside_its_figure_on_a_desk_and_below_it_on_a_phone(opened: Open) -> None:
    def boxes(size: tuple[int, int]) -> tuple[dict[str, float], dict[str, float]]:
        page = opened(size)
        picture = page.locator("[id='C-fig3'] img").first.bounding_box()
        claim = page.locator("#C2").bounding_box()
        assert picture is not None
        assert claim is not None
        return dict(picture), dict(claim)

    picture, claim = boxes(DESK)
    assert claim["x"] >= picture["x"] + picture["width"]
    assert abs(claim["y"] - picture["y"]) < 30
    picture, claim = boxes(PHONE)
    assert claim["y"] > picture["y"] + picture["height"]


def test_the_filter_leaves_what_mentions_all_of_its_words(opened: Open) -> None:
    page = opened()
    page.locator("#filter").fill("spill register")
    shown = page.locator(".item:visible")
    assert 0 < shown.count() < page.locator(".item").count()
    for text in shown.all_text_contents():
        assert "spill" in text.lower()
        assert "register" in text.lower()
    assert page.locator("#found").inner_text() == (
        f"{shown.count()} of {page.locator('.item').count()}"
    )
    page.locator("#filter").fill("")
    assert page.locator("#C3").is_visible()


def test_the_menu_leads_to_each_section(opened: Open) -> None:
    page = opened()
    for link in page.locator("nav a").all():
        link.click()
        name = (link.get_attribute("href") or "")[1:]
        top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", name)
        assert -2 <= top < DESK[1], name


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_stepper_steps_by_button_key_and_slider_and_nothing_moves(
    opened: Open, size: tuple[int, int]
) -> None:
    page = opened(size)
    stepper = page.locator("#stepper")
    count, shown = stepper.locator("output"), stepper.locator(".step.shown .say")
    heights = {stepper.bounding_box()["height"]}  # type: ignore[index]
    assert count.inner_text() == "step 0 of 16"
    stepper.locator("[data-go=next]").click()
    assert shown.inner_text().startswith("Row 1 reads columns 1 to 2. The maximum is 2.0")
    assert stepper.locator(".step.shown td.now").count() == 2
    stepper.focus()
    for key, step in (("ArrowRight", 2), ("End", 16), ("ArrowLeft", 15), ("Home", 0)):
        page.keyboard.press(key)
        heights.add(stepper.bounding_box()["height"])  # type: ignore[index]
        assert count.inner_text() == f"step {step} of 16"
    slider = stepper.locator("input")
    slider.fill("16")
    assert stepper.locator(".step.shown .known td").nth(2).inner_text() == "1.000"
    assert "Row 2 reads columns 7 to 8 again" in (slider.get_attribute("aria-valuetext") or "")
    assert stepper.locator("[data-go=last]").get_attribute("aria-disabled") == "true"
    assert len(heights) == 1
