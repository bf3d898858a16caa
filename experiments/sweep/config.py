"""The options of a sweep: Hydra learns them from `experiments.data.jobs.Config`, which checks them.

An option is a field of one of its classes, and a value with a comment in conf/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, QuotedString, RangeSweep
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
from experiments.data.rows import MOST_SAMPLES
from experiments.errors import UserError

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
LONGEST_OUT = 1000  # characters
LAUNCHERS = ("sweep", "slurm", "profile")
OTHER_LAUNCHER = (
    "would run jobs one by one or beside each other, and a ratio compares neighbours in time; "
    "hydra.launcher.cards=all spreads a sweep over cards, hydra/launcher=slurm over nodes"
)
CHOSEN = ("kernel", *GROUPS, "experiment", "hydra/launcher")
# Few of Hydra's own options do something here; these name the option to use instead.
OURS = r"hydra\.(launcher\.(?!_)\w+(\.\w+)*|searchpath)"
OF_HYDRA = "of Hydra's own, hydra/launcher, hydra.launcher.* and hydra.searchpath may be set"
NOT_OURS = {
    "hydra.sweep.": "out= names the folder that takes the rows",
    "hydra.run.": "out= names the folder that takes the rows",
    "hydra.output_subdir": "a row records its own configuration",
    "hydra.mode": "a run without -m is a sweep of one job",
    "hydra.verbose": "--verbose shows the traceback of an error",
    "hydra/sweeper": "the sweep is what is typed, or a preset's: kernel=fused,online",
    "hydra.sweeper": "the sweep is what is typed, or a preset's: kernel=fused,online",
}


def register() -> None:
    """Makes the options and their defaults known to Hydra, before any composition."""
    store = ConfigStore.instance()
    models: dict[str, type[BaseModel]] = {"": Config} | GROUPS
    for group, model in models.items():
        fields = model.model_fields.items()
        node = {
            name: "???" if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in fields
        }
        store.store(group=group or None, name="schema", node=node)


def check_overrides(overrides: list[str]) -> None:
    """Checks what Hydra would ignore in silence, or would answer with an error of its own code.

    Raises:
        UserError: naming the override at fault and what would be right.
        HydraException: it is not in Hydra's grammar.
    """
    for override in OverridesParser.create().parse_overrides(overrides):
        key, line, value = override.key_or_group, str(override.input_line), override.value()
        if re.match(r"kernel\b.*\._target_$", key):
            raise UserError(
                f"{line}: kernel._target_ is said in a kernel's file; kernel= chooses it"
            )
        if key == "hydra.searchpath":
            check_folders(value if isinstance(value, list) else [value], line)
        if not key:
            raise UserError(f"{line} names no option; --help lists those there are")
        if isinstance(value, Glob) and key not in CHOSEN:
            raise UserError(f"{line}: glob chooses among files; {key} takes values")
        if isinstance(value, RangeSweep) and not 0 < _length(value) <= MOST_POINTS:
            raise UserError(f"{line}: a range has 1 to {MOST_POINTS} values")
        if key in CHOSEN:
            if not override.is_delete():
                _check_choice(line, key, value)
            elif line != "~experiment":
                raise UserError(f"{line}: each job has one {key}; {key}=name chooses it")
        elif re.match(r"hydra\b", key) and (override.is_delete() or not re.fullmatch(OURS, key)):
            why = next((why for start, why in NOT_OURS.items() if key.startswith(start)), OF_HYDRA)
            raise UserError(f"{line} is not for this program; {why}")


def check_folders(folders: Sequence[Any], given: str) -> None:
    """Checks that folders of configurations are there, and that no file of theirs is a bomb.

    A few lists of aliases, each of which repeats the one before, would fill any memory.

    Raises:
        UserError: naming the folder or the file; ``given`` is the option as it was typed.
    """
    for folder in folders:
        path = Path(str(folder).removeprefix("file://")).expanduser()
        if str(folder).startswith("pkg://"):
            continue
        if not path.is_dir():
            raise UserError(f"{given}: {folder} is no folder")
        for file in path.rglob("*.yaml"):
            if not file.is_file() or file.stat().st_size > LARGEST_FILE:
                raise UserError(f"{file} is no configuration of at most {LARGEST_FILE >> 20} MiB")
            if len(re.findall(rb"\*\w", file.read_bytes())) > MOST_ALIASES:
                raise UserError(f"{file} has more than {MOST_ALIASES} aliases (*name)")


def _length(values: RangeSweep) -> float:
    """About how many values a range has, 0 where it has no end."""
    assert values.start is not None
    assert values.stop is not None
    return (values.stop - values.start) / values.step if values.step else 0


def _check_choice(line: str, group: str, value: Any) -> None:
    """Checks that a choice of a group's file is a name, or several where a sweep may have them."""
    if isinstance(value, Glob):
        return
    names = value.list if isinstance(value, ChoiceSweep) else [value]
    if len(names) > 1 and group == "experiment":
        raise UserError(f"{line}: presets are sweeps already; run one after the other")
    if len(names) > 1 and group == "hydra/launcher":
        raise UserError(f"{line}: a sweep has one launcher")
    if group == "hydra/launcher" and names[0] not in LAUNCHERS:
        raise UserError(f"{line} {OTHER_LAUNCHER}")
    for name in names:
        if not isinstance(name, str | QuotedString | Glob) or name == "_self_":
            raise UserError(f"{line} names no file of conf/{group}/; --help lists them")


def check(config: dict[str, Any]) -> dict[str, Any]:
    """One job's resolved configuration, checked, with numbers of the types that rows have.

    Raises:
        UserError: naming the option at fault and what would be right.
    """
    out = str(config.get("out") or "")
    if "out" in config and (not out.strip() or "\0" in out or len(out) > LONGEST_OUT):
        raise UserError("out= is empty, too long or no path; name the folder that takes the rows")
    try:
        named = {"out": Path(out).name} if out else {}
        found = Config.model_validate(config | named).model_dump() | {"out": out}
        re.compile(found["gpu"]["match"] or "")
    except ValidationError as error:
        raise UserError(_complaint(error)) from None
    except re.error as error:
        raise UserError(
            f"gpu.match={found['gpu']['match']} is no regular expression: {error}"
        ) from None
    timing, names = found["timing"], found["dtype"]["names"]
    least, most = timing["min_samples"], timing["max_samples"]
    if not (found["grid"]["dtypes"] if names is None else names):
        raise UserError("no dtype is named; dtype=float32 names one")
    if found["overwrite"] and found["only_failed"]:
        raise UserError(
            "overwrite=true measures all points again and only_failed=true those that failed; "
            "choose one"
        )
    if most < least:
        raise UserError(f"timing.max_samples={most} is below timing.min_samples={least}")
    if most > MOST_SAMPLES:
        raise UserError(
            f"timing.max_samples={most} makes rows too long to be read again; "
            f"it is at most {MOST_SAMPLES}"
        )
    check_timer(timing["timer"], found["gpu"]["device"])
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
    reasons = [re.sub("^(Input should|String should)", "it must", one["msg"]) for one in same]
    return f"{option}={first['input']}; {' or '.join(reasons)}"


def check_choices(choices: Mapping[str, str]) -> None:
    """Checks that each group's choice is a file of that group's own folder.

    A choice is part of its rows' folder, and Hydra itself would follow it out of ``conf/``.

    Raises:
        UserError: naming the choice at fault.
    """
    for group, choice in choices.items():
        parts = str(choice).split("/")
        if "schema" in parts or not all(re.fullmatch(PLAIN, part) for part in parts):
            raise UserError(f"{group}={choice} names no file of conf/{group}/; --help lists them")
