"""Rows read back from W&B, asked of the real client; the server is tests/wandb_server.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.load import newest_rows
from analysis.tracking import fetch
from experiments.data.rows import rows_files
from tests.analysis.plausible import paper, row
from tests.wandb_jobs import job, secrets_of_this_machine, timed
from tests.wandb_server import WandbServer
from tests.wandb_sweeps import ADDRESS, ROOT, mirrored_sweep

pytestmark = pytest.mark.usefixtures("account", "inside", "small_pictures")
FEW = [row for row in paper([1024, 4096]) if row.kernel in ("torch", "online", "copy")]


def made(folder: Path) -> dict[str, bytes]:
    """What a command made; its manifest tells of the files around the rows, which differ."""
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if "manifest" not in file.name
    }


def fetched(tmp_path: Path) -> list[str]:
    base = tmp_path / "outputs" / "wandb"
    return [file.parent.relative_to(base).as_posix() for file in rows_files(base)]


def test_what_a_project_gives_is_drawn_as_what_the_disk_gives(
    tmp_path: Path, server: WandbServer
) -> None:
    disk = tmp_path / "outputs" / "paper"
    assert mirrored_sweep(disk, FEW) == []
    for command in ("figures", "tables"):
        assert main([command, "--rows", str(disk), "--out", f"disk/{command}"]) == 0
        assert main([command, "--rows", ADDRESS, "--out", f"wandb/{command}"]) == 0
        ours, theirs = made(tmp_path / "disk" / command), made(tmp_path / "wandb" / command)
        assert len(ours) > 2
        assert ours == theirs
    assert newest_rows(tmp_path / "outputs") == tmp_path / "outputs" / "paper"
    told = server.everything()
    assert [secret for secret in secrets_of_this_machine(tmp_path) if secret in told] == []


def test_what_has_not_changed_is_not_fetched_twice(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row("torch", 1024), row("copy", 1024)]
    mirrored_sweep(tmp_path / "sweep", rows)
    folder, warnings = fetch(ADDRESS, Path("outputs"))
    assert (folder, warnings) == (Path("outputs/wandb/somebody/softmax-roofline"), [])
    assert sorted(server.store.api.downloads) == sorted(
        ["rows.jsonl", "variants.json", "config.json"] * 2
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server.store.api.downloads.clear()
    fetch(ADDRESS, Path("outputs"))
    assert server.store.api.downloads == []
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    copy = folder / "paper/tutorial/native-auto/copy/rows.jsonl"
    copy.write_text("edited\n")
    mirrored_sweep(tmp_path / "sweep", [*rows, row("torch", 2048)])
    fetch(ADDRESS, Path("outputs"))
    assert server.store.api.downloads.count("rows.jsonl") == 2
    assert copy.read_bytes() == before[copy]
    assert len((copy.parents[1] / "torch" / "rows.jsonl").read_text().splitlines()) == 2


def test_a_group_is_one_sweep_of_a_project_and_a_run_deleted_there_goes_here_too(
    tmp_path: Path, server: WandbServer
) -> None:
    mirrored_sweep(tmp_path / "sweep", [row("torch", 1024)])
    mirror_one(tmp_path, "other", "another sweep")
    folder, _ = fetch(f"{ADDRESS}/paper", Path("outputs"))
    assert folder == Path("outputs/wandb/somebody/softmax-roofline/paper")
    place = "somebody/softmax-roofline/{}/{}"
    torch = place.format("paper", "tutorial/native-auto/torch")
    other = place.format("another sweep", "online/tutorial/float32")
    assert fetched(tmp_path) == [torch]
    fetch(ADDRESS, Path("outputs"))
    assert fetched(tmp_path) == [other, torch]
    drawn = folder / "figures" / "drawn.svg"
    drawn.parent.mkdir()
    drawn.write_text("")
    del server.store.runs["id-torch"]
    fetch(ADDRESS, Path("outputs"))
    assert fetched(tmp_path) == [other]
    assert drawn.exists()


def test_a_project_of_many_pages_is_read_to_its_end(tmp_path: Path, server: WandbServer) -> None:
    mirrored_sweep(tmp_path / "sweep", [row("torch", 1024)])
    server.store.runs = {
        **{f"x{i}": server.store.runs["id-torch"] for i in range(60)},
        **server.store.runs,
    }
    folder, warnings = fetch(ADDRESS, Path("outputs"))
    assert len(warnings) == 60
    assert warnings[0] == (
        "W&B run tutorial/native-auto/torch (x0) is passed over: it has no rows artifact"
    )
    assert len(rows_files(folder)) == 1


def test_analysis_reads_wandb_without_importing_it(tmp_path: Path, server: WandbServer) -> None:
    mirrored_sweep(tmp_path / "sweep", FEW[:1])
    code = (
        "import sys; from analysis.__main__ import main; "
        f"status = main(['tables', '--rows', '{ADDRESS}', '--out', 'drawn']); "
        "heavy = {'torch', 'triton', 'hydra', 'omegaconf', 'wandb'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def mirror_one(tmp_path: Path, id: str, group: str, **changes: str) -> None:
    """A run of one row, by name and group of the test's own."""
    from experiments.data.metrics import derive
    from experiments.mirror import mirror
    from experiments.sweep.config import Tracker

    rows = [timed(1024)]
    one = job(tmp_path / id, rows, id, sweep=group, **changes)
    assert mirror([one], {id: derive(rows)}, Tracker(mode="online"), tmp_path / id) == []
    assert json.loads((tmp_path / id / "wandb" / "mirrored.json").read_text())
