import re
import shutil
import subprocess
import sys
from pathlib import Path

from experiments.data.rows import read_rows, rows_files
from tests.conftest import QUICK, ROOT

BLOCK = re.compile(r"```(?:python|yaml)\n# ((?:kernels|conf)/\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^python -m (experiments\.run kernel=two_line.*)$", re.MULTILINE)


def test_the_readmes_example_adds_two_files_and_appears_in_a_sweep(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    for folder in ("conf", "experiments", "kernels", "hydra_plugins"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    files = BLOCK.findall(readme)
    assert [Path(name).suffix for name, _ in files] == [".py", ".yaml"]
    for name, text in files:
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(text)
    words = COMMAND.findall(readme)[0].split()
    done = subprocess.run(
        [sys.executable, "-m", *words, "tracker=none", *QUICK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    rows = [row for path in rows_files(tmp_path / "outputs") for row in read_rows(path)]
    ours = [row for row in rows if row.kernel == "two_line"]
    assert ours
    assert all(row.status == "ok" and row.time_us is not None for row in ours)
    assert {row.kernel for row in rows} == {"two_line", "naive", "copy"}
    assert "two_line" in done.stdout
