"""The report made once from the recorded rows, opened in a headless Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.__main__ import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "outputs" / "reference"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A test container has neither a sandbox nor a GPU; nothing may be fetched behind the page's back.
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update",
            "--disable-sync"]  # fmt: skip
DESK, PHONE, SMALL = (1280, 900), (390, 844), (360, 740)


@dataclass(frozen=True)
class Opened:
    """A page, and what happened on it that nobody asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: CHROMIUM's, the system's, or playwright's own."""
    reason = "needs playwright (pip install -c constraints.txt playwright)"
    api = pytest.importorskip("playwright.sync_api", reason=reason)
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as playwright:
        path = found or playwright.chromium.executable_path
        if not Path(path).is_file():
            pytest.skip("needs Chromium: set CHROMIUM to it, or run `playwright install chromium`")
        chromium = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the recorded rows."""
    return make(REFERENCE, tmp_path_factory.mktemp("report"))


def make(rows: Path, out: Path) -> Path:
    """Runs the real command and returns the page."""
    before = Path.cwd()
    os.chdir(ROOT)  # counts lie in outputs/reference/counts of the checkout
    try:
        assert main(["report", "--rows", str(rows), "--out", str(out)]) == 0
    finally:
        os.chdir(before)
    return out / "report.html"


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Open]:
    """Opens the report (or another file) in a context of its own."""
    contexts: list[Any] = []

    def open_page(
        scheme: str = "light", size: tuple[int, int] = DESK, file: Path = report, **more: Any
    ) -> Opened:
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, reduced_motion="reduce", **more
        )
        contexts.append(context)
        seen = Opened(context.new_page())
        seen.page.on("console", lambda message: seen.complaints.append(message.text))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(file.as_uri())
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(opened: Open) -> Iterator[Page]:
    """The report on a desk's screen, in light colours; what the console says fails the test."""
    seen = opened()
    yield seen.page
    assert seen.complaints == []
