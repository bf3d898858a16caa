"""The command line: what it prints, what it refuses in one line, and what it leaves alone."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.conftest import Captured, Refused
from tests.analysis.plausible import interpreted, paper, row, write
from tests.conftest import ROOT


def test_bad_input_is_one_line(tmp_path: Path, refused: Refused, capsys: Captured) -> None:
    for words in (["figures", "--row"], ["figurez"], []):
        assert "--help lists what there is" in refused(*words)
    good = write(tmp_path / "good", [interpreted("online", 256), row("torch", 256)])
    (tmp_path / "file").write_text("")
    for words, named in (
        ([str(tmp_path / "absent")], "absent"),
        ([str(good)], "d_fig1 needs"),
        ([str(good), "--only", "limits,nonesuch"], "--only: no 'nonesuch'; known are a_fig1"),
    ):
        assert named in refused("figures", "--rows", *words)
    assert "no roofline can be drawn" in refused("roofline", "--rows", str(good))
    assert "file" in refused("tables", "--rows", str(good), "--out", str(tmp_path / "file" / "out"))
    assert main(["figures", "--rows", str(tmp_path / "absent"), "--verbose"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_terminal_that_takes_ascii_alone_gets_every_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write(tmp_path, paper([256, 1024]))
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["claims", "--rows", str(rows)]) == 0
    printed = terminal.buffer.getvalue()  # type: ignore[attr-defined]
    assert b"\\xd7" in printed
    assert b"The sources' claims, NVIDIA H200: " in printed


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import experiments.run, experiments.parent.driver", "torch triton wandb pandas numpy"),
        ("import analysis.__main__ as a; a.main({command})", "torch triton hydra omegaconf wandb"),
    ],
)
def test_a_command_imports_no_more_than_it_needs(code: str, heavy: str, tmp_path: Path) -> None:
    rows = str(write(tmp_path, paper([256, 1024])))
    code = code.format(command=["figures", "--only", "d_fig1", "--rows", rows])
    script = f"import sys; {code}; print({{*{heavy.split()}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["set()"], "")


@pytest.mark.parametrize("command", ["experiments.run", "experiments.bench", "analysis"])
def test_a_python_without_the_packages_is_one_line(command: str) -> None:
    words = [sys.executable, "-S", "-m", command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert re.fullmatch(r"error: No module named '\w+'; run \.venv/bin/python, .*\n", done.stderr)


def test_no_output_follows_a_link_that_lies_among_the_rows(
    tmp_path: Path, refused: Refused
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "headline.md").write_text("mine")
    rows = write(tmp_path / "rows", [row(name, 256) for name in ("auto", "torch")])
    command = ("tables", "--rows", str(rows), "--only", "headline")
    (rows / "tables").symlink_to(victim)
    assert re.search("tables is a symbolic link", refused(*command))
    (rows / "tables").unlink()
    (rows / "tables").mkdir()
    (rows / "tables" / "headline.md").symlink_to(victim / "headline.md")
    assert "headline.md is a symbolic link" in refused(*command)
    assert [path.name for path in victim.iterdir()] == ["headline.md"]
    assert (victim / "headline.md").read_text() == "mine"
