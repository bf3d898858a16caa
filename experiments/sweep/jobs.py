"""Jobs: one kernel over one grid in some dtypes on one card, as Hydra composes them."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from experiments.data.files import validated
from experiments.data.jobs import ABOUT, CONF, MOST_POINTS, Config
from experiments.errors import UserError
from experiments.sweep.config import SHARED, check_override, values_of

OUTSIDE = "outside"  # the configuration of a function of any file
# These say which kernel from outside is meant: its name in rows says it, and a path is private.
PLACED = re.compile(r"[+~]*kernel\.(file|function|operation|traffic)=")
ROOF = "copy"  # of a kernel whose file names no other
# These choose a job's place, or how the sweep is run; they are not variations of what is measured.
ELSEWHERE = re.compile(
    PLACED.pattern
    + r"|[+~]*((kernel|grid|dtype|gpu|experiment|name|twin|"
    + "|".join(SHARED)
    + r")=|(tracker|hydra)[./])"
)


@dataclass(frozen=True)
class Job:
    """One Hydra job.

    Attributes:
        kernel: Name of the kernel's configuration, and its twin's mark if any, as rows spell it.
        label: The kernel with the tunables set for this job, e.g. ``online,block_size=4096``.
        grid: Name of the grid.
        dtypes: Names of the dtypes to run.
        dtype: Name of the dtypes' configuration.
        gpu: Name of the card's configuration.
        variation: What else the overrides say of it, so that jobs that differ have two folders.
        shapes: Pairs (M, N).
        config: The whole resolved configuration.
        overrides: What it was composed from.
        skipped: By dtype, M and N the points that another shard measures.
        roof: The operation whose fastest kernel is its roof.
    """

    kernel: str
    label: str
    grid: str
    dtypes: tuple[str, ...]
    dtype: str
    gpu: str
    variation: str
    shapes: tuple[tuple[int, int], ...]
    config: dict[str, Any]
    overrides: tuple[str, ...]
    skipped: frozenset[tuple[str, int, int]] = frozenset()
    roof: str = ROOF

    @property
    def name(self) -> str:
        """Its place among the jobs of a sweep, also its folder below ``out``."""
        place = f"{self.grid}/{self.dtype}-{self.gpu}"
        return "/".join(filter(None, [place, self.variation, self.label]))

    @property
    def operation(self) -> str:
        """The folder of `kernels` that its kernel's class is in, empty if it is in none."""
        package, _, module = str(self.config["kernel"].get("_target_")).partition(".")
        return module.partition(".")[0] if package == "kernels" else ""

    @property
    def shard(self) -> tuple[str, str, str]:
        """Jobs of one shard run on one card with their points interleaved."""
        return self.grid, self.gpu, self.variation

    @property
    def neighbours(self) -> tuple[str, str, str, str]:
        """Jobs that differ in nothing but the kernel, and so share a roof."""
        return self.grid, self.dtype, self.gpu, self.variation


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each job that a command line asks for, a preset's before those typed.

    Hydra's context must be entered.

    Raises:
        UserError: naming the override at fault.
        HydraException: one is not in Hydra's grammar, or the preset is none.
    """
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    typed = parser.parse_overrides([*overrides])
    for override in typed:
        check_override(override)
    whole = [o for o in overrides if o.startswith(("experiment=", "hydra.searchpath="))]
    if any(o.startswith("experiment=") for o in whole):
        preset = hydra.compose("config", whole, return_hydra_config=True)
        given = preset.hydra.sweeper.params or {}
        typed = parser.parse_overrides([f"{key}={value}" for key, value in given.items()]) + typed
    found = {override.get_key_element(): values_of(override) for override in typed}
    if (count := math.prod(map(len, found.values()))) > MOST_POINTS:
        raise UserError(f"{count} jobs; a sweep has at most {MOST_POINTS} points")
    return own_overrides([list(job) for job in itertools.product(*found.values())])


def composed(overrides: Sequence[str]) -> DictConfig:
    """A job's configuration with Hydra's own part, in Hydra's context."""
    return hydra.compose("config", [*overrides], return_hydra_config=True)


def compose(overrides: Sequence[str]) -> Job:
    """One job, composed and checked, in Hydra's context; raises as `job_from` and Hydra do."""
    return job_from(composed(overrides), overrides)


