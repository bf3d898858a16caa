"""The page as a reader meets it: whole, alone, legible in both schemes and at every width."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESK, PHONE, SMALL, Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

IDS = ("A-fig1", "A-tab1", "A-fig2", "B-fig1", "B-tab1", "C-fig1", "C-fig2", "C-fig3", "C-ex",
       "C-viz", "C-prof", "D-fig1", "D-test", "E-fig1")  # fmt: skip

PALE = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")


def test_it_opens_without_a_complaint_and_loads_nothing(opened: Open) -> None:
    seen = opened()
    assert seen.complaints == []
    assert len(seen.requests) == 1  # the file itself
    assert seen.page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_its_policy_stops_what_would_load(opened: Open) -> None:
    seen = opened()
    refused = seen.page.evaluate(
        "() => fetch('https://example.invalid/').then(() => 'loaded', () => 'refused')"
    )
    assert refused == "refused"
    assert any("Content Security Policy" in text for text in seen.complaints)


def test_every_id_of_the_sources_is_there_once_and_linked(page: Page) -> None:
    for name in IDS:
        assert page.locator(f"[id='{name}']").count() == 1, name
        page.locator(f"#sources td a[href='#{name}']").click()
        assert page.locator(f"[id='{name}']").bounding_box() is not None
        top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", name)
        assert -2 <= top < DESK[1], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(opened: Open, scheme: str) -> None:
    page = opened(scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate(PALE) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)])
def test_axe_finds_nothing(opened: Open, scheme: str, size: tuple[int, int]) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="needs axe-playwright-python (pip install -c constraints.txt axe-playwright-python)",
    )
    page = opened(scheme, size, bypass_csp=True).page  # the policy stops axe's own script
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


def test_what_is_longer_than_a_screen_is_folded(page: Page) -> None:
    tall = page.evaluate(
        "[...document.querySelectorAll('main table')].filter(e => e.offsetHeight > innerHeight && "
        "!e.closest('details:not([open])')).map(e => e.textContent.slice(0, 80))"
    )
    assert tall == []
    opening = page.locator("#result").inner_text()
    assert re.search(r"On NVIDIA H200, auto is 1\.\d+ times as fast as the fastest", opening)
    for name in ("Our own claims", "Noise floor", "Card to card"):
        assert name in opening
    assert page.locator("#sources tbody tr").count() == 5


def test_schemes_differ_and_the_button_overrules_the_system(opened: Open) -> None:
    def colors(page: Page) -> list[str]:
        return page.evaluate(
            "['body', '#A-fig2 .scroll', '#A-fig2 text', '#A-fig2 path'].map(at => { const s = "
            "getComputedStyle(document.querySelector(at)); return s.backgroundColor + s.fill; })"
        )

    light, dark = opened("light").page, opened("dark").page
    assert all(a != b for a, b in zip(colors(light), colors(dark), strict=True))
    for name in ("light", "dark"):
        dark.get_by_role("button", name=re.compile("Colours")).click()
        assert colors(dark) == colors({"light": light, "dark": opened("dark").page}[name])


@pytest.mark.parametrize("size", [SMALL, PHONE, (768, 1024), DESK])
def test_no_width_scrolls_sideways(opened: Open, size: tuple[int, int]) -> None:
    page = opened(size=size).page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_it_can_be_walked_by_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    boxes = page.evaluate("[...document.querySelectorAll('main .scroll')].filter(e => "
                          "e.scrollWidth > e.clientWidth && e.tabIndex < 0 && "
                          "!e.querySelector('[tabindex]')).length")  # fmt: skip
    assert boxes == 0
    names = page.evaluate("[...document.querySelectorAll('svg[role=img]')].map(e => e.ariaLabel)")
    assert names
    assert all(names)


def test_print_shows_claims_in_light_colours_without_what_needs_a_screen(opened: Open) -> None:
    page = opened("dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"
    assert not page.locator("nav").is_visible()
    assert page.locator("details.claim dl").first.evaluate("e => e.offsetHeight") > 0


def test_it_stands_without_scripts(opened: Open, report: Path) -> None:
    page = opened(java_script_enabled=False).page
    assert page.locator("#A-fig2 svg").is_visible()
    assert not page.locator("#theme").is_visible()
    assert not page.locator("#reading").is_visible()
