"""Folders as somebody might contribute them who means harm: each is refused, and soon.

``python -m tests.analysis.hostile`` prints what ``validate`` says of each of them, and how long it
took.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.analysis.contributed import CONFIG, TORCH, contributed, edit, edit_config, lines_of

Harm = Callable[[Path], object]
MANY = "4,000 rows in a job"


def _named(name: str) -> Harm:
    """A job's folder by another name."""
    return lambda folder: (folder / "vocab").rename(folder / name)


def _field(**changes: Any) -> Harm:
    return lambda folder: edit(folder / TORCH, 2, **changes)


def _environment(**changes: Any) -> Harm:
    def harm(folder: Path) -> None:
        known = lines_of(folder / TORCH)[1]["environment"]
        edit(folder / TORCH, 2, environment=known | changes)

    return harm


def _text(field: str, text: str) -> Harm:
    """A field whose JSON is replaced as a text."""

    def harm(folder: Path) -> None:
        edit(folder / TORCH, 2, **{field: "@@"})
        path = folder / TORCH
        path.write_text(path.read_text().replace('"@@"', text))

    return harm


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


def many(folder: Path, count: int = 4000) -> None:
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
        "folder with a blank": _named("a b"),
        "folder with #": _named("a#b"),
        "folder a:b;c": _named("a:b;c"),
        "folder with a quote": _named("a'b\"`c"),
        "folder -rf": _named("-rf"),
        "folder with a newline": _named("a\nb"),
        "folder with a right-to-left mark": _named("a\u202eb"),
        ".rows is a link": _link(".rows", "/tmp"),
        "tables/environment.md is a link": _link("tables/environment.md", "/etc/passwd"),
        "claims is a link": _link("claims", "/tmp"),
        "table.md is a link": _link("table.md", "/etc/passwd"),
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
        MANY: many,
        "nested 900 deep": _text("params", '{"a":' * 900 + "1" + "}" * 900),
        "nested 100,000 deep": _appended(b"[" * 100_000 + b"\n"),
        "rows as a text": _field(rows="8192"),
        "rows as true": _field(rows=True),
        "cols as a float": _field(cols=512.0),
        "a number of 30 digits": _field(cols=10**30),
        "a text of 30 digits": _field(model_bytes=str(10**30)),
        "card 10¹⁸": _field(card=10**18),
        "a key twice": _text("params", '{}, "rows": 1'),
        "compulsory_bytes −1": _field(compulsory_bytes=-1),
        "compulsory_bytes 2⁶³−1": _field(compulsory_bytes=2**63 - 1),
        "a lone surrogate": _text("gpu", '"\\ud800"'),
        "not a number": _text("time_us", "NaN"),
        "10⁵ lines that are no rows": _appended(b"{}\n" * 100_000),
        "gpu_serial": _environment(gpu_serial="1654422001234"),
        "a token among the packages": _environment(packages={"torch": "hf_abcdefghijklmnop"}),
        "an address as a version": _environment(driver="10.12.0.7"),
        "a path as a processor": _environment(processor="Intel /home/ada"),
        "config.json of 10 MB": lambda folder: (folder / CONFIG).write_text(" " * 10**7 + "{}"),
    }
)


def main() -> None:
    """Prints a table: what the folder holds, the verdict, seconds."""
    print("| folder | verdict | s |\n|---|---|---|")
    for name, harm in HOSTILE.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = contributed(Path(scratch))
            harm(folder)
            command = [sys.executable, "-m", "analysis", "validate", "--rows", str(folder)]
            begun = time.perf_counter()
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                said = (done.stdout + done.stderr).strip().splitlines()[-1]
                verdict = f"{done.returncode}: {said[:60]}"
            except subprocess.TimeoutExpired:
                verdict = "no answer"
            print(f"| {name} | {verdict} | {time.perf_counter() - begun:.1f} |", flush=True)


if __name__ == "__main__":
    main()
