"""Cold caches: L2 is emptied of the timed buffers by reading others, never by writing.

A flush that writes leaves its own dirty lines, which the timed kernel then has to write back.
"""

from __future__ import annotations

import torch


class Flush:
    """A clean buffer of twice the device's last-level cache, and the reading of it."""

    def __init__(self, device: str, cache_bytes: int) -> None:
        elements = 2 * cache_bytes // 4
        # pages that were never written all map to one on a CPU, and would flush nothing
        self._buffer = torch.ones(elements, dtype=torch.float32, device=device)
        self._sink = torch.empty((), dtype=torch.float32, device=device)

    @property
    def size_bytes(self) -> int:
        """Bytes read by one flush."""
        return self._buffer.numel() * self._buffer.element_size()

    def __call__(self) -> None:
        """Reads the whole buffer; on CUDA it is only enqueued."""
        torch.amax(self._buffer, dim=0, out=self._sink)
