"""What W&B cannot give costs one line each, and nothing is written outside the copy's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.tracking import fetch
from analysis.tracking.place import place_of
from experiments.data.rows import RowsError, rows_files
from experiments.mirror import child
from tests.analysis.plausible import row
from tests.wandb_api import digest_of
from tests.wandb_server import REFUSED_KEY, WandbServer
from tests.wandb_sweeps import ADDRESS, mirrored_sweep

pytestmark = pytest.mark.usefixtures("account", "inside")
OUTPUTS = Path("outputs")


def error(capsys: pytest.CaptureFixture[str], rows: str) -> str:
    """The one line of a command that was refused."""
    assert main(["figures", "--rows", rows]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    return told.err


@pytest.mark.parametrize(
    "rows",
    ["wandb:", "wandb:somebody", "wandb:../project", "wandb:a/..", "wandb:a/b?", "wandb:/b"],
)
def test_an_address_that_is_none_says_how_one_is_written(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "wandb:entity/project or wandb:entity/project/group" in error(capsys, rows)
    assert not OUTPUTS.exists()


def test_no_project_no_rows_no_key_or_a_refused_one_is_said_in_one_line(
    server: WandbServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no such project" in error(capsys, "wandb:somebody/nothing")
    assert "no run has rows: no sweep was mirrored there" in error(capsys, ADDRESS)
    monkeypatch.setenv("WANDB_API_KEY", REFUSED_KEY)
    assert "invalid API key" in error(capsys, ADDRESS)
    monkeypatch.delenv("WANDB_API_KEY")
    assert "set WANDB_API_KEY, or run `wandb login`" in error(capsys, ADDRESS)
    assert not OUTPUTS.exists()


def test_a_server_out_of_reach_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9 did not give the rows" in error(capsys, ADDRESS)


def test_a_reader_that_dies_or_hangs_leaves_the_copy_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = OUTPUTS / "wandb/somebody/softmax-roofline/paper/torch/rows.jsonl"
    copy.parent.mkdir(parents=True)
    copy.write_text("kept")
    for program, complaint in (
        ("raise SystemExit(3)", "its process ended with status 3"),
        ("import time; time.sleep(60)", "gave no answer for 1 s"),
    ):
        (tmp_path / "reader.py").write_text(program)
        monkeypatch.setattr("analysis.tracking.fetched.READER", tmp_path / "reader.py")
        monkeypatch.setattr("analysis.tracking.fetched.MORE_SILENCE_S", 0.0)
        monkeypatch.setattr(child, "SILENCE_S", 1.0)
        with pytest.raises(RowsError, match=complaint):
            fetch(ADDRESS, OUTPUTS)
        assert copy.read_text() == "kept"


def entry(data: bytes, **changes: Any) -> dict[str, Any]:
    return {"digest": digest_of(data), "size": len(data), **changes}


SPOILT: dict[str, tuple[dict[str, Any], str]] = {
    "torch": ({}, "its artifact holds no rows.jsonl"),
    "naive": ({"../../rows.jsonl": entry(b"x")}, "its artifact holds no rows.jsonl"),
    "fused": ({"rows.jsonl": entry(b"x", ref="file:///etc/passwd")}, "reference elsewhere"),
    "online": ({"rows.jsonl": entry(b"x", size=1 << 40)}, "larger than 256 MiB"),
}


def test_a_run_whose_artifact_is_not_the_mirrors_is_passed_over(
    tmp_path: Path, server: WandbServer
) -> None:
    mirrored_sweep(tmp_path / "sweep", [row(kernel, 1024) for kernel in (*SPOILT, "copy")])
    api = server.store.api
    for id, artifact in server.store.artifacts.items():
        kernel = artifact["artifactCollectionName"].removeprefix("rows-id-")
        if kernel in SPOILT:
            api.manifests[id] = api.manifest(id) | {"contents": SPOILT[kernel][0]}
    folder, warnings = fetch(ADDRESS, OUTPUTS)
    assert len(warnings) == len(SPOILT)
    for kernel, (_, complaint) in SPOILT.items():
        run = f"W&B run tutorial/native-auto/{kernel} (id-{kernel}) is passed over: "
        [warning] = [warning for warning in warnings if warning.startswith(run)]
        assert complaint in warning
    assert [f.parent.name for f in rows_files(folder)] == ["copy"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [f for f in files if f.is_relative_to(OUTPUTS.resolve()) and "copy" not in f.parts] == []


def test_other_files_of_an_artifact_are_left_where_they_are(
    tmp_path: Path, server: WandbServer
) -> None:
    mirrored_sweep(tmp_path / "sweep", [row("torch", 1024)])
    api = server.store.api
    [id] = server.store.artifacts
    manifest = api.manifest(id)
    more = {name: entry(b"x") for name in ("../../climbed", "/absolute", "evil.py")}
    api.manifests[id] = manifest | {"contents": manifest["contents"] | more}
    folder, warnings = fetch(ADDRESS, OUTPUTS)
    assert warnings == []
    found = {path.name for path in folder.rglob("*") if path.is_file()}
    assert found == {"rows.jsonl", "variants.json", "config.json", "artifact.json"}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("../../../x", "g"), ("/etc/x", "g"), ("a", "../.."), ("a//b", "g"), ("", "g"), (".", "g"),
        ("a/wandb/b", "g"), ("a", "wandb"), ("a\n\x1b[31m", "g"), ("a" * 300, "g"), ("a", "x/y"),
    ],
)  # fmt: skip
def test_names_from_the_server_do_not_lead_out_of_the_copys_folder(name: str, group: str) -> None:
    place = place_of("../id", name, group)
    assert not place.is_absolute()
    assert {"..", "wandb", ""}.isdisjoint(place.parts)
    assert all(part.isprintable() and len(part) <= 100 for part in place.parts)
    assert len(place.parts) >= 2
