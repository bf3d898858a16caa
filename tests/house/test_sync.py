"""`make sync` uploads what a sweep kept offline, once; the server is a local stand-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.house.shell import make
from tests.wandb_server import KEY, WandbServer

OFFLINE_RUN = """
import wandb
run = wandb.init(mode="offline", project="softmax-roofline", id="a-job")
run.log({"time_us": 1.5})
run.finish()
"""


def test_sync_uploads_offline_runs_and_only_once(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", OFFLINE_RUN], cwd=tmp_path, check=True, capture_output=True
    )
    with WandbServer() as server:

        def sync() -> tuple[int, str]:
            environment = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY}
            interpreter = (f"PY={sys.executable}", "READY=")
            done = make("sync", f"OUT={tmp_path}", *interpreter, **environment)
            return done.returncode, done.stdout

        assert sync()[0] == 0
        assert "a-job" in server.store.runs
        status, said = sync()
        assert status == 0
        assert "nothing to upload" in said
