"""The errors that a user sees as one line, and the exit status that each of them gives."""

import argparse
import io
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from yaml import YAMLError

from experiments.data.files import RowsError

MAX_CHARS = 1000  # characters of a reason


class UserError(Exception):
    """One line that names what is wrong and what would be right; shown without a traceback."""


class SweepFailed(Exception):
    """The sweep ran, but some requested point has no row with status ``ok`` or ``unsupported``."""

    def __init__(self, found: Sequence[Any] = ()) -> None:
        super().__init__()
        self.found = found  # what the sweep would have returned: (label, row) of each point


def on_one_line(text: str) -> str:
    """A library's message of several lines as one line; commas separate lines of a list."""
    text = re.sub(r"(?<=[:,.;])\s*\n\s*", " ", text.strip())
    return re.sub(r"\s*\n\s*", ", ", text)


def printable(text: str) -> str:
    """The text with control characters escaped: a terminal would obey them."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def anonymous(error: BaseException) -> str:
    """An error as one line of at most 300 characters, without folders, user name or host name."""
    text = " ".join(str(error).encode("utf-8", "replace").decode().split())
    text = re.sub(r"(?:/[\w.@+-]+)+/([\w.@+-]+)", r"\1", text)
    for private in (Path.home().name, platform.node()):
        if len(private) > 2:
            text = text.replace(private, "…")
    return f"{type(error).__name__}: {text or type(error).__name__}"[:300]


def command(
    action: Callable[[], object],
    verbose: bool = False,
    interrupted: str = "interrupted; the same command goes on where it stopped",
) -> int:
    """Runs ``action`` and returns its exit status: the integer that it returns, otherwise 0.

    An error prints one line and gives status 2. `SweepFailed`, or a closed output pipe, gives 1.
    Ctrl-C prints ``interrupted`` and gives 130. ``verbose`` adds an error's traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # print \xd7 where the encoding has no ×
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = action()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except SweepFailed:
        return 1
    except BrokenPipeError:  # as after `| head`; Python flushes once more at exit, into devnull
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (UserError, RowsError, YAMLError, ValueError, OSError) as error:
        if verbose:
            traceback.print_exc()
        text = str(error)
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.filename or 'writing'}: {error.strerror}"
        text = printable(on_one_line(text))
        print("error:", text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Prints the line and ends the program."""
        self.exit(2, f"error: {message}; {self.prog} --help lists what there is\n")
