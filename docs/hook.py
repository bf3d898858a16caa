"""A hook of mkdocs: the pages beside docs/ are part of the site, and what pages link comes along.

In the repository a page links files by their place in it, so that links hold where the pages are
read there. Of the site, Markdown and pictures become part; a link to another file is its name.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
SHOWN = (".md", ".png", ".svg")  # what the site shows; another file is named
log = get_plugin_logger(__name__)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the root's pages, README.md as the index, and what pages link of outputs/."""
    brought = {Path(page.name): page for page in ROOT.glob("*.md")}
    for page in (*brought.values(), *sorted((ROOT / "docs").glob("*.md"))):
        for _, target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            place = _place(page.parent, target)
            if not (ROOT / place).exists():
                log.warning("%s links %s, which is not there", page.name, target)
            elif place.suffix in SHOWN and place.parts[0] == "outputs":
                brought[place] = ROOT / place
    for place, source in brought.items():
        files.append(File.generated(config, _uri(place), abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of a page of the repository into those of the site."""
    if page.file.src_uri.startswith("outputs/"):
        return markdown
    folder = Path(page.file.abs_src_path or ROOT).parent

    def moved(match: re.Match[str]) -> str:
        place = _place(folder, match[2])
        if place.suffix in SHOWN:
            return f"[{match[1]}]({_uri(place)}{match[3] or ''})"
        same = match[1].strip("`").rstrip("/") == place.as_posix().rstrip("/")
        return f"`{place}`" if same else f"{match[1]} (`{place}`)"

    return LINK.sub(moved, markdown)


def _uri(place: Path) -> str:
    """Where a file of the repository is on the site."""
    return "index.md" if place.name == "README.md" else place.as_posix().removeprefix("docs/")


def _place(folder: Path, target: str) -> Path:
    """Where a link of a page in a folder leads, as a path in the repository."""
    return Path(os.path.normpath(folder / target)).relative_to(ROOT)
