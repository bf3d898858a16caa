"""Whether cold is cold: a buffer read after the flush, against the same one read warm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.data.records import PROBES as PROBES
from experiments.data.records import Probe, read_records


@dataclass(frozen=True)
class Cold:
    """A buffer of one size, by one timer, cold and warm.

    Attributes:
        cold: Read after the flush, or after the rotation went through all other buffers.
        warm: Read again and again.
    """

    cold: Probe
    warm: Probe

    @property
    def ratio(self) -> float:
        """How much longer the cold read takes."""
        return self.cold.time_us / self.warm.time_us

    @property
    def proven(self) -> bool:
        """Whether the cold read's whole interval lies above the warm one's."""
        return self.cold.time_low_us > self.warm.time_high_us


def probes_of(rows: Path) -> list[Cold]:
    """Pairs of the probe records at or below ``rows``, by card, timer and size.

    Raises:
        RowsError: a line is no such record; it names file and line.
    """
    folder = rows.parent if rows.is_file() else rows
    known: dict[tuple[str, str, int], dict[str, Probe]] = {}
    for path in sorted(folder.rglob(PROBES)):
        for probe in read_records(path, Probe):
            known.setdefault((probe.gpu, probe.timer, probe.bytes), {})[probe.cache] = probe
    both = [known[place] for place in sorted(known) if len(known[place]) == 2]
    return [Cold(told["cold"], told["warm"]) for told in both]


def gbps(probe: Probe) -> float:
    """What the read amounts to, GB/s."""
    return probe.bytes / probe.time_us / 1e3


def all_proven(probes: Sequence[Cold]) -> bool:
    """Whether every cold read is slower than its warm one beyond both intervals."""
    return bool(probes) and all(probe.proven for probe in probes)
