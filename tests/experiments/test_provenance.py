"""A row, with its job's config.json beside it, says all that repeats it, and nothing of anyone."""

import json
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from experiments.reproduce import differences
from experiments.sweep.plan import LIBRARIES, PROTOCOL, key_of
from tests.conftest import QUICK, Command, shape


def test_a_row_keeps_its_own_protocol_when_the_configuration_beside_it_changes(
    sweep: Command,
) -> None:
    arguments = ["kernel=good", *shape(4, 8), "dtype=float32", "timing.max_samples=20"]
    sweep(*arguments, "timing.min_samples=5", "seed=3")
    done = sweep(*arguments, "timing.min_samples=6", "seed=3")
    protocols = [row.environment["protocol"] for row in done.rows if row.kernel == "good"]
    assert sorted(protocol["min_samples"] for protocol in protocols) == [5, 6]
    for row in done.rows:
        assert set(row.environment["protocol"]) == set(PROTOCOL)
        assert row.environment["seed"] == 3
        assert row.environment["source"]
    assert {row.environment["target"] for row in done.rows} == {
        "kernels.copy.copy.Copy", "tests.doubles.kernels.Good",
    }  # fmt: skip


def test_a_row_names_the_software_and_the_switches_that_were_set(sweep: Command) -> None:
    done = sweep(
        "kernel=good", *shape(4, 8), "dtype=float32", *QUICK,
        OMP_NUM_THREADS="1", TRITON_CACHE_DIR="/nonexistent/someone",
    )  # fmt: skip
    for row in done.rows:
        found = row.environment
        assert {"torch", "numpy", "python", "system", "processor", "commit", "dirty"} <= set(found)
        assert found["threads"] == 1
        assert found["variables"]["OMP_NUM_THREADS"] == "1"
    assert "someone" not in json.dumps([row.model_dump() for row in done.rows])


def test_a_row_names_the_versions_of_its_variants_own_packages(sweep: Command) -> None:
    done = sweep("kernel=packaged,quack", *shape(4, 8), "dtype=float32", *QUICK)
    told = {row.kernel: row.environment.get("packages") for row in done.rows}
    assert told["packaged"] == {"sympy": version("sympy")}
    assert set(told["quack"] or ()) == {"quack-kernels", "nvidia-cutlass-dsl"}
    assert told["copy"] is None
    [row] = [row for row in done.rows if row.kernel == "packaged"]
    newer = row.environment | {"packages": {"sympy": "9.0"}}
    changed = differences(row, row.model_copy(update={"environment": newer}))
    assert changed == [f"sympy {version('sympy')} → 9.0"]


def test_another_version_of_a_package_is_another_key() -> None:
    timing = dict.fromkeys(PROTOCOL, 1)
    job: Any = SimpleNamespace(kernel="quack", config={"timing": timing, "seed": 0})
    handshake = {"environment": dict.fromkeys(LIBRARIES, "1"), "device": {"name": "X"}}
    declared = {"rows": 1, "cols": 2, "dtype": "float32"}

    def key(**packages: str | None) -> str:
        said = {"target": "t", "params": {}, "source": "s", "packages": packages}
        return key_of(job, said, declared, handshake)

    assert len({key(), key(quack=None), key(quack="1"), key(quack="2")}) == 4
    assert key(quack="1") == key(quack="1")
