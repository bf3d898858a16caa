"""Jobs of a sweep compose as Hydra alone composes each, from files that are read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from experiments.sweep.config import register
from experiments.sweep.jobs import SweepLoader
from tests.conftest import DOUBLES, ROOT

CARDS = ["experiment=cards", "grid=cards", "gpu=h200"]
SEARCH = f"hydra.searchpath=[file://{DOUBLES}]"


@pytest.fixture
def plain() -> Iterator[ConfigLoader]:
    """Hydra's own loader of conf/."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


@pytest.fixture
def loader(plain: ConfigLoader) -> SweepLoader:
    """The loader that sweeps use."""
    return SweepLoader(plain.get_search_path())


def master(loader: ConfigLoader, *overrides: str) -> DictConfig:
    """What the sweeper and the launcher are made of."""
    return loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)


def test_jobs_compose_as_hydra_alone_composes_each(
    plain: ConfigLoader, loader: SweepLoader
) -> None:
    config = master(plain, *CARDS)
    jobs = [[*CARDS, f"kernel={k}", f"grid.cols={n}"] for k in ("auto", "copy") for n in (8, 16)]
    jobs += [
        [*jobs[0], "dtype=float32", "+kernel.new=1", "gpu.card=1"],
        [*jobs[0], "~gpu.facts.l2_mib", "out=elsewhere", "++grid.shapes=[[1,2]]"],
        [*jobs[0], SEARCH, "kernel=good"],
        jobs[0],
    ]
    for job in jobs:
        mine, theirs = (one.load_sweep_config(config, job) for one in (loader, plain))
        assert OmegaConf.to_yaml(mine) == OmegaConf.to_yaml(theirs)
        assert mine == theirs
    errors = []
    for one in (loader, plain):  # a double, which another job's search path leads to
        with pytest.raises(Exception, match=r"kernel/good") as raised:
            one.load_sweep_config(config, [*CARDS, "kernel=good"])
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1]


def test_a_file_is_read_once_for_all_jobs(
    plain: ConfigLoader, loader: SweepLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, read = master(plain, *CARDS), Counter[str]()
    [files] = [source for source in loader.get_sources() if source.provider == "main"]
    load = files.load_config

    def counted(config_path: str) -> Any:
        read[config_path] += 1
        return load(config_path)

    monkeypatch.setattr(files, "load_config", counted)
    for kernel in ("auto", "torch", "copy"):
        for cols in (8, 16):
            loader.load_sweep_config(config, [*CARDS, f"kernel={kernel}", f"grid.cols={cols}"])
    assert {"config", "experiment/cards", "grid/cards", "kernel/torch", "kernel/copy"} <= set(read)
    assert set(read.values()) == {1}
