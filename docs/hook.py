"""A hook of mkdocs: README.md is the first page, and what pages link of the checkout comes along.

In the repository a page links files by their place in it, so that links hold where the pages are
read there. Of the site, Markdown and pictures become part; a link to another file is its name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
WHOLE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)\)")
SHOWN = (".md", ".png", ".svg")  # what the site shows; another file is named
log = get_plugin_logger(__name__)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds README.md as the index, and what pages link of outputs/."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme))
    brought = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            place = _place(page.parent, target)
            if not (ROOT / place).exists():
                log.warning("%s links %s, which is not there", page.name, target)
            elif place.suffix in SHOWN and place.parts[0] == "outputs":
                brought.add(place)
    for place in sorted(brought):
        files.append(File.generated(config, place.as_posix(), abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of a page of the repository into those of the site."""
    if page.file.src_uri.startswith("outputs/"):
        return markdown
    folder = ROOT if page.file.src_uri == "index.md" else ROOT / "docs"

    def named(match: re.Match[str]) -> str:
        place = _place(folder, match[2])
        if place.suffix in SHOWN:
            return match[0]
        same = match[1].strip("`").rstrip("/") == place.as_posix().rstrip("/")
        return f"`{place}`" if same else f"{match[1]} (`{place}`)"

    def moved(match: re.Match[str]) -> str:
        place = _place(folder, match[1])
        if place.as_posix() == "README.md":
            return "index.md" + (match[2] or "")
        return place.as_posix().removeprefix("docs/") + (match[2] or "")

    return LINK.sub(moved, WHOLE.sub(named, markdown))


def _place(folder: Path, target: str) -> Path:
    """Where a link of a page in a folder leads, as a path in the repository."""
    return Path(os.path.normpath(folder / target)).relative_to(ROOT)
