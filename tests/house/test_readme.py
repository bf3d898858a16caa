"""What the README tells people to type is there, and composes."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from experiments.config import register
from experiments.rows import Row

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RUN = "python -m experiments.run "

COMMANDS = [
    line.partition("  #")[0].removeprefix(RUN)
    for line in README.splitlines()
    if line.startswith(RUN) and "--help" not in line and "two_line" not in line
]


def test_readme_shows_commands() -> None:
    assert len(COMMANDS) > 5


@pytest.mark.parametrize("arguments", COMMANDS)
def test_every_command_composes(arguments: str) -> None:
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        singles = [_first(argument) for argument in shlex.split(arguments)]
        assert compose("config", singles).out


def _first(argument: str) -> str:
    """An override as one job of its sweep has it."""
    (override,) = OverridesParser.create().parse_overrides([argument])
    if not override.is_sweep_override():
        return argument
    return f"{override.key_or_group}={next(override.sweep_string_iterator())}"


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)\b(?=[ `\n]*(?:[A-Z`#\n]|$))", README))
    assert {"sweep", "test", "figures", "wheelhouse", "sync"} <= named
    assert named <= targets


def test_kernel_example_is_two_files_of_twenty_lines() -> None:
    blocks = dict(re.findall(r"```(?:python|yaml)\n# (\S+/\S+)\n(.*?)```", README, re.S))
    assert set(blocks) == {"kernels/softmax/two_line.py", "conf/kernel/two_line.yaml"}
    lines = [line for text in blocks.values() for line in text.splitlines() if line.strip()]
    assert len(lines) <= 25


def test_table_of_rows_names_every_field_of_a_row() -> None:
    table = README.partition("## Rows")[2].partition("## ")[0]
    named = set(re.findall(r"[a-z_0-9]+", table))
    assert [field for field in Row.model_fields if field not in named] == []


def test_every_linked_file_is_there() -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_claims_and_audit_stand_there_as_they_were_recorded() -> None:
    folder = ROOT / "outputs" / "reference" / "h200" / "claims"
    told = [line[:4] for line in list(csv.reader((folder / "claims.csv").open()))[1:]]
    assert _table("claims")[1:] == told
    counts = json.loads((folder / "claims.json").read_text())["counts"]["NVIDIA H200"]
    said = " and ".join(f"{n} {verdict}" for verdict, n in counts.items())
    assert f"**{said} of {len(told)} claims**" in README
    audited = list(csv.reader((folder / "audit_summary.csv").open()))
    worst = ("physically impossible", "self-contradictory")
    assert _table("audit")[1:] == [line for line in audited if line[1] in worst]
    checks = Counter(line["verdict"] for line in csv.DictReader((folder / "audit.csv").open()))
    for verdict, count in checks.items():
        assert f"{count} {'are ' * (verdict == worst[0])}{verdict}" in " ".join(README.split())
    assert f"Of {checks.total()} checks" in README


def test_limits_stand_there_as_they_were_recorded() -> None:
    recorded = ROOT / "outputs" / "reference" / "h200_limits" / "tables" / "limits_summary.csv"
    heads, *lines = _table("limits")
    if not recorded.exists():
        assert lines == [], "a number that no recorded row gives"
        return
    assert [heads, *lines] == list(csv.reader(recorded.open()))
    assert "h200_limits/figures/limits-nvidia-h200-" in README


def _table(name: str) -> list[list[str]]:
    """The cells of the table below a marker, its heads first."""
    part = README.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]
    lines = [line for line in part.strip().splitlines() if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
