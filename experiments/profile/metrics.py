"""Which counters are read, and what those of a call's launches come to.

The names are Nsight Compute's for compute capability 9.0; ``l1tex__t_bytes`` are bytes requested.
Loads by TMA are counted apart from plain loads, and belong to them; loads by ``cp.async`` are among
the plain ones (an H200 shows exactly MN there for `fused`, which loads nothing in another way).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.errors import UserError

TIME = "gpu__time_duration.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
LSU = "l1tex__t_bytes_pipe_lsu_mem"
BYTES = {
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "l2_to_sm_bytes": ("l1tex__m_xbar2l1tex_read_bytes.sum",),
    "requested_load_bytes": (
        f"{LSU}_global_op_ld.sum",
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    ),
    "requested_store_bytes": (
        f"{LSU}_global_op_st.sum",
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    ),
    "local_load_bytes": (f"{LSU}_local_op_ld.sum",),
    "local_store_bytes": (f"{LSU}_local_op_st.sum",),
}
PIPES = {
    pipe: f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active"
    for pipe in ("xu", "fma", "alu", "lsu")  # xu takes the exponentials
}
METRICS = (TIME, *(name for names in BYTES.values() for name in names), OCCUPANCY, *PIPES.values())
REQUIRED = (TIME, *BYTES["dram_read_bytes"], *BYTES["dram_write_bytes"])  # no record without them


@dataclass(frozen=True)
class Launch:
    """One profiled kernel launch.

    Attributes:
        range: Name of the profiler range it was launched in, empty for none.
        values: By metric: µs, bytes or percent; a metric without a value is absent.
    """

    range: str
    values: dict[str, float] = field(default_factory=dict)


def summed(launches: Sequence[Launch]) -> dict[str, Any]:
    """The measured fields of a `Counters` record of a call with these launches.

    Bytes and times add up; shares of a peak are averaged by time, as each is a share of its own
    kernel's. A metric that some launch lacks is None or left out.

    Raises:
        UserError: a launch lacks a required metric.
    """
    for name in REQUIRED:
        if not _on_all(launches, name):
            raise UserError(f"ncu gave no {name}")
    return {
        "launches": len(launches),
        "kernel_us": sum(launch.values[TIME] for launch in launches),
        **{kept: _total(launches, names) for kept, names in BYTES.items()},
        "occupancy_percent": _weighted(launches, OCCUPANCY),
        "pipes_percent": {
            pipe: share
            for pipe, name in PIPES.items()
            if (share := _weighted(launches, name)) is not None
        },
    }


def _on_all(launches: Sequence[Launch], name: str) -> bool:
    return all(name in launch.values for launch in launches)


def _total(launches: Sequence[Launch], names: Sequence[str]) -> int | None:
    """Over all launches and paths; a path that the card does not know moves nothing."""
    known = [name for name in names if _on_all(launches, name)]
    if names[0] not in known:
        return None
    return round(sum(launch.values[name] for launch in launches for name in known))


def _weighted(launches: Sequence[Launch], name: str) -> float | None:
    duration = sum(launch.values[TIME] for launch in launches)
    if not duration or not _on_all(launches, name):
        return None
    total = sum(launch.values[TIME] * launch.values[name] for launch in launches)
    return round(total / duration, 4)
