"""The command line: ``python -m experiments.run kernel=online grid=vocab out=DIR``."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser  # Hydra's parser of flags has no public name
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.errors import SweepFailed, UserError, on_one_line
from experiments.sweep.config import register

# What Hydra and OmegaConf append for their own developers; --verbose shows all of it.
NOISE = r"[,.] (?:Config search path|Set the environment variable|full_key): "


@hydra.main(version_base="1.3", config_path="../conf", config_name="config")
def task(config: DictConfig) -> None:
    """Never runs: the launcher takes all jobs of a sweep, and every run is a sweep."""
    raise UserError(
        "hydra.mode=RUN is not for this program; a run without -m is a sweep of one job"
    )


def main() -> None:
    """Runs Hydra on the command line and turns its errors into one line and an exit status."""
    verbose = "--verbose" in sys.argv or os.environ.get("HYDRA_FULL_ERROR", "0") not in ("", "0")
    arguments = [_plain(argument) for argument in sys.argv[1:] if argument != "--verbose"]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors instead of printing them
    register()
    try:
        sys.argv[1:] = _flags_first(arguments)
        if several := [a for a in arguments if re.match(r"experiment=.*,", a)]:
            raise UserError(f"{several[0]}: presets are sweeps already; run one after the other")
        task()
    except SweepFailed:
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # a fault of ours, or of a library of ours, is one line too
        if verbose:
            traceback.print_exc()
        print(f"error: {_reason(error)}", file=sys.stderr)
        sys.exit(2)


def _complain(message: str) -> NoReturn:
    raise UserError(f"{message}; --help lists what there is")


def _plain(argument: str) -> str:
    """``+experiment=name``, as presets are often called, for ``experiment=name``."""
    return argument.removeprefix("+") if argument.startswith("+experiment=") else argument


def _flags_first(arguments: list[str]) -> list[str]:
    """Flags may stand among the overrides; Hydra's parser wants the overrides in one piece."""
    parser = get_args_parser()
    parser.error = _complain  # type: ignore[method-assign]
    overrides = parser.parse_intermixed_args(arguments).overrides
    flags = list(arguments)
    for override in overrides:
        flags.remove(override)
    return [*flags, *overrides]


def _reason(error: Exception) -> str:
    text = on_one_line(str(error))
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        where = f" {error.filename}" if error.filename else ""
        return f"cannot write{where}: {error.strerror}; choose another out="
    if isinstance(error, YAMLError):
        return f"a file in conf/ is not YAML: {text}"
    if not isinstance(error, UserError | HydraException | OmegaConfBaseException):
        return f"{type(error).__name__}: {text} (unforeseen; --verbose shows where)"
    unknown = re.match(r"Could not override '([\w.@/]+)'\.", text)
    if unknown:
        return f"there is no option {unknown[1]!r}; --help lists those there are"
    if isinstance(error.__cause__, OmegaConfBaseException):
        text = on_one_line(f"{error}\n{error.__cause__}")
    return re.split(NOISE, text)[0]


if __name__ == "__main__":
    main()
