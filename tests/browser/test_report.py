"""The report of the recorded rows as a reader meets it: whole, alone, and legible everywhere.

It is made once and opened in a headless Chromium.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.load import REFERENCE, read_inputs
from analysis.report import render as made
from tests.analysis.report.test_report import Read, sound
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
FAULTS = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
MOST_BYTES = 3_000_000
OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true })"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SWITCHES = ["--no-sandbox", "--disable-gpu"]  # a test container has neither
DESK, PHONE = (1280, 900), (390, 844)
Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: CHROMIUM's, the system's, or playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (make test-browser)")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as playwright:
        path = found or playwright.chromium.executable_path
        if not Path(path).is_file():
            pytest.skip("needs Chromium: set CHROMIUM, or run `playwright install chromium`")
        chromium = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the recorded rows."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(made(read_inputs(ROOT / REFERENCE, None, "report")), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Browser, recorded: Path) -> Iterator[Open]:
    """Opens the report; what the console says, and anything that it loads, fails the test."""
    complaints: list[str] = []
    requests: list[str] = []
    pages: list[Page] = []

    def open_page(size: tuple[int, int] = DESK, scheme: Any = "light") -> Page:
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(recorded.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [recorded.as_uri()]


def test_it_is_one_file_of_at_most_3_mb_that_leads_to_each_operation(recorded: Path) -> None:
    assert recorded.stat().st_size <= MOST_BYTES
    found = Read(recorded.read_text(encoding="utf-8"))
    sound(found)
    for operation in ("softmax", "cross-entropy", "softmax-backward", "attention"):
        assert f"#of-{operation}" in found.all("href")
    assert all(one.get("alt") for one in found.elements if one.tag == "img")


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
