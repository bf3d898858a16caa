from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from hydra.utils import instantiate

from experiments.worker.describe import MOVED, build_kernel
from kernels.kernel import Kernel

CONF = Path(__file__).parents[2] / "conf" / "kernel"
# a variant as a source ran it, or for one purpose, not as it comes
SETTINGS = {"compiled_max", "hybrid_whole", "hybrid_capped", "online_l2", "copy_hinted"}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_setting_of_a_variant_builds_and_spells_out_every_tunable(name: str) -> None:
    config = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    tunables = {key: value for key, value in config.items() if key != "_target_"}
    kernel = instantiate(config)
    assert tunables == dataclasses.asdict(kernel)  # type: ignore[call-overload]
    assert kernel != type(kernel)(), "a setting that is the default needs no file of its own"


@pytest.mark.parametrize("name", sorted({p.stem for p in CONF.glob("*.yaml")} - SETTINGS))
def test_each_name_builds_its_kernel_and_spells_out_every_tunable(name: str) -> None:
    config = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    kernel = instantiate(config)
    assert isinstance(kernel, Kernel)
    assert kernel.operation.name == config["_target_"].split(".")[1], "the operation's folder"
    tunables = {key: value for key, value in config.items() if key != "_target_"}
    assert tunables == dataclasses.asdict(kernel)  # type: ignore[call-overload]
    assert kernel == type(kernel)(), "YAML and Python disagree about a default"
    assert "Source:" in (__import__(type(kernel).__module__, fromlist=["_"]).__doc__ or "")


@pytest.mark.parametrize("module", MOVED)
def test_a_recording_of_an_earlier_commit_names_a_kernel_that_still_builds(module: str) -> None:
    name = "".join(part.capitalize() for part in module.rpartition(".")[2].split("_"))
    kernel = build_kernel({"_target_": f"{module}.{name}"})
    assert type(kernel).__module__ == MOVED[module]
