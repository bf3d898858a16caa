"""What a job's artifact carries beside its rows, for whoever reads the project back."""

import json
from pathlib import Path

import pytest

from experiments.data.metrics import derive
from experiments.mirror import mirror
from experiments.sweep.config import Tracker
from tests.analysis.plausible import row
from tests.wandb_files import read_offline
from tests.wandb_server import WandbServer
from tests.wandb_sweeps import TIMING, mirrored_sweep, sweep

pytestmark = pytest.mark.usefixtures("account")
ROWS = [row("torch", 1024), row("online", 1024)]


def test_an_artifact_carries_its_kernels_declarations_and_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WandbServer() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        assert mirrored_sweep(tmp_path / "sweep", ROWS) == []
        assert server.store.unknown == []
    for id, artifact in server.store.artifacts.items():
        contents = server.store.api.manifest(id)["contents"]
        assert set(contents) == {"rows.jsonl", "variants.json", "config.json"}
        kernel = artifact["artifactCollectionName"].removeprefix("rows-id-")
        texts = [json.loads(data) for data in server.store.uploads.values() if data[:2] == b"{\n"]
        declared = [text for text in texts if set(text) == {kernel}]
        assert [text[kernel]["kernel"] for text in declared] == [kernel]
        configs = [text for text in texts if "timing" in text]
        assert [config["timing"] for config in configs] == [TIMING, TIMING]
        assert all("out" not in config for config in configs)


@pytest.mark.parametrize("declared", ["[]", '{"torch": 1}', "not JSON"])
def test_declarations_that_cannot_be_read_do_not_keep_rows_from_wandb(
    tmp_path: Path, declared: str
) -> None:
    jobs = sweep(tmp_path, ROWS[:1])
    (tmp_path / "variants.json").write_text(declared)
    assert mirror(jobs, {"id-torch": derive(ROWS[:1])}, Tracker(), tmp_path) == []
    assert [run.artifacts for run in read_offline(tmp_path)] == [[("rows-id-torch", "rows")]]
