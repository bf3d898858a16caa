"""What the README asks people to type is there, and composes."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from experiments.data.rows import Row
from experiments.sweep.config import register

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RUN = "python -m experiments.run "

COMMANDS = [
    line.partition("  #")[0].removeprefix(RUN)
    for line in README.splitlines()
    if line.startswith(RUN) and "--help" not in line and "two_line" not in line
]


def test_every_command_composes() -> None:
    assert len(COMMANDS) > 5
    register()
    for arguments in COMMANDS:
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


def test_every_preset_module_and_variable_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    presets = set(re.findall(r"\b(?:EXPERIMENT|experiment)=([a-z_]+)", README))
    assert {"paper", "limits", "backward"} <= presets <= _names("experiment")
    assert [m for m in re.findall(r"python -m (\S+[a-z])", README) if not _found(m)] == []
    lines = [line for line in README.splitlines() if "make " in line]
    variables = set(re.findall(r"\b([A-Z]{2,})=", " ".join(lines)))
    assert {"EXPERIMENT", "VENV", "ROWS"} <= variables
    assert [v for v in variables if not re.search(rf"\b{v}\b", makefile)] == []


def test_section_of_variants_names_every_one() -> None:
    section = README.partition("## Variants")[2].partition("## ")[0]
    assert _names("kernel") == set(re.findall(r"`([a-z_0-9]+)`", section)) & _names("kernel")
    own = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    assert {"auto", "cluster", "cooperative", "compiled_max", "backward"} <= own


def test_example_of_the_function_runs() -> None:
    (example,) = re.findall(r"```python\n(import torch\n.*?)```", README, re.S)
    found: dict[str, torch.Tensor] = {}
    small = example.replace("8, 512, 1000", "2, 5, 40").replace('device="cuda"', 'device="cpu"')
    exec(small, found)
    assert found["y"].dtype == found["dx"].dtype == torch.bfloat16
    torch.testing.assert_close(found["z"].sum(1), torch.ones(2, 5))


def test_table_of_rows_names_every_field_of_a_row() -> None:
    table = README.partition("## Rows")[2].partition("## ")[0]
    named = set(re.findall(r"[a-z_0-9]+", table))
    assert [field for field in Row.model_fields if field not in named] == []


def test_every_linked_file_is_there() -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def _names(group: str) -> set[str]:
    """The options of a configuration group."""
    return {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")}


def _found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
