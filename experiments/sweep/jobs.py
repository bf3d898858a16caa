"""Jobs: one kernel over one grid in some dtypes on one card, as Hydra composes them."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# Hydra has no public way to compose many jobs from files that are read once: `hydra.compose` reads
# and merges all of them for each job, about 0.1 s, where a sweep has a hundred jobs.
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import Overrides, create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from experiments.child import ROOT
from experiments.data.jobs import BY, MOST_POINTS, expand
from experiments.errors import UserError
from experiments.sweep.config import GROUPS, check, check_choices

ROOF = "copy"  # of an operation that names no other


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


Compose = Callable[[list[str]], Job]


def job_from(config: DictConfig, choices: Mapping[str, Any], overrides: list[str]) -> Job:
    """Checks a composed configuration and makes it a job.

    Args:
        config: What was composed, without Hydra's own part.
        choices: The file that was chosen of each group.
        overrides: What it was composed from.

    Raises:
        UserError: naming the option at fault.
    """
    check_choices({group: choices[group] for group in ("kernel", *GROUPS)})
    grid, dtype, gpu = choices["grid"], choices["dtype"], choices["gpu"]
    try:
        resolved: dict[str, Any] = OmegaConf.to_container(  # type: ignore[assignment]
            config, resolve=True, throw_on_missing=True
        )
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} is missing; each job has one") from None
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from None
    resolved.pop("experiment", None)
    resolved["kernel"].pop(BY, None)
    check(resolved)
    kernel = "-".join(filter(None, [choices["kernel"], resolved["twin"]]))
    try:
        shapes = expand(resolved["grid"])
    except ValueError as error:
        raise UserError(f"grid={grid}: {error}") from error
    tunables, others = _split(overrides)
    if any(one.startswith(f"{BY}=") for one in tunables):
        raise UserError(f"kernel.{BY} says who made a kernel, in its file; it is no tunable")
    return Job(
        kernel=kernel,
        label=_safe(",".join([kernel, *tunables])),
        grid=grid,
        dtypes=tuple(resolved["dtype"]["names"] or resolved["grid"]["dtypes"]),
        dtype=dtype,
        gpu=gpu,
        variation=_safe(",".join(others)),
        shapes=tuple(shapes),
        config=resolved,
        overrides=tuple(overrides),
    )


def with_roofs(jobs: Sequence[Job], compose: Compose) -> list[Job]:
    """The jobs, each once, and beside those that have no roof its job: ``kernel=`` its name."""
    found = list({job.name: job for job in jobs}.values())
    roofed = {(job.neighbours, job.operation) for job in found}
    for job in list(found):
        for roof in roofs_of(job.operation):
            if (job.neighbours, roof) not in roofed:
                roofed.add((job.neighbours, roof))
                kept = [o for o in job.overrides if not re.match(r"[+~]*(kernel[.=]|twin=)", o)]
                found.append(compose([*kept, f"kernel={roof}"]))
    return found


@cache
def roofs_of(folder: str) -> tuple[str, ...]:
    """The roofs that the operations of a folder of `kernels` name.

    They are read as text, for the parent imports no kernel: which of several operations a kernel
    carries out only a worker knows.
    """
    modules = (ROOT / "kernels" / folder / name for name in ("operation.py", "__init__.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules if path.is_file())
    said = re.findall(r'^    (name|roof) = "(\w+)"$', text if folder else "", re.MULTILINE)
    named = [value for key, value in said if key == "roof"]
    silent = len(named) < len(said) - len(named) or not named
    return tuple(dict.fromkeys([*named, *[ROOF] * silent]))


# These choose a job's place, or how the sweep is run; they are not variations of what is measured.
_ELSEWHERE = re.compile(
    r"[+~]*(kernel|grid|dtype|gpu|tracker|experiment|name|out|twin|rounds|fresh|seed|remeasure"
    r"|determinism|overwrite|only_failed|dry_run|(tracker|hydra)[./].*)="
)


def _split(overrides: list[str]) -> tuple[list[str], list[str]]:
    tunables = sorted(o.lstrip("+")[len("kernel.") :] for o in overrides if "kernel." in o[:9])
    others = [o for o in overrides if "kernel." not in o[:9] and not _ELSEWHERE.match(o)]
    return tunables, sorted(others)


def _safe(text: str) -> str:
    """Text as the name of a folder: plain characters, short, and still distinct."""
    plain = re.sub(r"[^\w.,=+-]", "_", text)
    if plain == text and len(text) <= 80:
        return text
    return f"{plain[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class SweepLoader(ConfigLoaderImpl):
    """Composes as Hydra does, but each file is read once and the same files are merged once.

    Values are overridden after that, on a copy for each job.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _CachedRepository(config_search_path)
        self._chosen: dict[tuple[str, ...], tuple[DictConfig, dict[str, Any]]] = {}
        self._merged: dict[str, DictConfig] = {}

    def job(self, master: DictConfig, overrides: list[str]) -> Job:
        """A job of the sweep whose composed configuration is ``master``.

        Hydra's own part is the sweep's and the same for all jobs, so none composes it again.

        Raises:
            UserError: naming the option at fault.
            ConfigCompositionException: likewise, where Hydra finds it.
        """
        name, lines = master.hydra.job.config_name, [*master.hydra.overrides.hydra, *overrides]
        parsed, repo = self._parse_overrides_and_create_caching_repo(name, lines)
        values = [o for o in Overrides(repo, parsed).config_overrides if not o.is_hydra_override()]
        choices = tuple(str(o.input_line) for o in parsed if o not in values)
        if choices not in self._chosen:
            found = create_defaults_list(repo, name, parsed, prepend_hydra=True, skip_missing=False)
            files = [file for file in found.defaults if not _is_hydras(str(file.config_path))]
            merged = super()._compose_config_from_defaults_list(files, repo)
            common = OmegaConf.masked_copy(merged, [str(k) for k in merged if k != "hydra"])
            OmegaConf.set_struct(common, True)
            self._chosen[choices] = common, found.overrides.known_choices
        common, chosen = self._chosen[choices]
        config = copy.deepcopy(common)
        self._apply_overrides_to_config(values, config)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        return job_from(config, chosen, overrides)

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        sources = [(source.provider, source.path) for source in repo.get_sources()]
        key = repr((sources, defaults))
        if key not in self._merged:
            self._merged[key] = super()._compose_config_from_defaults_list(defaults, repo)
        return copy.deepcopy(self._merged[key])


def _is_hydras(path: str) -> bool:
    """Whether a file is of Hydra's own part; the one that other files add to is left in."""
    return path.startswith("hydra/") and path != "hydra/config"


class _CachedRepository(ConfigRepository):
    """Config files and schemas, each read when first asked for; the caller gets a copy."""

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Looks in these places from now on, and forgets what was read elsewhere."""
        super().initialize_sources(config_search_path)
        self._read: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """A file or schema with its header, None where there is none."""
        if config_path not in self._read:
            self._read[config_path] = super().load_config(config_path)
        return copy.deepcopy(self._read[config_path])

    def __deepcopy__(self, memo: dict[int, Any]) -> _CachedRepository:
        """Hydra copies its repository for each job, since a job may add places to look in."""
        return copy.copy(self)


def check_size(jobs: Sequence[Job]) -> None:
    """Checks that somebody could want a sweep of this size; a dry run estimates its hours.

    Raises:
        UserError: saying how many points it has.
    """
    points = sum(len(job.shapes) * len(job.dtypes) * job.config["rounds"] for job in jobs)
    if points > MOST_POINTS:
        raise UserError(
            f"the sweep has {points} points, more than the {MOST_POINTS} that are taken; "
            "choose fewer kernels, shapes or rounds"
        )
