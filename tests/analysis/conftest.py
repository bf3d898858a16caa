"""Fixtures of the tests of analysis."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis import report
from analysis.__main__ import main
from analysis.figures import style

Captured = pytest.CaptureFixture[str]
Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """A function that runs a command, checks that it is refused, and returns its error line."""

    def run(*words: str) -> str:
        try:
            status: object = main(words)
        except SystemExit as stopped:
            status = stopped.code
        error = capsys.readouterr().err
        assert (status, error.count("\n"), error.startswith("error: ")) == (2, 1, True), error
        return error

    return run


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test in a folder of its own, which has no outputs/reference/counts."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="package", autouse=True)
def _small_pictures() -> Iterator[None]:
    """Draws pictures with few dots per inch, to save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 30)
        patch.setattr(report, "DPI", 30)
        yield
