"""The speeds that README quotes, recomputed by a script that knows nothing of our analysis."""

import re
import runpy

import pandas as pd
import pytest
from scipy.stats import gmean

from tests.conftest import REFERENCE, ROOT

TABLES = ROOT / "docs" / "generated" / "tables"
QUOTED = re.compile(r"^\| ([^|]+) \|.* (\d+) \| \*\*(\d\.\d\d) \(", re.MULTILINE)


def test_the_script_finds_what_the_tables_and_readme_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    points = runpy.run_path("docs/headline.py")["points"].reset_index()
    readme = {m[1]: (int(m[2]), m[3]) for m in QUOTED.finditer((ROOT / "README.md").read_text())}
    known = pd.concat(pd.read_csv(TABLES / f"{name}.csv") for name in ("headline", "operations"))
    known["name"] = known["shapes"].fillna(known["operation"])
    assert {*readme} == {*known["name"]}
    for line in known.to_dict("records"):
        name, shapes = line["name"], isinstance(line["shapes"], str)
        mine = points[points["operation"].eq("softmax" if shapes else name)]
        mine = mine[mine["large"] != (name.startswith("small") or not mine["large"].any())]
        if "widths" in name or not shapes:
            mine = mine[mine["tuned"] != ("other" in name)]
        for rival in ("QuACK", "Liger", "TileOPs"):
            if rival in name or line["main rival"] == rival:
                mine = mine[mine[rival.lower()] != ("fails" in name)]
        if name.startswith("large"):
            mine = mine[mine["rows"].gt(64) != ("or fewer" in name)]
        assert len(mine) == line["points"], line["name"]
        assert gmean(mine["speed"]) == pytest.approx(line["ratio"], rel=1e-3), line["name"]
        assert readme[line["name"]] == (len(mine), f"{line['ratio']:.2f}")


def test_the_softmax_speeds_are_of_one_code_of_clean_commits() -> None:
    assert pd.read_csv(TABLES / "headline.csv")["not_one_code"].isna().all()
    recorded = (REFERENCE / "h200_limits").glob("*/rows.jsonl.gz")
    for one in pd.concat(pd.read_json(path, lines=True) for path in recorded)["environment"]:
        assert (one["dirty"], len(one["commit"])) == (False, 40)


def test_the_script_is_short_and_knows_no_analysis() -> None:
    text = (ROOT / "docs" / "headline.py").read_text()
    code = [line for line in text.splitlines()[1:] if line.strip() and line[0] != "#"]
    assert len(code) <= 34
    assert code[-1].endswith(".to_string())")  # pandas cuts a table of more than 60 lines
    imported = re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE)
    assert imported == ["pathlib", "pandas", "scipy.stats"]
