"""What tests of whole commands share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis import report
from analysis.__main__ import main
from analysis.figures import style

Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must be refused, and gives the one line that says why."""

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
    """The test runs in a folder of its own, where no record lies in outputs/reference/counts."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="package", autouse=True)
def _small_pictures() -> Iterator[None]:
    """Pictures of a few dots: what is checked of them does not depend on how many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 30)
        patch.setattr(report, "DPI", 30)
        yield
