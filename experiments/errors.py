"""What a user did that cannot be done, said in one line."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UserError(Exception):
    """One line that names what is wrong and what would be right; shown without a traceback."""


class SweepFailed(Exception):
    """The sweep ran, but a point it was asked for has no row of expected status."""


def on_one_line(text: str) -> str:
    """Several lines of a library's message as one, its lists separated by commas."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = ""
    for line in lines:
        if joined:
            joined += " " if joined[-1] in ":,.;" else ", "
        joined += line
    return joined


class _Lasting(io.FileIO):
    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def lasting(stream: TextIO) -> TextIO:
    """A stream that drops what nobody reads any more, as after ``| head``: the work goes on."""
    stream.flush()
    raw = _Lasting(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors,
                            line_buffering=True)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Prints the line and ends the program."""
        self.exit(2, f"error: {message}\n")