def own_overrides(jobs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Each job's overrides, without those that are another kernel's alone; equal jobs once.

    ``kernel.online.block_size=64`` is the tunable of one kernel of several, and ``kernel.file=``
    the file of the kernel from outside.
    """
    chosen = [next((o[7:] for o in job if o.startswith("kernel=")), "") for job in jobs]
    found: dict[tuple[str, ...], None] = {}
    for name, job in zip(chosen, jobs, strict=True):
        mine = []
        for override in job:
            of = re.match(r"([+~]*)kernel\.([\w-]+)\.", override)
            if of and of[2] in chosen:
                if of[2] == name:
                    mine.append(f"{of[1]}kernel.{override[of.end() :]}")
            elif name == OUTSIDE or OUTSIDE not in chosen or not PLACED.match(override):
                mine.append(override)
        found[tuple(mine)] = None
    return list(map(list, found))


def options_of(jobs: Sequence[Job]) -> dict[str, Any]:
    """The options of a whole sweep.

    Raises:
        UserError: jobs differ in one, or have more points than anybody could want.
    """
    options = {name: jobs[0].config[name] for name in SHARED}
    for name in SHARED:
        if any(job.config[name] != options[name] for job in jobs):
            raise UserError(f"{name} belongs to the whole sweep and cannot differ between jobs")
    points = sum(len(job.shapes) * len(job.dtypes) * options["rounds"] for job in jobs)
    if points > MOST_POINTS:  # a dry run estimates the hours of fewer
        raise UserError(
            f"the sweep has {points} points, more than the {MOST_POINTS} that are taken; "
            "choose fewer kernels, shapes or rounds"
        )
    return options


def with_roofs(jobs: Iterable[Job]) -> Iterator[Job]:
    """The jobs, each once, and then for those that have no roof its job: ``kernel=`` its name.

    A kernel's file names the operation that is its roof (``roof:``), where that is not the copy.
    """
    found: dict[str, Job] = {}
    for job in jobs:
        if job.name not in found or job.config != found[job.name].config:
            found[job.name] = job
            yield job
    roofed = {(job.neighbours, job.operation) for job in found.values()}
    for job in found.values():
        if (job.neighbours, job.roof) not in roofed:
            roofed.add((job.neighbours, job.roof))
            kept = [o for o in job.overrides if not re.match(r"[+~]*(kernel[.=]|twin=)", o)]
            yield compose([*kept, f"kernel={job.roof}"])


def job_from(config: DictConfig, overrides: Sequence[str]) -> Job:
    """Checks a composed configuration and makes it a job.

    Raises:
        UserError: naming the option at fault.
    """
    choices = config.hydra.runtime.choices
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    try:
        found: dict[str, Any] = OmegaConf.to_container(  # type: ignore[assignment]
            own, resolve=True, throw_on_missing=True
        )
        found.pop("experiment", None)
        kernel = found.get("kernel") or {}
        about = {name: kernel.pop(name, None) for name in ABOUT}
        checked = validated(Config, found)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} is missing; each job has one") from None
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(re.sub("^field '(.*?)'", r"\1", str(error).splitlines()[0])) from None
    resolved = checked.model_dump()
    name = outside_name(resolved["kernel"]) or choices["kernel"]
    kernel = "-".join(filter(None, [name, checked.twin]))
    plain = [one.lstrip("+~") for one in overrides if not ELSEWHERE.match(one)]
    tunables = sorted(o.removeprefix("kernel.") for o in plain if o.startswith("kernel."))
    others = sorted(one for one in plain if not one.startswith("kernel."))
    return Job(
        kernel=kernel,
        label=_safe(",".join([kernel, *tunables])),
        grid=choices["grid"],
        dtypes=tuple(checked.dtype.names or checked.grid.dtypes),
        dtype=choices["dtype"],
        gpu=choices["gpu"],
        variation=_safe(",".join(others)),
        shapes=tuple(checked.grid.expand()),
        config=resolved,
        overrides=tuple(overrides),
        roof=about["roof"] or ROOF,
    )


def outside_name(kernel: dict[str, Any]) -> str | None:
    """The name in rows of a kernel from outside: its function's; None of a kernel of ``kernels/``.

    The file becomes an absolute path. A function that is called as a kernel of ours gets its file's
    name in front.

    Raises:
        UserError: there is no such file, or no function is named.
    """
    if "file" not in kernel:
        return None
    path, function = Path(str(kernel["file"])).expanduser(), str(kernel.get("function"))
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"kernel.file={kernel['file']} is no Python file")
    if not function.isidentifier():
        raise UserError(f"kernel.function={function}; name a function of {path.name}")
    kernel["file"] = str(path.resolve())
    taken = (CONF / "kernel" / f"{function}.yaml").is_file()
    return f"{path.stem}.{function}" if taken else function


def _safe(text: str) -> str:
    """Text as the name of a folder: plain characters, short, and still distinct."""
    plain = re.sub(r"[^\w.,=+-]", "_", text)
    if plain == text and len(text) <= 80:
        return text
    return f"{plain[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
