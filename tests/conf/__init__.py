from functools import cache
from typing import Any

import yaml
from omegaconf import OmegaConf

from experiments.data.jobs import NOT_TUNABLES, GridConfig
from experiments.parent.jobs import OUTSIDE
from experiments.worker.describe import build_kernel
from kernels.kernel import Kernel
from tests.conftest import CONF

# A function of any file is no variant of this project
KERNELS = sorted({path.stem for path in (CONF / "kernel").glob("*.yaml")} - {OUTSIDE})


def options(group: str) -> list[str]:
    """The names that a group offers."""
    folder = CONF / group
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))


def kernel(name: str) -> dict[str, Any]:
    """A kernel's target and tunables, without what its file says about it."""
    config = yaml.safe_load((CONF / "kernel" / f"{name}.yaml").read_text(encoding="utf-8"))
    return {key: value for key, value in config.items() if key not in NOT_TUNABLES}


@cache
def built(name: str, **tunables: Any) -> Kernel:
    """A kernel as its file has it, but for these tunables."""
    return build_kernel(kernel(name) | tunables)


def expand(grid: Any) -> list[tuple[int, int]]:
    """The shapes of a composed grid."""
    return GridConfig.model_validate(OmegaConf.to_container(grid, resolve=True)).expand()
