"""What cannot be compared is refused in one line; what is odd is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.compared import lines, refused, rounds, run
from tests.analysis.latex import sound_latex
from tests.analysis.odd import EITHER, REFUSED, SOUND
from tests.analysis.plausible import row, write

pytestmark = pytest.mark.usefixtures("inside", "small_pictures")


def test_disjoint_sets_are_one_line_with_an_example_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(tmp_path, [row("fused", 1024)], [row("torch", 2048)])
    error = refused(status, capsys)
    assert "no point in common" in error
    assert "fused 4096×1024 float32" in error
    assert "torch 4096×2048 float32" in error


@pytest.mark.parametrize("kind", [*REFUSED])
def test_broken_rows_on_either_side_are_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = write(tmp_path / "good", rounds(1)), tmp_path / "bad"
    bad.mkdir()
    REFUSED[kind](bad)
    for sides in ((good, bad), (bad, good)):
        refused(main(["compare", *map(str, sides), "--out", str(tmp_path / "out")]), capsys)


@pytest.mark.parametrize("kind", [*SOUND, *EITHER])
def test_odd_rows_compared_with_themselves_hold_no_change(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (SOUND | EITHER)[kind](folder)
    assert main(["compare", str(folder), str(folder), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert not [c for c in out if not c.isprintable() and c != "\n"]
    assert {line["verdict"] for line in lines(tmp_path)} <= {"same", "unclear", "no time"}
    sound_latex((tmp_path / "out" / "compare.tex").read_text())


def test_bad_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(write(tmp_path / "good", rounds(1)))
    for arguments in ([good], [good, good, "--threshold", "much"], [good, good, "--threshold", "0"],
                      [good, good, "--alpha", "2"], [good, good, "--alpha", "nan"]):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main(["compare", *arguments])
        refused(int(str(stopped.value.code)), capsys)
    absent = main(["compare", good, str(tmp_path / "absent")])
    assert "absent" in refused(absent, capsys)
