"""Count and trace records of configured kernels, as a worker on the CPU makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from experiments.child import ROOT
from experiments.data.records import TRACED, Count, Trace
from experiments.errors import UserError
from experiments.sweep.client import Worker, WorkerDied
from experiments.sweep.config import register

CONF = ROOT / "conf"
LIMIT_S = {"counting": 300.0}


def configurations(
    names: Sequence[str] | None, config_dir: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Kernel configurations by name: those named, or all that there are.

    Args:
        names: Of files in ``conf/kernel`` or ``config_dir/kernel``.
        config_dir: A folder of further configurations.

    Raises:
        UserError: there is no kernel of a name.
    """
    folders = [CONF, *([config_dir.resolve()] if config_dir else [])]
    known = sorted({path.stem for folder in folders for path in folder.glob("kernel/*.yaml")})
    for name in names or []:
        if name not in known:
            raise UserError(f"kernel {name!r} is unknown; there are {', '.join(known)}")
    register()
    search = f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in folders[1:])}]"
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = {n: compose("config", [f"kernel={n}", search]) for n in names or known}
    return {
        name: OmegaConf.to_container(config.kernel, resolve=True)  # type: ignore[misc]
        for name, config in composed.items()
    }


def counts_of(
    worker: Worker,
    name: str,
    config: dict[str, Any],
    shapes: Iterable[tuple[int, int]],
    dtypes: Iterable[str],
) -> list[Count]:
    """A kernel's counts, shape by shape in each dtype.

    Raises:
        UserError: the configuration makes no kernel.
    """
    pairs = [(shape, dtype) for dtype in dtypes for shape in shapes]
    found = (_ask(worker, name, config, shape, dtype) for shape, dtype in pairs)
    return [Count(kernel=name, **_fields(Count, reply)) for reply in found]


def traces_of(
    worker: Worker, name: str, config: dict[str, Any], operation: str = "softmax"
) -> Iterator[Trace]:
    """A kernel's traces of its operation's `TRACED` cases; none if it is not countable."""
    # copies have no statistics: one case shows all that there is to see
    for case in (case for case in TRACED if operation in case.operations):
        blocks = case.blocks if "block_size" in config else (None,)
        for block in blocks:
            label, tiled = name, config
            if block is not None:
                label, tiled = f"{name},block_size={block}", config | {"block_size": block}
            reply = _ask(worker, name, tiled, case.shape, "float32", trace=True, **case.given)
            if reply["accesses"] is None:
                return
            yield Trace(kernel=label, **_fields(Trace, reply))


def _ask(
    worker: Worker,
    name: str,
    config: dict[str, Any],
    shape: tuple[int, int],
    dtype: str,
    **more: Any,
) -> dict[str, Any]:
    rows, cols = shape
    point = {"kernel": config, "rows": rows, "cols": cols, "dtype": dtype, "seed": 0, **more}
    try:
        reply = worker.request({"do": "count", "point": point}, LIMIT_S, "counting")
    except WorkerDied as error:
        # a kernel that hangs or takes the worker down is recorded as such, by the next worker
        point["reason"] = f"not countable: {error}"
        reply = worker.request({"do": "count", "point": point}, LIMIT_S, "counting")
    if "error" in reply:
        raise UserError(f"kernel={name}: {reply['error']}")
    return reply


def _fields(kind: type[Count] | type[Trace], reply: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in reply.items() if name in kind.model_fields}
