"""Jobs of a sweep, and the roofs that they get beside them."""

from __future__ import annotations

import pytest
import yaml

from experiments.errors import UserError
from experiments.sweep.jobs import Compose, Job, with_roofs
from experiments.worker.describe import build_kernel
from tests.conf import KERNELS
from tests.conf import kernel as kernel_config
from tests.conftest import CONF


def job(target: str, roof: str, *overrides: str) -> Job:
    config = {"kernel": {"_target_": f"kernels.{target}"}}
    name = target.partition(".")[0]
    given = ("float32",)
    return Job(name, name, "wide", given, "native", "auto", "", (), config, overrides, roof=roof)


def test_a_shard_gets_the_roofs_that_it_lacks() -> None:
    def added(*kernels: tuple[str, str]) -> list[tuple[str, ...]]:
        jobs = [job(*one, "grid=wide", f"kernel={i}") for i, one in enumerate(kernels)]
        found = [*with_roofs(jobs, lambda overrides: job("made.X", "copy", *overrides))]
        return [one.overrides for one in found[len(jobs) :]]

    softmax, gradient = ("softmax.online.Online", "copy"), ("softmax_backward.b.Backward", "add")
    copied, add = ("grid=wide", "kernel=copy"), ("grid=wide", "kernel=add")
    assert added(softmax) == [copied]
    assert added(softmax, ("copy.copy_triton.CopyTriton", "copy")) == []
    assert added(gradient, ("copy.copy.Copy", "copy")) == [add]
    assert added(gradient, softmax) == [add, copied]
    assert added(("add.add.Add", "add")) == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernels_file_names_the_roof_of_its_operation(kernel: str) -> None:
    config = yaml.safe_load((CONF / "kernel" / f"{kernel}.yaml").read_text(encoding="utf-8"))
    assert build_kernel(kernel_config(kernel)).operation.roof == config.get("roof", "copy")


def test_what_a_file_says_about_a_kernel_is_no_tunable(compose_job: Compose) -> None:
    found = compose_job(["kernel=quack", "grid=smoke"])
    assert found.config["kernel"] == {"_target_": "kernels.softmax.peers.quack.Quack"}
    assert compose_job(["kernel=backward", "grid=smoke"]).roof == "add"
    with pytest.raises(UserError, match=r"kernel\.by is said in a kernel's file"):
        compose_job(["kernel=quack", "grid=smoke", "kernel.by=ours"])
