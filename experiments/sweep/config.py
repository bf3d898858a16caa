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
from omegaconf import MISSING
from pydantic import BaseModel, ValidationError

from experiments.data.jobs import (
    PLAIN,
    Config,
    DtypeConfig,
    GpuConfig,
    GridConfig,
    TimingConfig,
    TrackerConfig,
)
from experiments.errors import UserError

GROUPS: dict[str, type[BaseModel]] = {
    "grid": GridConfig,
    "dtype": DtypeConfig,
    "gpu": GpuConfig,
    "timing": TimingConfig,
    "tracker": TrackerConfig,
}
# Options of the whole sweep; jobs of one sweep may not differ in them.
SHARED = ("out", "rounds", "fresh", "seed", "remeasure", "overwrite", "only_failed", "dry_run",
          "tracker")  # fmt: skip


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


def check(config: dict[str, Any]) -> None:
    """Checks what types alone do not say of one job's resolved configuration.

    Raises:
        UserError: naming the option at fault and what would be right.
    """
    out = config["out"]
    if not out.strip() or "\0" in out:
        raise UserError("out= is empty or no path; name the folder that takes the rows")
    try:
        Config.model_validate(config | {"out": Path(out).name})
    except ValidationError as error:
        raise UserError(_complaint(error)) from None
    if not (config["grid"]["dtypes"] if config["dtype"]["names"] is None
            else config["dtype"]["names"]):  # fmt: skip
        raise UserError("no dtype is named; dtype=float32 names one")
    timing = config["timing"]
    if timing["max_samples"] < timing["min_samples"]:
        raise UserError(
            f"timing.max_samples={timing['max_samples']} is below "
            f"timing.min_samples={timing['min_samples']}"
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
    reasons = [re.sub("^(Input should|String should)", "it must", one["msg"]) for one in same]
    return f"{option}={first['input']}; {' or '.join(reasons)}"


def check_choices(choices: Mapping[str, str | None]) -> None:
    """Checks that what was chosen of each group is a file of that group's own folder.

    A choice is part of its rows' folder, and Hydra itself would follow it out of ``conf/``.

    Raises:
        UserError: naming the choice at fault.
    """
    for group, choice in choices.items():
        if not all(re.fullmatch(PLAIN, part) for part in str(choice).split("/")):
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
