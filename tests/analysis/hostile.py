"""Folders as somebody might contribute them who means harm: each is refused, and soon."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.analysis.contributed import CONFIG, TORCH, edit, edit_config, lines_of

Harm = Callable[[Path], object]


def _named(name: str) -> Harm:
    return lambda folder: (folder / "vocab").rename(folder / name)


def _field(**changes: Any) -> Harm:
    return lambda folder: edit(folder / TORCH, 2, **changes)


def _environment(**changes: Any) -> Harm:
    def harm(folder: Path) -> None:
        known = lines_of(folder / TORCH)[1]["environment"]
        edit(folder / TORCH, 2, environment=known | changes)

    return harm


def _deep(folder: Path) -> None:
    params: dict[str, Any] = {}
    for _ in range(900):
        params = {"a": params}
    edit(folder / TORCH, 2, params=params)


def _appended(data: bytes) -> Harm:
    def harm(folder: Path) -> None:
        with (folder / TORCH).open("ab") as file:
            file.write(data)

    return harm


def _config(group: str, **changes: Any) -> Harm:
    return lambda folder: edit_config(folder, group, **changes)


def _link(name: str, target: str) -> Harm:
    def harm(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return harm


def _pipe(name: str) -> Harm:
    def harm(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return harm


def _archive(folder: Path) -> None:
    with tarfile.open(folder / "rows.tar.gz", "w:gz") as packed:
        link = tarfile.TarInfo("vocab/native-auto/torch/rows.jsonl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
        packed.addfile(tarfile.TarInfo("../../escaped"), io.BytesIO())


def many(folder: Path, count: int) -> None:
    """As many rounds as there are rows, of which the last is wrong."""
    row = lines_of(folder / TORCH)[0]
    rows = [row | {"key": f"{i:020x}", "round": i} for i in range(count)]
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / TORCH).write_text(text + "{}\n")
    edit_config(folder, "", rounds=count)
    edit_config(folder, "grid", rows=row["rows"], cols=row["cols"])


HOSTILE: Mapping[str, Harm] = MappingProxyType(
    {
        "folder $(touch PWNED)": _named("$(touch PWNED)"),
        "folder with a quote": _named("a'b\"`c"),
        "folder -rf": _named("-rf"),
        "folder with a newline": _named("a\nb"),
        "folder with a right-to-left mark": _named("a\u202eb"),
        ".rows is a link": _link(".rows", "/tmp"),
        "tables/environment.md is a link": _link("tables/environment.md", "/etc/passwd"),
        "rows.jsonl is a link": _link(TORCH, "/etc/passwd"),
        "worker.log is a pipe": _pipe("worker.log"),
        "rows.jsonl is a pipe": _pipe(TORCH),
        "an archive of links": _archive,
        "report.html": lambda folder: (folder / "report.html").write_text("<script>x</script>"),
        "_target_ is os.system": _config("kernel", _target_="os.system"),
        "_target_ is of the checkout": _config("kernel", _target_="experiments.run.main"),
        "a variant's target": lambda folder: (folder / "variants.json").write_text(
            (folder / "variants.json").read_text().replace("kernels.softmax.torch", "os.path")
        ),
        "tracker.entity": _config("tracker", entity="someone"),
        "gpu.match of (A+)+$": _config("gpu", match="(A+)+$"),
        "an unknown option": _config("", callbacks={"_target_": "os.system"}),
        "10⁹ rounds": _config("", rounds=10**9),
        "a grid of 10¹² sizes": _config("grid", cols={"first": 1, "last": 10**12, "step": 1}),
        "30 KB of a. in reason": _field(reason="a." * 15_000),
        "a line of 100 MB": _appended(b'{"reason":"' + b"a." * 50_000_000 + b'"}\n'),
        "400 rows in a job": lambda folder: many(folder, 400),
        "nested 900 deep": _deep,
        "a number of 30 digits": _field(cols=10**30),
        "10⁵ lines that are not rows": _appended(b"{}\n" * 100_000),
        "gpu_serial": _environment(gpu_serial="1654422001234"),
        "a token among the packages": _environment(packages={"torch": "hf_abcdefghijklmnop"}),
        "a path as a processor": _environment(processor="Intel /home/ada"),
        "config.json of 10 MB": lambda folder: (folder / CONFIG).write_text(" " * 10**7 + "{}"),
    }
)
