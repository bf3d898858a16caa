"""Includes generated tables in README.md and docs/results.md: ``python -m docs.fill [--write]``.

A page has a generated table between ``<!-- include: NAME -->`` and ``<!-- end -->``, so that it
reads the same on any site that shows Markdown. The tables lie in docs/generated, where
``python -m analysis.reference --write`` draws them. Without ``--write`` the pages that are behind
are named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md")
GENERATED = ROOT / "docs" / "generated"
INCLUDE = re.compile(r"(<!-- include: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def included(text: str) -> str:
    """A page with the tables of today between its markers.

    Raises:
        FileNotFoundError: a page includes a table that is not drawn.
    """

    def table(match: re.Match[str]) -> str:
        drawn = (GENERATED / f"{match[2]}.md").read_text(encoding="utf-8")
        body = re.sub(r"\A## .*\n", "", drawn).strip()
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return INCLUDE.sub(table, text)


def main() -> int:
    """Names the pages that are behind, or writes them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.fill", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages")
    behind = []
    options = parser.parse_args()
    for name in PAGES:
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = included(before)
        if before != after:
            behind.append(name)
            if options.write:
                page.write_text(after, encoding="utf-8")
    if behind:
        print(f"{'written' if options.write else 'behind'}: {', '.join(behind)}")
    return 0 if options.write or not behind else 1


if __name__ == "__main__":
    sys.exit(main())
