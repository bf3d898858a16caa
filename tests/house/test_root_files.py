"""What stands beside the README names what there is, and runs what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import yaml
from packaging.specifiers import SpecifierSet

import kernels
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_citation_and_changelog_are_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (kernels.__version__, PROJECT["license"])
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert f"\n## {kernels.__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_workflow_runs_ci_on_every_python_that_is_supported() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    supported = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(30) if supported.contains(f"3.{minor}")]
    assert job["strategy"]["matrix"]["python"] == minors


def test_image_builds_the_environment_from_what_it_copies_first(tmp_path: Path) -> None:
    before, _, _ = (ROOT / "Dockerfile").read_text().partition("RUN make .venv/.ready")
    for line in re.findall(r"^COPY (.*)$", before, re.M):
        *sources, target = line.split()
        (tmp_path / target).mkdir(exist_ok=True)
        for source in sources:
            shutil.copy(ROOT / source, tmp_path / target)
    for words in ([".python"], ["--dry-run", ".venv/.ready"]):
        done = subprocess.run(["make", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "experiments.environment build .venv" in done.stdout
