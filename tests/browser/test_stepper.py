"""The stepper as a reader uses it: buttons, slider, keys and choices walk the recorded trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from analysis.load import COUNTED, load_records
from analysis.stepper import stepper_data
from tests.browser.conftest import PHONE, ROOT, Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
CELLS = "table.grid tbody td"
WALK = """() => {
  const next = document.querySelector("#stepper [data-go=next]"), sentences = [];
  for (;;) {
    sentences.push(document.querySelector("#stepper .say").textContent);
    if (next.disabled) return sentences;
    next.click();
  }
}"""


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stepper_data(load_records(ROOT / COUNTED))["cases"]
    return found


def choose(page: Page, variant: str, shape: str = "2×8", block: str | None = "2") -> None:
    page.select_option("#stepper [name=variant]", variant)
    page.select_option("#stepper [name=shape]", shape)
    if block is not None and page.locator("#stepper [name=block]").is_enabled():
        page.select_option("#stepper [name=block]", block)


def step(page: Page) -> int:
    return int(page.locator("#stepper").get_attribute("data-step") or -1)


def said(page: Page) -> str:
    return page.locator("#stepper .say").inner_text()


def test_every_choice_steps_through_its_whole_trace(
    page: Page, cases: list[dict[str, Any]]
) -> None:
    for case in cases:
        choose(page, case["variant"], case["shape"], case["block"])
        assert page.input_value("#stepper [name=block]") == case["block"]
        assert page.evaluate(WALK) == [one["text"] for one in case["steps"]]
        assert step(page) == len(case["steps"]) - 1


def test_a_step_shows_what_it_moved_and_what_the_kernel_keeps(page: Page) -> None:
    choose(page, "online")
    for _ in range(2):
        page.click("#stepper [data-go=next]")
    assert page.locator(f"#stepper {CELLS}.now-load").all_inner_texts() == ["3", "0.5"]
    assert page.locator(f"#stepper {CELLS}.loaded").count() == 4
    names = page.locator("#stepper .variables dt").all_inner_texts()
    values = page.locator("#stepper .variables dd").all_inner_texts()
    kept = dict(zip(names, values, strict=True))
    assert (kept["maximum"], kept["total"]) == ("3", "1.4683")
    page.click("#stepper [data-go=last]")
    assert page.locator(f"#stepper {CELLS}.stored").count() == 16
    row = page.locator("#stepper .rows tbody tr").first.locator("td").all_inner_texts()
    assert row == ["3", "1.8637", "0.0036", "0.5366", "1.0000", "1.3690"]
    assert "loaded 2 of 2 MN" in page.locator("#stepper .traffic").inner_text()


def test_keys_and_slider_step_too_and_back_undoes(page: Page) -> None:
    choose(page, "online")
    page.focus("#stepper .stage")
    for key, at in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 24),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert step(page) == at
    assert page.locator(f"#stepper {CELLS}.loaded").count() == 0
    page.focus("#stepper [name=step]")
    page.keyboard.press("ArrowRight")
    assert step(page) == 1
    assert (
        page.get_attribute("#stepper [name=step]", "aria-valuetext")
        == f"Step 1 of 24. {said(page)}"
    )


def test_it_plays_and_pauses_and_stops_at_the_end(page: Page) -> None:
    page.clock.install()
    choose(page, "fused", block=None)
    button = page.locator("#stepper [data-go=play]")
    button.click()
    assert button.inner_text() == "Pause"
    assert page.get_attribute("#stepper .say", "aria-live") == "off"
    page.clock.run_for(2000)  # the steady pace of those who asked for less motion
    assert step(page) == 1
    button.click()
    page.clock.run_for(9000)
    assert (step(page), button.inner_text()) == (1, "Play")
    button.click()
    page.clock.run_for(60000)
    assert (step(page), button.inner_text()) == (4, "Play")
    assert page.get_attribute("#stepper .say", "aria-live") == "polite"


def test_only_recorded_combinations_can_be_chosen(page: Page, cases: list[dict[str, Any]]) -> None:
    choose(page, "online", "4×8", None)
    blocks = page.locator("#stepper [name=block] option").all_inner_texts()
    assert blocks == [c["block"] for c in cases if (c["variant"], c["shape"]) == ("online", "4×8")]
    choose(page, "naive", "3×8", None)
    assert page.locator("#stepper [name=block]").is_disabled()
    assert page.locator("#stepper table.grid").count() == 7


def test_on_a_phone_nothing_leaves_the_screen(opened: Open) -> None:
    page = opened("dark", PHONE).page
    choose(page, "naive", "3×8", None)
    page.click("#stepper [data-go=last]")
    wide = page.evaluate(
        "[...document.querySelectorAll('#stepper *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.className)"
    )
    assert wide == []
