"""A packed recording is read as the folder that it holds, and nothing else comes out of it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from experiments.data.files import RowsError
from experiments.data.packed import COPIES, recording, unpacked
from experiments.data.rows import rows_files

LINE = '{"a": 1}\n'


def pack(path: Path, members: dict[str, str | tarfile.TarInfo]) -> Path:
    """An archive of files by name, or of other members as they are given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                packed.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content.encode()))
    return path


def member(kind: bytes, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo()
    found.type, found.linkname = kind, target
    return found


def test_rows_of_an_archive_count_as_those_of_its_folder(tmp_path: Path) -> None:
    pack(tmp_path / "card" / "rows.tar.gz", {"grid/job/rows.jsonl": LINE, "sweep.json": "{}"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rows.jsonl").write_text(LINE)
    packed, plain = rows_files(tmp_path)
    assert packed.read_text() == LINE
    assert packed.is_relative_to(recording(tmp_path / "card"))
    assert packed.relative_to(recording(tmp_path / "card")) == Path("grid/job/rows.jsonl")
    assert plain == tmp_path / "other" / "rows.jsonl"
    assert recording(tmp_path / "other") == tmp_path / "other"


def test_an_archive_is_unpacked_once_and_again_when_it_changes(tmp_path: Path) -> None:
    archive = pack(tmp_path / "rows.tar.gz", {"rows.jsonl": LINE})
    first = unpacked(archive)
    changed = first.stat().st_ctime_ns
    assert unpacked(archive) == first
    assert first.stat().st_ctime_ns == changed
    second = unpacked(pack(archive, {"rows.jsonl": LINE * 2}))
    assert second != first
    assert not first.exists()
    assert rows_files(tmp_path) == [second / "rows.jsonl"]


def test_another_archive_is_read_when_it_is_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = pack(tmp_path / "outputs" / "reference" / "limits.tar.gz", {"rows.jsonl": LINE})
    assert (unpacked(archive) / "rows.jsonl").read_text() == LINE
    assert unpacked(archive).is_relative_to(COPIES)
    assert rows_files(tmp_path) == []


def test_where_nothing_can_be_written_it_is_unpacked_elsewhere(tmp_path: Path) -> None:
    archive = pack(tmp_path / "rows.tar.gz", {"rows.jsonl": LINE})
    (tmp_path / ".unpacked").write_text("in the way")
    assert (unpacked(archive) / "rows.jsonl").read_text() == LINE
    assert not unpacked(archive).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../rows.jsonl", LINE),
        ("/tmp/rows.jsonl", LINE),
        ("rows.jsonl", member(tarfile.SYMTYPE, "/etc/passwd")),
        ("rows.jsonl", member(tarfile.FIFOTYPE)),
    ],
)
def test_what_is_no_file_below_its_folder_is_refused_whole(
    name: str, content: str | tarfile.TarInfo, tmp_path: Path
) -> None:
    archive = pack(tmp_path / "in" / "rows.tar.gz", {"first.json": "{}", name: content})
    with pytest.raises(ValueError, match="is not a file or folder below it"):
        unpacked(archive)
    with pytest.raises(RowsError, match=r"rows\.tar\.gz: no archive of rows"):
        rows_files(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["rows.tar.gz"]
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(RowsError, match=r"rows\.tar\.gz: no archive of rows: "):
        rows_files(tmp_path)


def test_no_link_leads_to_where_it_is_unpacked(tmp_path: Path) -> None:
    pack(tmp_path / "in" / "rows.tar.gz", {"rows.jsonl": LINE})
    (tmp_path / "victim").mkdir()
    (tmp_path / "in" / ".unpacked").symlink_to(tmp_path / "victim")
    with pytest.raises(RowsError, match="is a link"):
        rows_files(tmp_path / "in")
    assert list((tmp_path / "victim").iterdir()) == []
