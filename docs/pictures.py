"""The two pictures of README.md that no rows give: a terminal, and the head of the report.

    python -m docs.pictures [terminal] [report]

writes docs/images/terminal.svg and docs/images/report.png, from a sweep of the preset `smoke` and
from the report of outputs/reference; the latter takes a Chromium ($CHROMIUM, or one on the path).
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS, LINES = 110, 60
BROWSERS = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
FIRST, LAST = 1, 18  # lines of a long table that the picture has: its head, its widest shape
WINDOW = (1280, 742)


def terminal(out: Path) -> None:
    """A sweep, as a terminal of 110 columns shows it at its end."""
    words = ["experiments.run", "experiment=smoke", f"out={out}", "tracker=none"]
    shown = _on_a_terminal([sys.executable, "-m", *words]).replace(str(out), "outputs/smoke")
    lines = shown.splitlines()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text("$ make sweep EXPERIMENT=smoke", style="bold"))
    console.print(Text.from_ansi("\n".join([*lines[:FIRST], "⋮", *lines[-LAST:]])))
    svg = console.export_svg(title="softmax-roofline")
    # a picture fetches no fonts
    (IMAGES / "terminal.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


def report(out: Path) -> None:
    """The head of the report, as a browser shows it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("error: no Chromium; name one in CHROMIUM")
    words = ["analysis", "report", "--rows", "outputs/reference", "--out", str(out)]
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=True)
    (page,) = out.glob("*.html")
    taken = out / "report.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = f"--window-size={WINDOW[0]},{WINDOW[1]}"
    place = [f"--screenshot={taken}", page.resolve().as_uri()]
    subprocess.run([browser, *options, size, *place], check=True, stderr=subprocess.DEVNULL)
    Image.open(taken).convert("RGB").quantize(64).save(IMAGES / "report.png", optimize=True)


def _on_a_terminal(words: list[str]) -> str:
    """What a command prints on a terminal, its progress left out."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    seen = bytearray()
    # one thread, lest work beside it on few cores make times of nothing but waiting
    around = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        words, cwd=ROOT, stdout=its, stderr=subprocess.DEVNULL, env=os.environ | around
    ) as running:
        os.close(its)
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # how Linux says that the other side is closed
                break
            if not part:
                break
            seen += part
    if running.returncode:
        sys.exit(f"error: {' '.join(words)} ended with status {running.returncode}")
    return seen.decode().replace("\r\n", "\n").strip("\n")


PICTURES = {"terminal": terminal, "report": report}


def main(names: list[str]) -> None:
    """Makes the pictures named, or all."""
    IMAGES.mkdir(exist_ok=True)
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as scratch:
            PICTURES[name](Path(scratch) / "out")
        print(f"docs/images: {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
