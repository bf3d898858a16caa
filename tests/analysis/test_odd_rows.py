"""What a crash, an old version or a joker left behind leaves a gap or is refused in one line."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from analysis.__main__ import COMMANDS, main
from analysis.load import read_inputs
from analysis.published import sources
from experiments.data.files import RowsError
from tests.analysis.latex import sound_latex
from tests.analysis.odd import EITHER, REFUSED, SOUND, Make

# No record lies in the outputs of a folder of its own; small pictures are quick.
pytestmark = pytest.mark.usefixtures("inside", "small_pictures")


def _folder(path: Path, make: Make) -> Path:
    path.mkdir(parents=True)
    make(path)
    return path


def _status(command: str, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Runs the command; whatever comes, it must be fit to be read."""
    status = main([command, "--rows", str(folder), "--out", str(out)])
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        hidden = [letter for letter in text if not letter.isprintable() and letter != "\n"]
        assert not hidden, f"letters that a terminal obeys: {hidden}"
    if status == 0:
        assert "error:" not in printed.err
        made = [path for path in out.rglob("*") if path.is_file()]
        assert made, "it said nothing and made nothing"
        for path in made:
            _check(path)
    else:
        assert re.fullmatch(r"error: .*\n", printed.err), printed.err
    return status


def _check(path: Path) -> None:
    """A file that was made is sound, and what rows hold is text in it."""
    if path.suffix == ".png":
        return
    text = path.read_text(encoding="utf-8")
    assert "\x1b" not in text
    if path.suffix == ".svg":
        ElementTree.fromstring(text)
    elif path.suffix == ".tex":
        sound_latex(text)
    elif path.suffix == ".md":
        assert "<" not in text.replace("&lt;", "")
        for ours in ("\\](", *(f"]({source.url})" for source in sources().values())):
            text = text.replace(ours, "")
        assert "](" not in text
    elif path.suffix == ".html":
        assert "alert(1)</script>" not in text
        assert "<script>alert" not in text


def test_odd_rows_beside_good_ones_leave_a_gap_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for case, make in SOUND.items():
        _folder(tmp_path / "rows" / case, make)
    for command in ("tables", "report"):
        assert _status(command, tmp_path / "rows", tmp_path / command, capsys) == 0


@pytest.mark.parametrize("case", EITHER)
def test_rows_that_tell_little_give_what_they_can_or_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "rows", EITHER[case])
    assert _status("tables", folder, tmp_path / "tables", capsys) == 0
    if case == "nothing_worked":
        assert _status("claims", folder, tmp_path / "claims", capsys) == 0
        assert _status("selftest", folder, tmp_path / "selftest", capsys) == 2


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_row_is_refused_in_one_line_that_names_the_file(
    case: str, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "rows", REFUSED[case])
    with pytest.raises((RowsError, OSError)) as refused:
        read_inputs(folder, tmp_path / "out", "tables")
    text = str(refused.value)
    assert str(folder) in text
    assert text.isprintable()
    assert len(text) < 400


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_in_one_line_and_makes_nothing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "rows", REFUSED["another_field"])
    assert _status(command, folder, tmp_path / "out", capsys) == 2
    assert not (tmp_path / "out").exists()
