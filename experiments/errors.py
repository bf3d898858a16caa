"""What a user did that cannot be done, said in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn


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


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Prints the line and ends the program."""
        self.exit(2, f"error: {message}\n")
