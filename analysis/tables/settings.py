"""How timing was set when rows were made: ``timing`` in the ``config.json`` beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.format import shown


def timing_settings(rows: Path) -> list[Mapping[str, Any]]:
    """Every setting found below ``rows``, each once; what cannot be read tells nothing."""
    folder = rows.parent if rows.is_file() else rows
    found: list[Mapping[str, Any]] = []
    for path in sorted(folder.rglob("config.json")):
        try:
            timing = json.loads(path.read_text(encoding="utf-8"))["timing"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(timing, dict) and shown(timing) not in found:
            found.append(shown(timing))
    return found


def setting(settings: list[Mapping[str, Any]], name: str) -> str | None:
    """All values of one setting; None where no file has it."""
    values = dict.fromkeys(str(s[name]) for s in settings if s.get(name) is not None)
    return ", ".join(sorted(values)) or None
