"""Takes the picture of README.md: the head of the report, as a headless Chromium shows it.

    python -m docs.pictures

writes docs/images/report.png from the recorded rows. CHROMIUM names a browser; otherwise one of the
search path is taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
BROWSERS = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
WINDOW = (1280, 742)  # pixels


def main() -> int:
    """Draws the report and takes its picture; returns the exit status."""
    browser = next(filter(None, map(shutil.which, filter(None, BROWSERS))), None)
    if browser is None:
        print("error: no Chromium; name one in CHROMIUM", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        words = ["-m", "analysis", "report", "--out", scratch]
        subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        taken = Path(scratch) / "report.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--window-size={WINDOW[0]},{WINDOW[1]}", f"--screenshot={taken}"]
        page = (Path(scratch) / "report.html").resolve().as_uri()
        subprocess.run([browser, *options, page], check=True, stderr=subprocess.DEVNULL)
        Image.open(taken).convert("RGB").quantize(64).save(PICTURE, optimize=True)
    print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
