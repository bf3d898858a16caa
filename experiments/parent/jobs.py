"""Composes jobs with Hydra: a job is one kernel over one grid in some dtypes on one card.

Hydra gets the options from `experiments.data.jobs.Config`, which also checks their values. Each
option is a field of one of its classes, and has a value and a comment in conf/.
"""

import copy
import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, QuotedString, RangeSweep
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from experiments.data.errors import UserError, on_one_line
from experiments.data.jobs import CONF, FOLDER_NAME, MOST_POINTS, NOT_TUNABLES, Config, read_yaml
from experiments.data.metrics import COPY, GRAPH_TIMERS

GROUPS = {  # the config groups of conf/ that have a schema, such as ``grid`` and ``timing``
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
# Options of the whole sweep; jobs of one sweep may not differ in them.
SHARED = ("out", "rounds", "fresh", "seed", "remeasure", "determinism", "overwrite", "only_failed",
          "only_beside", "dry_run", "tracker")  # fmt: skip
LARGEST_FILE = 1 << 20  # bytes of a configuration
MOST_ALIASES = 20  # YAML aliases in it; nested ones grow exponentially when they are loaded
ONE_CHOICE = ("experiment", "hydra/launcher")  # groups of which a sweep takes one file
CHOSEN = ("kernel", *GROUPS, *ONE_CHOICE)  # groups whose files an override chooses by name
# Hydra's own options that this program accepts.
OF_HYDRA = r"hydra\.(launcher\.(?!_)\w+(\.\w+)*|searchpath)"
NO_LAUNCHER = (
    "would run jobs one by one or beside each other, but kernels must be interleaved on one card; "
    "hydra.launcher.cards=all spreads a sweep over cards, hydra/launcher=slurm over nodes"
)
# Where the advice that Hydra and OmegaConf append to a message begins; --verbose shows it.
TAILS = r"[,.] (?:Config search path: |Set the environment variable: |full_key: |See https://hydra)"
HELP = "python -m experiments.run --help"
OUTSIDE = "outside"  # the file in conf/kernel for a kernel from outside: a function of any file
# Overrides that only such a kernel has. They are not in its job's name: a path is private.
OF_OUTSIDE = tuple(f"kernel.{option}=" for option in ("file", "function", "operation", "traffic"))
# More overrides that a job's name leaves out: its path has them, or they hold for the whole sweep.
CHOICES = ("kernel", "grid", "dtype", "gpu", "experiment", "name", "twin", *SHARED)
UNNAMED = (*OF_OUTSIDE, *(f"{choice}=" for choice in CHOICES), "tracker.", "hydra")
# An override of one value inside a group, which does not change the other options.
VALUE = re.compile(r"(?!hydra\.)\w+(\.\w+)+=")


@dataclass(frozen=True)
class Job:
    """One Hydra job: a kernel over a grid."""

    # its folder below ``out``: grid, dtypes and card, further overrides, and the label, as in
    # ``wide/native-auto/timing=chain/online``
    name: str
    kernel: str  # the kernel's name in rows; of a twin it ends in ``-TWIN``
    config: dict[str, Any]  # the resolved configuration, as `Config`
    shapes: tuple[tuple[int, int], ...]  # (M, N)
    dtypes: tuple[str, ...]
    overrides: tuple[str, ...] = ()  # those it was composed from
    only: frozenset[tuple[str, int, int]] = frozenset()  # (dtype, M, N) to measure; empty: all
    roof: str = COPY  # the operation whose fastest kernel is the roof of this job's rows

    @property
    def label(self) -> str:
        """The kernel with the tunables set for this job, e.g. ``online,block_size=4096``."""
        return self.name.rpartition("/")[2]

    @property
    def neighbours(self) -> str:
        """The name without kernel and tunables; jobs with the same value share their roofs."""
        return self.name.rpartition("/")[0]

    @property
    def shard(self) -> tuple[str, ...]:
        """Grid, card and further overrides; one card runs the jobs of a shard interleaved."""
        grid, setting, *variation = self.neighbours.split("/")
        return grid, setting.partition("-")[2], *variation

    @property
    def in_graph(self) -> bool:
        """Whether its timer captures a CUDA graph, in which PyTorch's copy is no kernel."""
        return self.config["timing"]["timer"] in GRAPH_TIMERS

    @property
    def is_outside(self) -> bool:
        """Whether its kernel comes from a file outside this project."""
        return "file" in self.config["kernel"]

    @property
    def is_roof(self) -> bool:
        """Whether its kernel can be a roof: it is in kernels/roofs and not `COPY` in a graph."""
        target = str(self.config["kernel"].get("_target_"))
        return target.startswith("kernels.roofs.") and not (self.in_graph and self.kernel == COPY)


def register() -> None:
    """Registers the options and their defaults in Hydra; call it before composing."""
    _by_hydra.cache_clear()  # files of conf/ may have changed
    models: dict[str, type[BaseModel]] = {"": Config} | GROUPS
    for group, model in models.items():
        node = {
            name: "???" if field.is_required() else field.get_default(call_default_factory=True)
            for name, field in model.model_fields.items()
        }
        ConfigStore.instance().store(group=group or None, name="schema", node=node)


def _check(override: Override) -> None:
    """Raises `UserError` for an override that Hydra would ignore or answer with a useless error."""
    key, line, value = override.key_or_group, str(override.input_line), override.value()
    if not key:
        raise UserError(f"{line} names no option; {HELP} lists them")
    if re.fullmatch(r"kernel\.(.*\.)?(_target_|by|roof)", key):
        raise UserError(f"{line}: {key} is said in a kernel's file; kernel= chooses the file")
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
            if isinstance(text, Glob):
                continue
            # Hydra would accept a path that leads out of conf/
            parts = text.split("/") if isinstance(text, str) else [""]
            if "schema" in parts or not all(re.fullmatch(FOLDER_NAME, part) for part in parts):
                raise UserError(f"{line} names no file of conf/{key}/; {HELP} lists them")
    elif re.match(r"hydra\b", key) and (override.is_delete() or not re.fullmatch(OF_HYDRA, key)):
        raise UserError(
            f"{line} is not for this program; of Hydra's own, hydra/launcher, hydra.launcher.* and "
            "hydra.searchpath may be set, and out= names the folder that takes the rows"
        )
    elif key == "hydra.searchpath":
        check_folders(value if isinstance(value, list) else [value], line)


def check_folders(folders: Iterable[Any], given: str) -> None:
    """Checks that folders of configurations exist, and that their files are safe to load.

    Raises:
        UserError: a folder is missing (the message names ``given``, the option as typed), or a
            file is too large or has too many aliases.
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


def _values_of(override: Override) -> list[str]:
    """An override as strings ``key=value``: one for each value of its list or glob."""
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


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """For each job of a command line its overrides; what was typed overrides a preset's.

    Hydra must be initialized.

    Raises:
        UserError: an override is refused; the message names it.
        HydraException: one is not in Hydra's grammar, or there is no such preset.
    """
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    typed = parser.parse_overrides([*overrides])
    for override in typed:
        _check(override)
    whole = [o for o in overrides if o.startswith(("experiment=", "hydra.searchpath="))]
    if any(o.startswith("experiment=") for o in whole):
        preset = hydra.compose("config", whole, return_hydra_config=True)
        given = preset.hydra.sweeper.params or {}
        typed = parser.parse_overrides([f"{key}={value}" for key, value in given.items()]) + typed
    found = {override.get_key_element(): _values_of(override) for override in typed}
    names = list(dict.fromkeys(one.partition("=")[2] for one in found.get("kernel", ["="])))
    kernels = [_of_kernel(name, names, found) for name in names]
    if (count := sum(math.prod(map(len, own)) for own in kernels)) > MOST_POINTS:
        raise UserError(f"{count} jobs; a sweep has at most {MOST_POINTS} points")
    return [list(job) for own in kernels for job in itertools.product(*own)]


def _of_kernel(
    name: str, names: Sequence[str], found: Mapping[str, Sequence[str]]
) -> list[Sequence[str]]:
    """For each override its values for the kernel ``name``; ``names`` are all of the sweep."""
    own: list[Sequence[str]] = []
    for key, values in found.items():
        of = re.match(r"([+~]*kernel\.)([\w-]+)\.", key)
        if key == "kernel":
            own.append([f"kernel={name}"])
        elif of and of[2] in names:  # for one kernel, as kernel.online.block_size=64
            own += [[of[1] + one[of.end() :] for one in values]] * (of[2] == name)
        elif name == OUTSIDE or OUTSIDE not in names or f"{key}=".lstrip("+~") not in OF_OUTSIDE:
            own.append(values)
    return own


def options_of(jobs: Sequence[Job]) -> dict[str, Any]:
    """The options in `SHARED`, which all jobs of a sweep have in common.

    Raises:
        UserError: jobs differ in one, or have more than `MOST_POINTS` points.
    """
    options = {name: jobs[0].config[name] for name in SHARED}
    for name in SHARED:
        if any(job.config[name] != options[name] for job in jobs):
            raise UserError(f"{name} belongs to the whole sweep and cannot differ between jobs")
    points = sum(len(job.shapes) * len(job.dtypes) * options["rounds"] for job in jobs)
    if points > MOST_POINTS:
        raise UserError(
            f"the sweep has {points} points, more than the {MOST_POINTS} that are taken; "
            "choose fewer kernels, shapes or rounds"
        )
    return options


def with_roofs(jobs: Iterable[Job]) -> Iterator[Job]:
    """The jobs without repetitions, and then a job ``kernel=ROOF`` for each roof that is missing.

    A kernel's file in conf/kernel names its roof by ``roof:``; the default is the copy. In a CUDA
    graph the job of the copy is ``kernel=copy_triton``.
    """
    found: dict[str, Job] = {}
    for job in jobs:
        if job.name not in found or job.config != found[job.name].config:
            found[job.name] = job
            yield job
    roofed = {(job.neighbours, job.roof) for job in found.values() if job.is_roof}
    for job in found.values():
        if (job.neighbours, job.roof) not in roofed:
            roofed.add((job.neighbours, job.roof))
            kept = [o for o in job.overrides if not re.match(r"[+~]*(kernel[.=]|twin=)", o)]
            name = "copy_triton" if job.roof == COPY and job.in_graph else job.roof
            yield compose([*kept, f"kernel={name}"])


def configuration_of(overrides: Sequence[str]) -> tuple[DictConfig, DictConfig]:
    """A job's configuration, and Hydra's own. Hydra must be initialized.

    Composing takes 150 ms, so jobs that differ only in values share it; a copy gets the values.
    """
    values = [one for one in overrides if VALUE.match(one)]
    shared, of_hydra = _by_hydra(tuple(one for one in overrides if one not in values))
    own = copy.deepcopy(shared)
    try:
        for override in OverridesParser.create().parse_overrides(values):
            OmegaConf.update(own, override.key_or_group, override.value())
    except (HydraException, OmegaConfBaseException):  # composing it raises a better message
        return _by_hydra(tuple(overrides))
    return own, of_hydra


@cache
def _by_hydra(overrides: tuple[str, ...]) -> tuple[DictConfig, DictConfig]:
    whole = hydra.compose("config", [*overrides], return_hydra_config=True)
    own = OmegaConf.masked_copy(whole, [str(key) for key in whole if key != "hydra"])
    OmegaConf.set_struct(own, True)  # refuses options that do not exist
    return own, whole.hydra


def compose(overrides: Sequence[str]) -> Job:
    """Composes one job and checks its options. Hydra must be initialized.

    Raises:
        UserError: an option is missing or wrong; the message names it.
        HydraException, OmegaConfBaseException: it cannot be composed.
    """
    own, of_hydra = configuration_of(overrides)
    choices = of_hydra.runtime.choices
    try:
        found: dict[str, Any] = OmegaConf.to_container(  # type: ignore[assignment]
            own, resolve=True, throw_on_missing=True
        )
        found.pop("experiment", None)
        kernel = found.get("kernel") or {}
        about = {name: kernel.pop(name, None) for name in NOT_TUNABLES}
        checked = Config.model_validate(found)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} is missing; each job has one") from None
    except ValidationError as error:
        raise UserError(_complaint(error)) from None
    resolved, name = checked.model_dump(), choices["kernel"]
    if "file" in resolved["kernel"]:
        file = Path(str(resolved["kernel"]["file"])).expanduser().resolve()
        name = outside_name(file, str(resolved["kernel"].get("function")))
        resolved["kernel"]["file"] = str(file)
    kernel = "-".join(filter(None, [name, checked.twin]))
    named = sorted(o.lstrip("+~") for o in overrides if not o.lstrip("+~").startswith(UNNAMED))
    tunables = [one.removeprefix("kernel.") for one in named if one.startswith("kernel.")]
    others = [one for one in named if not one.startswith("kernel.")]
    grid, dtype, gpu = (choices[group].replace("/", "_") for group in ("grid", "dtype", "gpu"))
    parts = [grid, f"{dtype}-{gpu}", _safe(",".join(others)), _safe(",".join([kernel, *tunables]))]
    return Job(
        name="/".join(filter(None, parts)),
        kernel=kernel,
        config=resolved,
        shapes=tuple(checked.grid.expand()),
        dtypes=tuple(checked.dtype.names or checked.grid.dtypes),
        overrides=tuple(overrides),
        roof=about["roof"] or COPY,
    )


def _complaint(error: ValidationError) -> str:
    """A message with the first wrong option, its value, and what it must be."""
    first = error.errors()[0]
    option, place = ".".join(map(str, first["loc"])), first["loc"]
    if first["type"] == "extra_forbidden":
        model = GROUPS.get(str(place[0]), Config) if len(place) > 1 else Config
        return f"{option} is not an option; there are {', '.join(model.model_fields)}"
    if first["type"] == "missing":
        return f"{option} is missing; each job has one"
    if first["type"] == "value_error":
        return ": ".join(filter(None, [option, str(first["ctx"]["error"])]))
    reason = re.sub("^(Input|String) should", "it must", first["msg"])
    return f"{option}={str(first['input'])[:100]}; {reason}"


def outside_name(file: Path, function: str) -> str:
    """An outside kernel's name in rows: FUNCTION, or FILE.FUNCTION if conf/kernel has that name."""
    taken = (CONF / "kernel" / f"{function}.yaml").is_file()
    return f"{file.stem}.{function}" if taken else function


def kernel_of_today(name: str, recorded: dict[str, Any]) -> dict[str, Any]:
    """A recorded kernel's configuration, for the class and the tunables that it has today.

    Raises:
        ValueError: its class is not below ``kernels/``; anybody may have made the recording.
    """
    if not re.fullmatch(r"kernels(\.\w+)+", str(recorded.get("_target_"))):
        raise ValueError("kernel._target_ is no class below kernels")
    today = read_yaml(CONF / "kernel").get(name.partition("-")[0], recorded)  # without ``-TWIN``
    own = {key: recorded.get(key, value) for key, value in today.items() if key not in NOT_TUNABLES}
    return own | {"_target_": today["_target_"]}


def _safe(text: str) -> str:
    """Text as a folder's name: plain characters, 80 at most; a hash keeps changed ones distinct."""
    plain = re.sub(r"[^\w.,=+-]", "_", text)
    if plain == text and len(text) <= 80:
        return text
    return f"{plain[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def reason_of(error: Exception) -> str:
    """A message in this program's words for an error of Hydra or OmegaConf."""
    text = on_one_line(str(error))
    if isinstance(error, OverrideParseException) and "while evaluating" not in text:
        if re.search(r"[=,([{]\s*,|,\s*([)\]}]|$)", error.override):
            return f"{error.override} has an empty element; remove a comma"
        return f"{error.override} is not in Hydra's grammar; quote a value with special characters"
    if absent := re.search(r"Could not find '([\w/]+)/([^'/]+)', Available .*?: (.*)", text):
        group, name, names = absent.groups()
        if group == "hydra/launcher":
            return f"{group}={name} {NO_LAUNCHER}"
        near = " or ".join(get_close_matches(name, names.split(", ")))
        hint = f" did you mean {near}?" if near else ""
        return f"{group}={name} names no file of conf/{group}/;{hint} {HELP} lists them"
    if option := re.match(r"Could not override 'kernel\.options\.(\w+)'\.", text):
        return f"an option of a function is added by +: +kernel.outside.options.{option[1]}=VALUE"
    if tunable := re.match(r"Could not override 'kernel\.(\w+)'\.", text):
        return (
            f"a kernel of this sweep has no {tunable[1]!r}; kernel.NAME.{tunable[1]}= sets that of "
            "one kernel, and conf/kernel/NAME.yaml lists its options"
        )
    if unknown := re.match(r"Could not override '([\w.@/]+)'\.", text):
        return f"there is no option {unknown[1]!r}; one is written as grid.rows; {HELP} lists them"
    if isinstance(error.__cause__, OmegaConfBaseException):
        text = on_one_line(f"{error}\n{error.__cause__}")
    return re.split(TAILS, text)[0]
