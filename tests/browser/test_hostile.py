"""Rows may hold anything: what they hold is shown as text, and nothing of it runs or loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.data.rows import Row
from tests.analysis.plausible import paper, row, unsupported, write
from tests.browser.conftest import Open, make

pytestmark = pytest.mark.browser

MARKUP = (
    "</script><script>window.taken=1</script><img src='https://example.invalid/x' "
    'onerror="window.taken=2">{{ 7 * 7 }}${window.taken=3}<!--'
)
URL = "javascript:window.taken=4"


def hostile() -> list[Row]:
    """Plausible rows, and one variant and GPU whose every text is an attack."""
    gpu = f"Card {MARKUP}"
    environment = {"torch": MARKUP, "commit": URL, "python": {"<b>": [MARKUP]}}
    rows = [r.model_copy(update={"gpu": gpu, "environment": environment}) for r in paper()]
    attacker = f"a{MARKUP}"
    rows += [
        row(attacker, n, gpu=gpu, params={"<i>": MARKUP}, key=MARKUP + str(n), suspect=[MARKUP],
            environment=environment, sweep=MARKUP)
        for n in (256, 1024, 4096)
    ]  # fmt: skip
    refused = unsupported("fused", 8192, gpu=gpu, environment=environment)
    return [*rows, refused.model_copy(update={"reason": MARKUP})]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return make(write(folder / "rows", hostile()), folder / "out")


def test_nothing_that_rows_hold_runs_or_loads(opened: Open, attacked: Path) -> None:
    seen = opened(file=attacked)
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for canvas in page.locator("[data-points]").all():
        canvas.focus()
        for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
    assert page.evaluate("window.taken") is None
    assert seen.complaints == []
    assert len(seen.requests) == 1
    assert page.locator("img, iframe, object, [onerror], [onload]").count() == 0
    links = page.evaluate("[...document.links].map(a => a.protocol)")
    assert set(links) == {"file:"}


def test_it_is_shown_as_it_stands(opened: Open, attacked: Path) -> None:
    page = opened(file=attacked).page
    shown = page.locator("main").inner_text()
    assert "<script>window.taken=1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    canvas = page.locator("[id='A-fig2'] .canvas")
    canvas.focus()
    read = []
    for _ in range(40):
        page.keyboard.press("ArrowDown")
        read.append(page.locator("#reading").inner_text())
    assert any("<img src='https://example.invalid/x'" in text for text in read)
