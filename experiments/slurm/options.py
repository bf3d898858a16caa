"""What is asked of Slurm for each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.errors import UserError


@dataclass(frozen=True)
class Options:
    """The values of ``conf/hydra/launcher/slurm.yaml``, which says what each is.

    Raises:
        UserError: one of them is of no use, by name.
    """

    partition: str | None = None
    account: str | None = None
    gres: str | None = None
    constraint: str | None = None
    time: int = 60
    cpus_per_task: int = 1
    array_parallelism: int = 64
    setup: Sequence[str] = ()
    more: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("time", "cpus_per_task", "array_parallelism"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                unit = " of minutes" if name == "time" else ""
                raise _wrong(name, value, f"a whole number{unit}, 1 or more")
        for name in ("partition", "account", "gres", "constraint"):
            value = getattr(self, name)
            if value is not None and (not str(value).strip() or "\n" in str(value)):
                raise _wrong(name, value, "a word of sbatch's, or null")
        if isinstance(self.setup, str) or not all(isinstance(line, str) for line in self.setup):
            raise _wrong(
                "setup", self.setup, "a list of shell commands, as in ['module load cuda']"
            )
        if not isinstance(self.more, Mapping | None):
            raise _wrong("more", self.more, "sbatch options and their values, as in {mem: 16G}")


def _wrong(name: str, value: object, right: str) -> UserError:
    return UserError(f"hydra.launcher.{name}={value}; it must be {right}")
