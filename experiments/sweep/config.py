"""The options of a sweep: Hydra learns them from `experiments.data.jobs.Config`, which checks them.

An option is a field of one of its classes, and a value with a comment in conf/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, QuotedString, RangeSweep
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from experiments.data.jobs import (
    MOST_POINTS,
    PLAIN,
    Config,
    DtypeConfig,
    GpuConfig,
    GridConfig,
    TimingConfig,
    TrackerConfig,
)
from experiments.errors import UserError, on_one_line

GROUPS: dict[str, type[BaseModel]] = {
    "grid": GridConfig,
    "dtype": DtypeConfig,
    "gpu": GpuConfig,
    "timing": TimingConfig,
    "tracker": TrackerConfig,
}
# Options of the whole sweep; jobs of one sweep may not differ in them.
SHARED = ("out", "rounds", "fresh", "seed", "remeasure", "determinism", "overwrite", "only_failed",
          "dry_run", "tracker")  # fmt: skip
LARGEST_FILE = 1 << 20  # bytes of a configuration
MOST_ALIASES = 20
ONE_CHOICE = ("experiment", "hydra/launcher")
CHOSEN = ("kernel", *GROUPS, *ONE_CHOICE)
# Of Hydra's own options these do something here.
OURS = r"hydra\.(launcher\.(?!_)\w+(\.\w+)*|searchpath)"
OF_HYDRA = (
    "is not for this program; of Hydra's own, hydra/launcher, hydra.launcher.* and "
    "hydra.searchpath may be set, and out= names the folder that takes the rows"
)
# What Hydra and OmegaConf append for their own developers; --verbose shows all of it.
NOISE = r"[,.] (?:Config search path: |Set the environment variable: |full_key: |See https://hydra)"


def register() -> None:
    """Makes the options and their defaults known to Hydra, before any composition."""
    models: dict[str, type[BaseModel]] = {"": Config} | GROUPS
    for group, model in models.items():
        node = {
            name: "???" if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in model.model_fields.items()
        }
        ConfigStore.instance().store(group=group or None, name="schema", node=node)


def check_override(override: Override) -> None:
    """Checks what Hydra would ignore in silence, or would answer with an error of its own code.

    Raises:
        UserError: naming the override at fault and what would be right.
    """
    key, line, value = override.key_or_group, str(override.input_line), override.value()
    if not key:
        raise UserError(f"{line} names no option; --help lists those there are")
    if re.fullmatch(r"kernel\.(.*\.)?(_target_|by|roof)", key):
        raise UserError(f"{line}: {key} is said in a kernel's file; kernel= chooses the file")
    if isinstance(value, RangeSweep):
        assert value.start is not None
        assert value.stop is not None
        if not 0 < abs(value.stop - value.start) <= MOST_POINTS * abs(value.step):
            raise UserError(f"{line}: a range has 1 to {MOST_POINTS} values")
    if key in CHOSEN:
        if isinstance(value, Glob) or line == "~experiment":
            return
        names = value.list if isinstance(value, ChoiceSweep) else [value]
        if len(names) > 1 and key in ONE_CHOICE:
            raise UserError(f"{line}: a sweep has one {key}; run one after the other")
        for name in names:
            text = name.text if isinstance(name, QuotedString) else name
            if not isinstance(text, str | Glob) or (isinstance(text, str) and not _is_file(text)):
                raise UserError(
                    f"{line} names no file of conf/{key}/; each job has one {key}, and --help "
                    "lists them"
                )
    elif re.match(r"hydra\b", key):
        if override.is_delete() or not re.fullmatch(OURS, key):
            raise UserError(f"{line} {OF_HYDRA}")
        if key == "hydra.searchpath":
            check_folders(value if isinstance(value, list) else [value], line)


def _is_file(choice: str) -> bool:
    """Whether a choice is a file below its group's folder: Hydra would follow it out of conf/."""
    parts = choice.split("/")
    return "schema" not in parts and all(re.fullmatch(PLAIN, part) for part in parts)


