"""The example notebook runs as it stands, and its figure shows the points of D-fig1."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot

from analysis.figures.specs import D_FIG1
from analysis.selection import select
from tests.conftest import ROOT

NOTEBOOK = ROOT / "docs" / "d_fig1.ipynb"


def test_notebook_redraws_d_fig1_in_three_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)  # as Jupyter runs it
    monkeypatch.setattr(sys, "path", [*sys.path])
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert {*re.findall(r"from (\S+) import", str(cells))} == {"pathlib", "analysis.load"}
    assert "image/png" in cells[-1]["outputs"][0]["data"]
    found: dict[str, Any] = {}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in cells:
            exec("".join(cell["source"]), found)
        pyplot.close(found["figure"])
    drawn = {(x, y) for line in found["axes"].get_lines() for x, y in line.get_xydata()}
    shown = select(found["rows"], "NVIDIA H200", D_FIG1.query)
    assert shown is not None
    own = shown.points[shown.points["status"] == "ok"]
    points = set(own[["cols", "effective_gbps"]].itertuples(index=False, name=None))
    assert (len(cells), len(points) > 500, points <= drawn) == (3, True, True)
