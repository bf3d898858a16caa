"""Whatever says whose machine it was is named by file and line, in whichever file it stands."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

import pytest

from analysis.validation import private as patterns
from analysis.validation.private import private
from tests.analysis.validation.contributed import TORCH, contributed, edit, validated

GIVEN_AWAY = [
    ("/home/ada/softmax/.venv", "a home folder"),
    ("C:\\Users\\ada\\softmax", "a home folder"),
    ("~/softmax", "a home folder"),
    ("/gpfs/project7/softmax", "a path"),
    ("RuntimeError in /opt/conda/lib/libtorch.so", "a path"),
    ("login03", "a host name"),
    ("gpu-node17", "a host name"),
    ("login.hpc.example.edu", "a host name"),
    ("box7.cluster.local", "a host name"),
    ("ada@box", "an address"),
    ("10.12.0.7", "an address"),
    ("00:1b:44:11:3a:b7", "an address"),
    ("fe80::1ff:fe23", "an address"),
    ("GPU-9f0c1f6e-5b0e-4d0e-8b7a-2f1d3c4b5a69", "a UUID"),
    ("serial: 1654422001234", "a serial number"),
    ("00000000:1B:00.0", "a serial number"),
    ("api_key=0123456789abcdef", "a key"),
    ("0123456789abcdef0123456789abcdef01234567", "a key"),
    ("hf_abcdefghijklmnopqrstuv", "a key"),
    ("https://ada:secret@wandb.ai/x", "a key"),
    ("user: ada", "a user name"),
]
HARMLESS = [
    '"commit":"0123456789abcdef0123456789abcdef01234567"',
    "<code>git checkout 0123456789abcdef0123456789abcdef01234567</code>",
    "<td>commit of this project</td><td>0123456789abcdef0123456789abcdef01234567, "
    "9123456789abcdef0123456789abcdef01234567</td>",
    '"packages":{"nvidia-cublas":"12.8.4.1"}',
    '"driver":"580.159.04"',
    '"_target_": "kernels.softmax.cluster.Cluster"',
    '"timer":"host"',
    '"gpu":"NVIDIA GeForce RTX 4090"',
    '"processor":"AMD EPYC 9654 96-Core Processor"',
    '"model_bytes":1099511627776',
    '"samples_us":[9.344,9.088,1e-05]',
    "share of the roof, GB/s and 2MN/4MN",
    'xmlns="http://www.w3.org/2000/svg"',
    "| 8192×32000 | naive/fused | 3.2 |",
]


@pytest.mark.parametrize(("text", "kind"), GIVEN_AWAY)
def test_text_that_gives_a_machine_away_is_known(text: str, kind: str) -> None:
    assert kind in [found for found, _ in private(json.dumps({"reason": text}))] + [
        found for found, _ in private(text)
    ]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_a_row_and_a_table_say_gives_nothing_away(text: str) -> None:
    assert list(private(text)) == []


def test_this_machines_own_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "zeppelin.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "adalovelace")
    for remembered in (patterns._mine, patterns._private):
        remembered.cache_clear()
    found = list(private("adalovelace ran it on zeppelin"))
    for remembered in (patterns._mine, patterns._private):
        remembered.cache_clear()
    assert found == [("a host name", "zeppelin"), ("a user name", "adalovelace")]


@pytest.mark.parametrize(
    "name", ["variants.json", "table.md", "sessions.jsonl", "vocab/native-auto/torch/config.json"]
)
def test_a_path_in_any_file_is_named_by_line(name: str, tmp_path: Path) -> None:
    path = contributed(tmp_path) / name
    text = path.read_text()
    path.write_text(text.replace("\n", "\n/home/ada/softmax\n", 1))
    told = validated(tmp_path / "contributed")
    assert told.status == 1
    assert "privacy: a home folder" in told.problems()
    assert f"{name}:2: a home folder: /home/ada" in told.text


def test_a_rows_environment_and_reason_are_read(tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    edit(folder / TORCH, 3, environment={"hostname": "deepthought"}, reason="at /scratch/ada/x")
    told = validated(folder)
    assert set(told.problems()) == {"privacy: a path", "privacy: a host name"}
    assert f'{TORCH}:3: a host name: hostname": "d' in told.text
    assert f"{TORCH}:3: a path: /scratch/ada/x" in told.text


@pytest.mark.parametrize("name", ["notes.txt", "core.1234", "vocab/rows.csv", "packed.bin"])
def test_a_file_that_does_not_belong_is_named(name: str, tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (folder / name).write_text("x")
    told = validated(folder)
    assert told.problems() == ["privacy: does not belong"]
    assert f"{name}: no part of a sweep: take it out" in told.text


def test_a_link_belongs_nowhere_and_is_not_followed(tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (tmp_path / "elsewhere").write_text("/home/ada\n")
    (folder / "table.md").unlink()
    (folder / "table.md").symlink_to(tmp_path / "elsewhere")
    assert validated(folder).problems() == ["privacy: does not belong"]


def test_what_is_packed_is_told_to_be_unread(tmp_path: Path) -> None:
    folder = contributed(tmp_path)
    (folder / "rows.tar.gz").write_bytes(b"x")
    told = validated(folder)
    assert told.status == 0
    assert "rows.tar.gz: packed, so nothing in it was checked" in told.text