def check_folders(folders: Sequence[Any], given: str) -> None:
    """Checks that folders of configurations are there, and that no file of theirs is a bomb.

    A few lists of aliases, each of which repeats the one before, would fill any memory.

    Raises:
        UserError: naming the folder or the file; ``given`` is the option as it was typed.
    """
    for folder in folders:
        path = Path(str(folder).removeprefix("file://")).expanduser()
        if not path.is_dir():
            raise UserError(f"{given}: {folder} is no folder")
        for file in path.rglob("*.yaml"):
            if not file.is_file() or file.stat().st_size > LARGEST_FILE:
                raise UserError(f"{file} is no configuration of at most {LARGEST_FILE >> 20} MiB")
            if len(re.findall(rb"\*\w", file.read_bytes())) > MOST_ALIASES:
                raise UserError(f"{file} has more than {MOST_ALIASES} aliases (*name)")


def values_of(override: Override) -> list[str]:
    """What an override is in jobs: ``key=value``, of a list or a glob one for each value.

    Raises:
        UserError: the list or the glob has no value.
    """
    key, value = override.get_key_element(), override.value()
    if override.is_delete():
        return [str(override.input_line)]
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if isinstance(value, ChoiceSweep) and override.config_loader is not None:
        files = override.config_loader.get_group_options(override.key_or_group)
        each = (one.filter(files) if isinstance(one, Glob) else [one] for one in value.list)
        value.list = [name for names in each for name in names]
    if not override.is_discrete_sweep() or not (found := [*override.sweep_string_iterator()]):
        raise UserError(f"{override.input_line}: the list or the glob has no value")
    return [f"{key}={one}" for one in found]


def check(config: dict[str, Any]) -> dict[str, Any]:
    """One job's resolved configuration, checked, with numbers of the types that rows have.

    Raises:
        UserError: naming the option at fault and what would be right.
    """
    try:
        found = Config.model_validate(config).model_dump()
    except ValidationError as error:
        raise UserError(_complaint(error)) from None
    check_timer(found["timing"]["timer"], found["gpu"]["device"])
    return found


def check_timer(timer: str, device: str) -> None:
    """Checks that a device can be timed as asked.

    Raises:
        UserError: naming the timer.
    """
    if device == "cpu" and timer not in ("auto", "host"):
        raise UserError(f"timing.timer={timer} needs a CUDA device; on a CPU use auto or host")


def _complaint(error: ValidationError) -> str:
    """What is wrong with the first wrong option, and what would be right."""
    first, *others = error.errors()
    # what may be one of several types has an error for each, with the type at the place's end
    parts = [part for part in first["loc"] if not re.match(r"literal\[|constrained-", str(part))]
    same = [first, *(one for one in others if one["loc"][: len(parts)] == tuple(parts))]
    option = ".".join(map(str, parts))
    if first["type"] == "extra_forbidden":
        model = GROUPS.get(str(parts[0]), Config) if len(parts) > 1 else Config
        return f"{option} is not an option; there are {', '.join(model.model_fields)}"
    if first["type"] == "missing":
        return f"{option} is missing; each job has one"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    reasons = [re.sub("^(Input should|String should)", "it must", one["msg"]) for one in same]
    return f"{option}={str(first['input'])[:100]}; {' or '.join(reasons)}"


def reason_of(error: Exception) -> str:
    """An error of Hydra's, of a file of conf/, or of the system, in the words of this program."""
    text = on_one_line(str(error))
    unread = re.match(r"LexerNoViableAltException: (.*?),? \^", text)
    if unread:
        return f"{unread[1]} is not in Hydra's grammar; a value with special characters is quoted"
    absent = re.search(
        r"Could not find '([\w/]+)/([^'/]+)', Available options in '.*?': (.*)", text
    )
    if absent:
        group, name, names = absent.groups()
        near = get_close_matches(name, names.split(", "))
        hint = f" did you mean {' or '.join(near)}?" if near else ""
        return f"{group}={name} names no file of conf/{group}/;{hint} --help lists them"
    unknown = re.match(r"Could not override '([\w.@/]+)'\.", text)
    if unknown and unknown[1].count(".") == 1 and unknown[1].startswith("kernel."):
        tunable = unknown[1].removeprefix("kernel.")
        return f"a kernel of this sweep has no {tunable!r}; kernel.NAME.{tunable}= is of one kernel"
    if unknown:
        return f"there is no option {unknown[1]!r}; --help lists those there are"
    if isinstance(error.__cause__, OmegaConfBaseException):
        text = on_one_line(f"{error}\n{error.__cause__}")
    return re.split(NOISE, text)[0]
