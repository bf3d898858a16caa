"""Jobs of a sweep compose as Hydra alone composes each, from files that are read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from experiments.sweep.config import register
from experiments.sweep.jobs import Job, SweepLoader, job_from, roofs_of, with_roofs
from experiments.worker.describe import build_kernel
from tests.conf import options
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
        theirs = plain.load_sweep_config(config, job)
        own = OmegaConf.masked_copy(theirs, [str(key) for key in theirs if key != "hydra"])
        assert loader.job(config, job) == job_from(own, theirs.hydra.runtime.choices, job)
    for wrong in ("kernel=good", "grid.colls=8", "grid.source=[1]", "dtyp=float32"):
        errors = []  # good is a double, which another job's search path leads to
        for compose in (plain.load_sweep_config, loader.job):
            with pytest.raises(HydraException) as raised:
                compose(config, [*CARDS, wrong])
            errors.append((raised.type, str(raised.value)))
        assert errors[0] == errors[1]


def job(target: str, *overrides: str) -> Job:
    config = {"kernel": {"_target_": f"kernels.{target}"}}
    name = target.partition(".")[0]
    return Job(name, name, "wide", ("float32",), "native", "auto", "", (), config, overrides)


def test_a_shard_gets_the_roofs_of_each_operation_that_it_lacks() -> None:
    def added(*targets: str) -> list[tuple[str, ...]]:
        jobs = [job(target, "grid=wide", f"kernel={i}") for i, target in enumerate(targets)]
        found = with_roofs(jobs, lambda overrides: job("made.X", *overrides))
        return [one.overrides for one in found[len(jobs) :]]

    copy, add = ("grid=wide", "kernel=copy"), ("grid=wide", "kernel=add")
    assert added("softmax.online.Online") == [copy]
    assert added("softmax.online.Online", "copy.copy_triton.CopyTriton") == []
    assert added("softmax_backward.backward.Backward", "copy.copy.Copy") == [add]
    assert added("softmax_backward.backward.Backward", "softmax.online.Online") == [add, copy]
    assert added("add.add.Add") == []
    assert added("log_softmax.online.Online") == [("grid=wide", "kernel=read"), copy]


@pytest.mark.parametrize("kernel", options("kernel"))
def test_the_roof_that_an_operation_names_is_read_without_importing_it(kernel: str) -> None:
    config = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "kernel" / f"{kernel}.yaml"))
    assert isinstance(config, dict)
    operation = build_kernel({str(k): v for k, v in config.items()}).operation
    assert operation.roof in roofs_of(config["_target_"].split(".")[1])
    assert roofs_of(operation.roof) == (operation.roof,)


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
            loader.job(config, [*CARDS, f"kernel={kernel}", f"grid.cols={cols}"])
    assert {"config", "experiment/cards", "grid/cards", "kernel/torch", "kernel/copy"} <= set(read)
    assert set(read.values()) == {1}
