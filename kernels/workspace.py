"""Device memory in which the programs of one launch meet, and no other launch at the same time.

Launches on one stream run one after another and may share a workspace; launches on two streams may
not. A launch that is captured in a graph runs at each replay, on any stream, beside whatever else
runs there: it gets a workspace of its own from the graph's memory, and with it a node of the graph
that zeroes it. Without that node the graph's launches could not share one either: a graph may
outlive whoever keeps their workspace, and memory of its pool that is kept beyond the capture is
an error to `torch.compile`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch


class Workspaces:
    """One buffer for each stream, and one for each captured launch, all zeros at first.

    Args:
        words: 64-bit words of a buffer.
        device: Where it lies.
    """

    def __init__(self, words: int, device: torch.device) -> None:
        self._words, self._device = words, device
        self._streams: dict[int, torch.Tensor] = {}

    def current(self) -> torch.Tensor:
        """The buffer for the next launch on the device's current stream, int64.

        Outside of a capture the launch finds in it what the last one on the stream left there.
        """
        if torch.cuda.is_current_stream_capturing():
            return self._zeros()
        stream = torch.cuda.current_stream(self._device)
        buffer = self._streams.get(stream.cuda_stream)
        if buffer is None:
            # What this thread allocates may go to the pool of a graph that is being warmed up
            with ThreadPoolExecutor(1) as elsewhere:
                zeros = elsewhere.submit(self._zeros_on, stream).result()
            buffer = self._streams.setdefault(stream.cuda_stream, zeros)
        return buffer

    def _zeros_on(self, stream: torch.cuda.Stream) -> torch.Tensor:
        with torch.cuda.stream(stream):
            return self._zeros()

    def _zeros(self) -> torch.Tensor:
        return torch.zeros(self._words, dtype=torch.int64, device=self._device)
