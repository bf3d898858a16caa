"""The recorded rows name no machine, and docs/generated holds the tables that they give.

`make reference` draws those tables. `.ci/run` draws all of them, also without AVX-512; here claims
and tables are drawn, with another processor, language, time zone, umask and path.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.compare import matched, with_verdicts
from analysis.load import load
from docs import reference
from experiments.data.rows import SMALL_FILES
from tests.conftest import REFERENCE, ROOT

GENERATED = ROOT / reference.GENERATED
PATH = re.compile(r"(?<![\w./])(?<!https:)(/[\w.+-]+){2,}|\b(root|home)\b|[A-Z]:\\\\|~/")
WITHOUT_PICTURES = ("claims", "tables", "compare/h200", "selftest/h200_limits")
WITHOUT_AVX2 = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "LC_ALL": "tr_TR.UTF-8",
    "TZ": "Asia/Tokyo",
}


def test_another_machine_draws_the_same(tmp_path: Path) -> None:
    checkout = tmp_path / "Bücher & Regal"
    checkout.mkdir()
    for name in ("analysis", "conf", "docs", "experiments", "kernels", "outputs"):
        (checkout / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-m", "docs.reference", *WITHOUT_PICTURES],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)} | WITHOUT_AVX2,
        umask=0o077,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ", 0 differ from" in done.stdout


def test_each_difference_is_named(tmp_path: Path) -> None:
    kept, drawn = tmp_path / "kept", tmp_path / "drawn"
    shutil.copytree(GENERATED / "compare" / "h200", kept / "compare")
    (kept / reference.NAMES).write_text("\n".join(reference.names(kept)) + "\n")
    shutil.copytree(kept, drawn, ignore=shutil.ignore_patterns(reference.NAMES))
    assert reference.differences(drawn, kept) == []
    (kept / "compare/compare.csv").write_text("name,us\na,1.07\nb,0.9\nc,2.5e-07\n")
    table = drawn / "compare/compare.csv"
    table.write_text("name,us\na,1.08\nb,0.899999\nc,2.6e-07\n")  # roundings of the same
    assert reference.differences(drawn, kept) == []
    for text, change in (
        ("name,us\na,1.09\nb,0.9\nc,2.5e-07\n", "2: 'a,1.07' is now 'a,1.09'"),
        ("name,us\na,1.07\nz,0.9\nc,2.5e-07\n", "3: 'b,0.9' is now 'z,0.9'"),
        ("name,us\na,1\nb,0.9\nc,2.5e-07\n", "2: 'a,1.07' is now 'a,1'"),
        ("name,us\na,1.07\n", " 4 lines are now 2"),
    ):
        table.write_text(text)
        assert reference.differences(drawn, kept) == [f"compare/compare.csv:{change}"]
    table.rename(table.with_name("added.csv"))
    assert reference.differences(drawn, kept) == [
        "compare/added.csv: new",
        "compare/compare.csv: no longer drawn",
    ]
    reference.write(drawn, kept)
    assert not (kept / "compare/compare.csv").exists()
    assert reference.differences(drawn, kept) == []


def test_no_page_includes_a_table_that_is_never_drawn_anew() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    including = {p.relative_to(ROOT) for p in pages if "include:" in p.read_text(encoding="utf-8")}
    assert including <= {*reference.PAGES}


@pytest.mark.parametrize("page", reference.PAGES, ids=str)
def test_pages_include_the_tables_of_today(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert reference.included(text, GENERATED) == text, "make docs"
    assert reference.included(text.replace("| softmax |", "| other |"), GENERATED) == text


def test_a_recording_holds_its_rows_jobs_and_records_alone_and_names_no_folder() -> None:
    recordings = sorted(path.parent for path in REFERENCE.rglob("sweep.json"))
    assert len(recordings) > 30
    known = {"rows.jsonl.gz", "jobs.jsonl.gz", *SMALL_FILES}
    for folder in recordings:
        assert {path.name for path in folder.iterdir()} <= known, folder
    for path in (p for p in REFERENCE.rglob("*") if p.suffix in {".json", ".jsonl"}):
        assert not PATH.search(path.read_text(encoding="utf-8")), path


def test_two_percent_more_work_is_found_and_none_is_not() -> None:
    """By today's statistics, from the recorded self-test of an H200."""
    repetitions, per_repetition = 50, 8
    frame = load(REFERENCE / "h200_selftest_slowed")
    frame = frame[frame["operation"] == "softmax"]
    share = frame["params"].map(lambda params: params["share"])
    # eight rounds are a repetition, which stands as a card of its own under one name
    rounds = frame["round"]
    frame = frame.assign(
        settings="{}", card=rounds // per_repetition, round=rounds % per_repetition
    )
    frame = frame.assign(params=[{}] * len(frame))
    sides = {
        (kernel, more): frame[frame["kernel"].eq(kernel) & share.eq(more)].assign(kernel="slowed")
        for kernel, more in (("slowed-a", 0.0), ("slowed-b", 0.0), ("slowed-a", 0.02))
    }
    for (kernel, more), head in sides.items():
        points = matched(sides["slowed-a", 0.0], head)
        assert len(points) == repetitions
        assert points["head_rounds"].eq(per_repetition).all()
        each = [with_verdicts(points[i : i + 1], 0.01) for i in range(repetitions)]
        found = sum(one.loc[0, "verdict"] == "slower" for one in each)
        assert found == (repetitions if more else 0), kernel
