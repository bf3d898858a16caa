"""Composition as the command line does it, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from experiments.sweep.config import register
from experiments.sweep.jobs import SweepLoader

CONF = Path(__file__).parents[2] / "conf"

Compose = Callable[..., DictConfig]


@pytest.fixture(scope="session")
def loader() -> SweepLoader:
    """The loader that sweeps use, which reads each file once."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return SweepLoader(GlobalHydra.instance().config_loader().get_search_path())


@pytest.fixture
def composed(loader: SweepLoader) -> Iterator[Compose]:
    """A function from overrides to the configuration they compose, Hydra's own part included."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        hydra.config_loader = loader
        yield lambda *overrides: compose("config", list(overrides), return_hydra_config=True)


def options(group: str) -> list[str]:
    """The names that a group offers."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))
