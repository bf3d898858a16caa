"""Rows may hold anything: what they hold is shown as text, and nothing of it runs or loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.published import sources
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
    alike = {"gpu": gpu, "environment": environment, "sweep": MARKUP}  # figures draw one sweep
    rows = [r.model_copy(update=alike) for r in paper()]
    attacker = f"a{MARKUP}"
    rows += [
        row(attacker, n, gpu=gpu, params={"<i>": MARKUP}, key=MARKUP + str(n), suspect=[MARKUP],
            environment=environment, sweep=MARKUP)
        for n in (256, 1024, 4096)
    ]  # fmt: skip
    refused = unsupported("fused", 8192, gpu=gpu, environment=environment)
    return [*rows, refused.model_copy(update={"reason": MARKUP})]


def test_nothing_that_rows_hold_runs_or_loads_and_all_is_shown_as_text(
    opened: Open, tmp_path: Path
) -> None:
    seen = opened(file=make(write(tmp_path / "rows", hostile()), tmp_path / "out"))
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    read = []
    for canvas in page.locator("[data-points]").all():
        canvas.focus()
        for key in ("Home", *["ArrowDown"] * 20, "ArrowRight"):
            page.keyboard.press(key)
            read.append(page.locator("#reading").inner_text())
    assert page.evaluate("window.taken") is None
    assert seen.complaints == []
    assert len(seen.requests) == 1
    assert page.locator("img, iframe, object, [onerror], [onload]").count() == 0
    outside = set(page.evaluate("[...document.links].map(a => a.href)"))
    assert {at for at in outside if not at.startswith("file:")} == {
        source.url for source in sources().values()
    }
    shown = page.locator("main").inner_text()
    assert "<script>window.taken=1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert any("<img src='https://example.invalid/x'" in text for text in read)
