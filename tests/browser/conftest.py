"""The report of the recorded rows, made once and opened in a headless Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.load import REFERENCE, read_inputs
from analysis.report import page as made
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
