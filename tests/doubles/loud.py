"""Softmax variants that print where they should not or speak on the worker's pipes.

The module itself prints as it is imported, in text and in bytes.
"""

import os
import stat
import sys
import threading

import torch

from tests.doubles.kernels import Good

print("a banner at import")
os.write(1, b"bytes \xff at import, without an end")


class Loud(Good):
    """Prints from a thread, in bytes, and more than any log should take."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=lambda: print("from a thread", flush=True))
        thread.start()
        thread.join()
        sys.stdout.write("half a pair: \ud800\n")
        for _ in range(60):
            os.write(1, b"\xfe" * 99_999 + b"\n")
        return super().__call__(x)


class Meddle(Good):
    """Writes onto every socket that its process has open."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"this is not a message\n")
            except OSError:
                continue
        return super().__call__(x)
