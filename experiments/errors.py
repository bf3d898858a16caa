"""Errors of a user's request in one line, and the exit status that they come with."""

from __future__ import annotations

import argparse
import io
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TextIO

from yaml import YAMLError

from experiments.data.files import RowsError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


LONGEST = 1000  # characters of a reason


class UserError(Exception):
    """One line that names what is wrong and what would be right; shown without a traceback."""


class SweepFailed(Exception):
    """The sweep ran, but a point it was asked for has no row of expected status."""


def on_one_line(text: str) -> str:
    """Several lines of a library's message as one, its lists separated by commas."""
    joined = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if joined:
            joined += " " if joined[-1] in ":,.;" else ", "
        joined += line
    return joined


def command(action: Callable[[], int | None], verbose: bool = False) -> int:
    """Runs a command and gives its exit status.

    An error is one line and status 2, a failed point status 1, Ctrl-C one line and status 130.
    ``verbose`` shows the traceback of an error.
    """
    try:
        return action() or 0
    except SweepFailed:
        return 1
    except (UserError, RowsError, YAMLError, ValueError, OSError) as error:
        if verbose:
            traceback.print_exc()
        print(f"error: {_shown(on_one_line(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130


def _shown(text: str) -> str:
    """Text on one line of a terminal, whatever somebody typed."""
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"


class _Lasting(io.FileIO):
    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def lasting(stream: TextIO) -> TextIO:
    """A stream that drops what nobody reads any more, as after ``| head``: the work goes on."""
    stream.flush()
    raw = io.BufferedWriter(_Lasting(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Prints the line and ends the program."""
        self.exit(2, f"error: {message}\n")
