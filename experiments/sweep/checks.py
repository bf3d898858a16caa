"""What is wrong with a configuration beyond its types, said before anything starts."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.data.rows import TIMERS
from experiments.errors import UserError
from experiments.sweep.config import GPU, DType, Experiment, Grid, Timing, Tracker

DTYPES = ("float32", "float16", "bfloat16", "float64")
GROUPS = {kind.__name__: kind for kind in (Grid, DType, GPU, Timing, Tracker)}

# Options of the whole sweep; jobs of one sweep may not differ in them.
SHARED = ("out", "rounds", "fresh", "seed", "remeasure", "overwrite", "only_failed", "dry_run",
          "tracker")  # fmt: skip
MOST_POINTS = 500_000  # half a day of an H200's; planning holds each of them in memory
LONGEST_S = 86400.0
PLAIN = re.compile(r"\w[\w.,=+-]*")  # a name that is one folder's, and climbs out of none


def check(config: dict[str, Any]) -> None:
    """Checks what types alone do not say of one job's resolved configuration.

    Raises:
        UserError: naming the option at fault.
    """
    _known(config, Experiment, "")
    timing = config["timing"]
    names = config["dtype"]["names"]
    names = config["grid"]["dtypes"] if names is None else names
    if not names:
        raise UserError(f"no dtype is named; use some of {', '.join(DTYPES)}")
    for name in names:
        if name not in DTYPES:
            raise UserError(f"dtype {name!r} is unknown; use one of {', '.join(DTYPES)}")
    tracker = config["tracker"]
    if tracker["backend"] not in ("wandb", "none"):
        raise UserError(f"tracker.backend={tracker['backend']}; use wandb or none")
    if tracker["mode"] not in ("offline", "online"):
        raise UserError(f"tracker.mode={tracker['mode']}; use offline or online")
    if timing["timer"] not in ("auto", *TIMERS):
        raise UserError(f"timing.timer={timing['timer']}; use one of auto, {', '.join(TIMERS)}")
    if timing["cache"] not in ("cold", "warm"):
        raise UserError(f"timing.cache={timing['cache']}; use cold or warm")
    positive = ("min_samples", "max_samples", "precision", "sampling_limit_s", "compile_limit_s")
    for field in positive:
        if not 0 < timing[field] < math.inf:
            raise UserError(f"timing.{field}={timing[field]}; it must be above zero and finite")
    for field in ("sampling_limit_s", "compile_limit_s"):
        if timing[field] > LONGEST_S:
            raise UserError(f"timing.{field}={timing[field]}; at most {LONGEST_S:g} s, a day")
    if timing["warmup"] < 0:
        raise UserError(f"timing.warmup={timing['warmup']}; it must be zero or more")
    if timing["max_samples"] < timing["min_samples"]:
        raise UserError(
            f"timing.max_samples={timing['max_samples']} is below "
            f"timing.min_samples={timing['min_samples']}"
        )
    if not config["out"].strip() or "\0" in config["out"]:
        raise UserError("out= is empty or no path; name the folder that takes the rows")
    if abs(config["seed"]) >= 1 << 62:
        raise UserError(f"seed={config['seed']}; it must be below 2^62 in size")
    if config["rounds"] < 1:
        raise UserError(f"rounds={config['rounds']}; it must be 1 or more")
    if not PLAIN.fullmatch(config["name"]):
        raise UserError(
            f"name={config['name']}; use letters, digits and .,=+-_ (out= may name any folder)"
        )
    twin = config["twin"]
    if twin is not None and not re.fullmatch(r"[A-Za-z0-9]+", str(twin)):
        raise UserError(f"twin={twin}; use letters and digits")
    if config["gpu"]["card"] is not None and config["gpu"]["card"] < 0:
        raise UserError(f"gpu.card={config['gpu']['card']}; it must be 0 or more")


def _known(config: dict[str, Any], kind: type, path: str) -> None:
    """Refuses keys the schema lacks: a ``+key=value`` override slips past Hydra's own check."""
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key, value in config.items():
        if key not in fields:
            raise UserError(f"{path}{key} is no option; there are {', '.join(fields)}")
        group = GROUPS.get(str(fields[key].type))
        if group and isinstance(value, dict):
            _known(value, group, f"{path}{key}.")


def check_choices(choices: Mapping[str, str | None]) -> None:
    """Checks that what was chosen of each group is a file of that group's own folder.

    A choice is part of its rows' folder, and Hydra itself would follow it out of ``conf/``.

    Raises:
        UserError: naming the choice at fault.
    """
    for group, choice in choices.items():
        parts = str(choice).split("/")
        if not all(PLAIN.fullmatch(part) for part in parts):
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


def check_size(points: int, rounds: int) -> None:
    """Checks that a sweep is of a size that somebody could want; the dry run tells its hours.

    Raises:
        UserError: saying how many points it has.
    """
    if points * rounds > MOST_POINTS:
        raise UserError(
            f"the sweep has {points * rounds} points, more than the {MOST_POINTS} that are taken; "
            "choose fewer kernels, shapes or rounds"
        )
