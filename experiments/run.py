"""The command line: ``python -m experiments.run kernel=online grid=vocab out=DIR``."""

from __future__ import annotations

import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser  # Hydra's parser of flags has no public name
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.errors import SweepFailed, UserError, command, lasting, on_one_line
from experiments.sweep.config import check_folders, check_overrides, register

# What Hydra and OmegaConf append for their own developers; --verbose shows all of it.
NOISE = r"[,.] (?:Config search path: |Set the environment variable: |full_key: |See https://hydra)"


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

    def act() -> None:
        try:
            sys.argv[1:] = _hydra_arguments(arguments)
            task()
        except (SweepFailed, UserError):
            raise
        except Exception as error:  # a fault of ours, or of a library of ours, is one line too
            raise UserError(_reason(error)) from error

    with redirect_stdout(lasting(sys.stdout)), redirect_stderr(lasting(sys.stderr)):
        sys.exit(command(act, verbose))


def _complain(message: str) -> NoReturn:
    raise UserError(f"{message}; --help lists what there is")


def _plain(argument: str) -> str:
    """``+experiment=name``, as presets are often called, for ``experiment=name``."""
    return argument.removeprefix("+") if argument.startswith("+experiment=") else argument


def _hydra_arguments(arguments: list[str]) -> list[str]:
    """The arguments as Hydra takes them: flags first, and ``-m``, for every run is a sweep.

    Without ``-m`` Hydra composes a wrong request twice, as a single run at last, and complains
    that a single run takes no list of values.
    """
    parser = get_args_parser()
    parser.error = _complain  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.resolve and not parsed.cfg:
        _complain("--resolve goes with --cfg")
    if parsed.shell_completion and not re.match("(un)?install=|query=", " ".join(parsed.overrides)):
        _complain("-sc takes install=, uninstall= or query=")
    if parsed.config_dir:
        check_folders([parsed.config_dir], f"--config-dir {parsed.config_dir}")
    for override in parsed.overrides:
        if re.search(r"=\S+\s+\S+=", override):
            _complain(f"{override!r} is one word; quote each option by itself")
        if "=" not in override and not override.startswith("~"):
            _complain(f"{override!r} is no option=value; a list has commas, as kernel=fused,online")
    flags = [argument for argument in arguments if argument not in ("-r", "--run")]
    for override in parsed.overrides:
        flags.remove(override)
    shows = parsed.cfg or parsed.info or parsed.shell_completion or parsed.help or parsed.hydra_help
    if not shows:
        check_overrides(parsed.overrides)
        if not parsed.multirun:
            flags.insert(0, "--multirun")
    return [*flags, *map(_of_each_job, parsed.overrides)]


def _of_each_job(override: str) -> str:
    """A kernel's option as a sweep of one value, which Hydra applies to the jobs alone.

    Otherwise it is applied to the command's own configuration too, whose kernel may not have it.
    """
    key, sign, value = override.partition("=")
    if not re.match(r"[+~]*kernel\.", key) or not sign:
        return override
    [parsed] = OverridesParser.create().parse_overrides([override])
    return override if parsed.is_sweep_override() else f"{key}=choice({value})"


def _reason(error: Exception) -> str:
    text = on_one_line(str(error))
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        where = f" {error.filename}" if error.filename else ""
        return f"cannot write{where}: {error.strerror}; choose another out="
    if isinstance(error, YAMLError):
        return f"a file in conf/ is not YAML: {text}"
    if isinstance(error, OverflowError | RecursionError):
        return f"a number is too large, or lists are too deep: {text}"
    if not isinstance(error, UserError | HydraException | OmegaConfBaseException):
        return f"{type(error).__name__}: {text} (unforeseen; --verbose shows where)"
    unread = re.match(r"LexerNoViableAltException: (.*?),? \^", text)
    if unread:
        return f"{unread[1]} is not in Hydra's grammar; a value with special characters is quoted"
    absent = re.search(
        r"Could not find '([\w/]+)/([^'/]+)', Available options in '.*?': (.*)", text
    )
    if absent:
        group, name, names = absent.groups()
        near = get_close_matches(name, names.split(", "))
        hint = f" did you mean {' or '.join(near)}?" if near else ""
        return f"{group}={name} names no file of conf/{group}/;{hint} --help lists them"
    unknown = re.match(r"Could not override '([\w.@/]+)'\.", text)
    if unknown and unknown[1].count(".") == 1 and unknown[1].startswith("kernel."):
        tunable = unknown[1].removeprefix("kernel.")
        return f"a kernel of this sweep has no {tunable!r}; kernel.NAME.{tunable}= is of one kernel"
    if unknown:
        return f"there is no option {unknown[1]!r}; --help lists those there are"
    if isinstance(error.__cause__, OmegaConfBaseException):
        text = on_one_line(f"{error}\n{error.__cause__}")
    return re.split(NOISE, text)[0]


if __name__ == "__main__":
    main()
