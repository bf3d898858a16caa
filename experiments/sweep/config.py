"""The options of a sweep: Hydra learns them from `experiments.data.jobs.Config`, which checks them.

An option is a field of one of its classes, and a value with a comment in conf/.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, QuotedString, RangeSweep
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel

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
ONE_CHOICE = ("experiment", "hydra/launcher")
CHOSEN = ("kernel", *GROUPS, *ONE_CHOICE)
# Of Hydra's own options these do something here.
OURS = r"hydra\.(launcher\.(?!_)\w+(\.\w+)*|searchpath)"
OF_HYDRA = (
    "is not for this program; of Hydra's own, hydra/launcher and hydra.launcher.* may be set, and "
    "out= names the folder that takes the rows"
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
    if isinstance(value, RangeSweep):
        length = abs((value.stop or 0) - (value.start or 0))
        if not 0 < length <= MOST_POINTS * abs(value.step):
            raise UserError(f"{line}: a range has 1 to {MOST_POINTS} values")
    if key in CHOSEN and not isinstance(value, Glob) and line != "~experiment":
        names = value.list if isinstance(value, ChoiceSweep) else [value]
        if len(names) > 1 and key in ONE_CHOICE:
            raise UserError(f"{line}: a sweep has one {key}; run one after the other")
        for name in names:
            text = name.text if isinstance(name, QuotedString) else name
            # Hydra would follow a name out of conf/
            parts = text.split("/") if isinstance(text, str) else [""]
            if "schema" in parts or not all(re.fullmatch(PLAIN, part) for part in parts):
                raise UserError(f"{line} names no file of conf/{key}/; --help lists them")
    elif re.match(r"hydra\b", key) and (override.is_delete() or not re.fullmatch(OURS, key)):
        raise UserError(f"{line} {OF_HYDRA}")


def values_of(override: Override) -> list[str]:
    """What an override is in jobs: ``key=value``, of a list or a glob one for each value.

    Raises:
        UserError: the list or the glob has no value.
    """
    key = override.get_key_element()
    if override.is_delete():
        return [str(override.input_line)]
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep() or not (found := [*override.sweep_string_iterator()]):
        raise UserError(f"{override.input_line}: the list or the glob has no value")
    return [f"{key}={one}" for one in found]


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
