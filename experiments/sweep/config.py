"""The options of a sweep: Hydra learns them from `experiments.data.jobs.Config`, which checks them.

An option is a field of one of its classes, and a value with a comment in conf/.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, QuotedString, RangeSweep
from omegaconf import MISSING
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

CHOSEN = ("kernel", *GROUPS, "experiment", "hydra/launcher")
# Of Hydra's own options few do something here; what is meant by some of the others.
OURS = r"hydra\.(launcher\.(?!_)\w+(\.\w+)*|searchpath)"
OF_HYDRA = "of Hydra's own, hydra/launcher, hydra.launcher.* and hydra.searchpath may be set"
NOT_OURS = {
    "hydra.sweep.": "out= names the folder that takes the rows",
    "hydra.run.": "out= names the folder that takes the rows",
    "hydra.output_subdir": "a row records its own configuration",
    "hydra.mode": "a run without -m is a sweep of one job",
    "hydra.verbose": "--verbose shows the traceback of an error",
    "hydra.sweeper": "the sweep is what is typed, or a preset's: kernel=fused,online",
}


def register() -> None:
    """Makes the types known to Hydra, before any composition."""
    store = ConfigStore.instance()
    store.store(name="schema", node=structured(Config))
    for group, model in GROUPS.items():
        store.store(group=group, name="schema", node=structured(model))


@cache
def structured(model: type[BaseModel]) -> type:
    """A model as a dataclass of plain types, which is what Hydra's schemas are made of."""
    made = []
    for name, field in model.model_fields.items():
        default = MISSING if field.is_required() else field.get_default(call_default_factory=True)
        fresh = dataclasses.field(default_factory=lambda value=default: value)  # type: ignore[misc]
        made.append((name, _plain(field.annotation), fresh))
    return dataclasses.make_dataclass(model.__name__, made)


def _plain(hint: Any) -> Any:
    """A type without the bounds that OmegaConf does not know."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return structured(hint)
    if origin is Annotated:
        return _plain(inner[0])
    if origin is Literal:
        return type(inner[0])
    if origin in (list, dict):
        return origin[tuple(map(_plain, inner))]
    if NoneType in inner:
        return _plain(Union[tuple(one for one in inner if one is not NoneType)]) | None  # noqa: UP007
    if origin in (Union, UnionType):
        kinds = {_plain(one) for one in inner}
        return kinds.pop() if len(kinds) == 1 else Any
    return hint


def check_overrides(overrides: list[str]) -> None:
    """Checks what Hydra would ignore in silence, or would answer with an error of its own code.

    Raises:
        UserError: naming the override at fault and what would be right.
        HydraException: it is not in Hydra's grammar.
    """
    for override in OverridesParser.create().parse_overrides(overrides):
        key, line, value = override.key_or_group, str(override.input_line), override.value()
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
    for name in names:
        if not isinstance(name, str | QuotedString) or name == "_self_":
            raise UserError(f"{line} names no file of conf/{group}/; --help lists them")


def check(config: dict[str, Any]) -> None:
    """Checks what types alone do not say of one job's resolved configuration.

    Raises:
        UserError: naming the option at fault and what would be right.
    """
    if missing := [name for name in Config.model_fields if name not in config]:
        raise UserError(f"{missing[0]} is missing; each job has one")
    out = config["out"]
    if not isinstance(out, str) or not out.strip() or "\0" in out:
        raise UserError("out= is empty or no path; name the folder that takes the rows")
    try:
        Config.model_validate(config | {"out": Path(out).name})
    except ValidationError as error:
        raise UserError(_complaint(error)) from None
    if not (config["grid"]["dtypes"] if config["dtype"]["names"] is None
            else config["dtype"]["names"]):  # fmt: skip
        raise UserError("no dtype is named; dtype=float32 names one")
    if config["overwrite"] and config["only_failed"]:
        raise UserError("overwrite=true measures all points again and only_failed=true those that "
                        "failed; choose one")  # fmt: skip
    timing = config["timing"]
    if timing["max_samples"] < timing["min_samples"]:
        raise UserError(
            f"timing.max_samples={timing['max_samples']} is below "
            f"timing.min_samples={timing['min_samples']}"
        )
    if timing["max_samples"] > MOST_SAMPLES:
        raise UserError(
            f"timing.max_samples={timing['max_samples']} makes rows too long to be read again; "
            f"it is at most {MOST_SAMPLES}"
        )
    check_timer(timing["timer"], config["gpu"]["device"])


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
    """Checks that what was chosen of each group is a file of that group's own folder.

    A choice is part of its rows' folder, and Hydra itself would follow it out of ``conf/``.

    Raises:
        UserError: naming the choice at fault.
    """
    for group, choice in choices.items():
        parts = str(choice).split("/")
        if "schema" in parts or not all(re.fullmatch(PLAIN, part) for part in parts):
            raise UserError(f"{group}={choice} names no file of conf/{group}/; --help lists them")


def shared_options(configs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The options of the whole sweep, which no two of its jobs' configurations may differ in.

    Raises:
        UserError: naming the option that differs.
    """
    options = {name: configs[0][name] for name in SHARED}
    for config in configs:
        for name in SHARED:
            if config[name] != options[name]:
                raise UserError(f"{name} belongs to the whole sweep and cannot differ between jobs")
    return options
