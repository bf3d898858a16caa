"""The command line: ``python -m experiments.run kernel=online grid=vocab out=DIR``."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser  # Hydra's parser of flags has no public name
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.data.errors import SweepFailed, UserError, command
from experiments.data.jobs import CONF
from experiments.parent import jobs

SHOWING = ("help", "hydra_help", "cfg", "info", "shell_completion")  # flags that only show
REFUSED = ("config_name", "config_path", "experimental_rerun")  # Hydra's flags without use here
LAUNCHERS = ("sweep", "slurm", "profile")


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def show(config: DictConfig) -> None:
    """Hydra's entry point for flags that show something; it never runs a job."""
    raise UserError("this flag goes with another one; --help lists them")


def main() -> None:
    """Runs the command line and turns errors into one line and an exit status."""
    verbose = "--verbose" in sys.argv or os.environ.get("HYDRA_FULL_ERROR", "0") not in ("", "0")
    arguments = [one for one in sys.argv[1:] if one != "--verbose"]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors instead of printing them
    sys.exit(command(lambda: act_on(arguments), verbose))


def complain(message: str) -> NoReturn:
    """Raises `UserError`; if ``message`` names an option as a flag, says how to write it."""
    for flag in re.findall(r" --([a-z-]+)", message):
        if (option := flag.replace("-", "_")) in (*jobs.SHARED, *jobs.CHOSEN):
            raise UserError(f"--{flag} is no flag; write {option}=VALUE")
    raise UserError(f"{message}; --help lists what there is")


def act_on(arguments: list[str]) -> Any:
    """Shows what a flag asks for, or runs the sweep and returns the result of its launcher.

    Raises:
        UserError: a word is refused; the message names it. Nothing was measured.
        SweepFailed: a point has no row of expected status.
    """
    jobs.register()
    parser = get_args_parser()
    parser.error = complain  # type: ignore[method-assign]
    parser.allow_abbrev = False  # else --experiment would be --experimental-rerun
    flags = parser.parse_intermixed_args(arguments)
    if refused := next((name for name in REFUSED if getattr(flags, name)), None):
        complain(f"--{refused.replace('_', '-')} has no meaning here")
    words = [re.sub(r"^\+(?=experiment=)", "", word) for word in flags.overrides]
    for word in words:
        if re.search(r"=[^\s'\"]\S*\s+\S+=", word):
            complain(f"{word!r} is one word; quote each option by itself")
        if "=" not in word and not word.startswith("~"):
            quoted = ", and the whole is quoted" * ("{" in " ".join(words))
            complain(f"{word!r} is no option=value; a list has commas, as a,b{quoted}")
    try:
        if any(getattr(flags, name) for name in SHOWING):
            sys.argv[1:] = arguments
            show()
        elif flags.resolve or flags.package:
            complain("--resolve and --package go with --cfg or --info")
        else:
            if folder := flags.config_dir:
                jobs.check_folders([folder], "--config-dir")
                path = os.path.abspath(folder).replace("'", "\\'")
                words.append(f"hydra.searchpath=['{path}']")
            with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
                return launch_jobs(words)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(jobs.reason_of(error)) from error
    except (SweepFailed, UserError, OSError):
        raise
    except Exception as error:  # also report a bug, here or in a library, in one line
        raise UserError(f"{type(error).__name__}: {error}") from error


def launch_jobs(words: Sequence[str]) -> Any:
    """Composes the jobs one by one, as the launcher that ``hydra/launcher`` names takes them."""
    asked = jobs.combinations(words)
    _, of_hydra = jobs.configuration_of(asked[0])
    name = of_hydra.runtime.choices["hydra/launcher"]
    if name not in LAUNCHERS:
        raise UserError(f"hydra/launcher={name} {jobs.NO_LAUNCHER}")
    options: Any = OmegaConf.to_container(of_hydra.launcher, resolve=True)
    found = map(jobs.compose, asked)
    launcher = hydra.utils.get_method(options.pop("_target_"))
    return launcher([*found] if name == "profile" else jobs.with_roofs(found), **options)


if __name__ == "__main__":
    main()
