from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.plausible import interpreted, paper, row, write

pytestmark = pytest.mark.usefixtures("small_pictures")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, where no record lies in outputs/reference/counts."""
    monkeypatch.chdir(tmp_path)


def test_figures_prints_the_paths_of_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, paper())
    assert main(["figures", "--rows", str(tmp_path)]) == 0
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    made = set((tmp_path / "figures").iterdir())
    assert made - set(printed) == {tmp_path / "figures" / "figures.manifest.json"}
    assert {p.name.split("-")[0] for p in printed} == {
        "a_fig2", "c_fig3", "d_fig1", "e_fig1", "speedup_naive", "speedup_torch"
    }  # fmt: skip


def test_by_default_the_newest_sweep_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "outputs" / "paper" / "job", paper())
    assert main(["tables", "--only", "main"]) == 0
    assert (tmp_path / "outputs" / "paper" / "tables" / "main-nvidia-h200-float32.md").exists()


def test_nothing_is_made_again_until_rows_files_or_the_request_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def draws(*words: str) -> bool:
        assert main(["tables", "--rows", str(tmp_path), *words]) == 0
        return "nothing changed since" not in capsys.readouterr().out

    write(tmp_path / "job", paper([256, 1024]))
    assert draws("--if-changed", "--only", "main")
    assert draws("--if-changed")  # the last one made some tables alone
    assert not draws("--if-changed")
    assert draws()
    (tmp_path / "tables" / "main-nvidia-h200-float32.md").write_text("edited")
    assert draws("--if-changed")
    rows = tmp_path / "job" / "rows.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    assert draws("--if-changed")
    (tmp_path / "tables" / "tables.manifest.json").write_text("[]")
    assert draws("--if-changed")
    assert not draws("--if-changed")


def test_rows_nothing_can_be_drawn_from_say_what_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [interpreted("online", 256), row("torch", 256)])
    assert main(["figures", "--rows", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert "d_fig1 needs" in error
    assert "M = 4096 float32" in error


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = write(tmp_path / "broken", [row("torch", 256)])
    (broken / "rows.jsonl").write_text('{"schema_version": 9}\n')
    good = write(tmp_path / "good", paper())
    (tmp_path / "file").write_text("")
    for arguments, named in (
        (["--rows", str(tmp_path / "absent")], "absent"),
        (["--rows", str(broken)], "rows.jsonl:1: schema_version 9"),
        (["--rows", str(good), "--out", str(tmp_path / "file" / "out")], "file"),
    ):
        assert main(["figures", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert named in error


def test_a_wrong_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["figures", "--row"], ["figurez"], []):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1


def test_verbose_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--rows", str(tmp_path / "absent"), "--verbose"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_analysis_imports_no_torch_hydra_or_wandb(tmp_path: Path) -> None:
    write(tmp_path, paper([256, 1024]))
    command = ["figures", "--only", "d_fig1", "--rows", str(tmp_path)]
    code = (
        f"import sys; from analysis.__main__ import main; status = main({command}); "
        "heavy = {'torch', 'triton', 'hydra', 'omegaconf', 'wandb'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_no_output_follows_a_link_that_lies_among_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "environment.md").write_text("mine")
    rows = write(tmp_path / "rows", paper([256, 1024]))
    (rows / "tables").symlink_to(victim)
    assert main(["tables", "--rows", str(rows), "--only", "environment"]) == 2
    assert re.fullmatch(r"error: .*tables is a symbolic link.*\n", capsys.readouterr().err)
    (rows / "tables").unlink()
    (rows / "tables").mkdir()
    (rows / "tables" / "environment.md").symlink_to(victim / "environment.md")
    assert main(["tables", "--rows", str(rows), "--only", "environment"]) == 2
    assert "environment.md is a symbolic link" in capsys.readouterr().err
    assert [path.name for path in victim.iterdir()] == ["environment.md"]
    assert (victim / "environment.md").read_text() == "mine"


@pytest.mark.parametrize("kind", ["figures", "tables"])
def test_a_name_that_nothing_has_is_refused_in_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([kind, "--rows", str(tmp_path), "--only", "limits,nonesuch"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: --only: no 'nonesuch'; known are ")
    assert message.count("\n") == 1
