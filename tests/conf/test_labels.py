from __future__ import annotations

import yaml

from tests.conftest import CONF


def test_a_grid_that_names_its_widths_names_each() -> None:
    labelled = [
        grid
        for path in sorted((CONF / "grid").glob("*.yaml"))
        if (grid := yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("labels")
    ]
    assert labelled
    for grid in labelled:
        assert len(grid["labels"]) == len(grid["cols"])
