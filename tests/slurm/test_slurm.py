"""A sweep through a real Slurm, what it refuses, and a shard's job without Slurm."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.parent.jobs import compose, with_roofs
from experiments.parent.record import read_object
from experiments.slurm import State, divide, last_rows, measure_shard, state_of
from tests.conftest import (
    QUICK,
    ROOT,
    Command,
    Composed,
    Result,
    command_line,
    once_each,
    rows_below,
    shape,
)
from tests.experiments.test_faults import lines, wait_until

on_slurm = pytest.mark.slurm
pytestmark = pytest.mark.timeout(600)
ONE = ["kernel=good", *shape(4, 8), "dtype=float32", "gpu=cpu", *QUICK]
FEW = ["dtype=float32", "gpu=cpu", "remeasure=false", "tracker=none", *QUICK]
# Braces hold what `Cluster` fills in
CONF = Path(__file__).with_name("slurm.conf").read_text()
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
LACKING = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
LAUNCHER = ["hydra/launcher=slurm", "hydra.launcher.gres=null", "hydra.launcher.cpus_per_task=1"]


class Cluster:
    """The node and its controller, running until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        host = socket.gethostname().partition(".")[0]
        ports = {"ctld": _free_port(), "slurmd": _free_port()}
        whose = {"user": getpass.getuser(), "cpus": os.cpu_count()}
        conf = CONF.format(host=host, folder=folder, **ports, **whose)
        (folder / "slurm.conf").write_text(conf)
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Starts all three and waits until the node takes jobs."""
        key, sock = self.folder / "munge.key", self.folder / "munge.sock"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = [f"--{n}-file={self.folder}/munge.{n}" for n in ("pid", "log", "seed")]
        files += [f"--key-file={key}", f"--socket={sock}"]
        self._run("munged", "--foreground", "--force", *files)
        wait_until(sock.exists, 20)
        self._run("slurmctld", "-D", "-c")
        self.start_node()

    def start_node(self) -> None:
        """Starts the node's daemon."""
        self._run("slurmd", "-D")
        good = ("idle", "mixed", "allocated")
        wait_until(lambda: self.say("sinfo", "--noheader", "--format=%T") in good, 60)

    def kill_node(self) -> None:
        """Ends the node's daemon, and all that runs below it, as a power cut would."""
        slurmd = self._running.pop("slurmd")
        steps = [int(p) for p in self.say("pgrep", "-f", "^slurmstepd: ").split()]
        for process in [slurmd.pid, *_below(steps)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        slurmd.wait()

    def submit(self, out: Path, *arguments: str) -> Result:
        """Runs a sweep through Slurm into ``out``, as the command line does."""
        done = subprocess.run(
            command_line(out, *LAUNCHER, *arguments),
            cwd=ROOT,
            env=os.environ | self.variables,
            capture_output=True,
            text=True,
            timeout=280,
        )
        return Result(done.returncode, done.stdout, done.stderr, out)

    def say(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            command, env=os.environ | self.variables, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def jobs(self, state: str) -> list[str]:
        """The jobs in a state, by number."""
        return self.say("squeue", "-h", "-r", "-t", state, "-o", "%i").split()

    def stop(self) -> None:
        """Ends all jobs and all daemons."""
        self.say("scancel", "--full", "--user", getpass.getuser())
        wait_until(lambda: not self.jobs("pending,running,completing"), 30)
        for process in reversed(self._running.values()):
            process.terminate()
            process.wait(timeout=30)

    def _run(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.out").open("ab") as log:
            self._running[program] = subprocess.Popen(
                [shutil.which(program, path=PATH) or program, *arguments],
                env=os.environ | self.variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _below(parents: list[int]) -> list[int]:
    """Processes and all their descendants."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = list(parents)
    for process in found:
        found += [pid for pid, parent in pairs if parent == process]
    return found


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm of one node, this machine; skipped where a program is lacking."""
    if LACKING:
        pytest.skip(f"no {', '.join(LACKING)} here (Debian: munge slurm-wlm)")
    # a socket's path has room for a hundred characters, and pytest's own folders take them
    folder = Path(tempfile.mkdtemp(prefix=f"slurm-{getpass.getuser()}-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


@pytest.fixture
def _as_in_a_job(pool: None) -> Iterator[None]:
    """A job ends upon signals; the tests' own process does not."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_as_in_a_job")
def test_each_shard_is_measured_by_itself_as_one_sweep(tmp_path: Path, composed: Composed) -> None:
    jobs = [
        compose([f"kernel={kernel}", *variation, *FEW])
        for variation in (shape(4, [8, 16]), shape(4, 32))
        for kernel in ("good", "torch")
    ]
    shards = divide([*with_roofs(jobs)], tmp_path, on_card=False)

    def states() -> list[tuple[str, int, int]]:
        rows = {name: last_rows(tmp_path / "shards" / name, mine) for name, mine in shards.items()}
        found = [
            state_of(mine, [r for r, _ in rows[name]], "", {}) for name, mine in shards.items()
        ]
        return [(state.word, state.points, state.done) for state in found]

    assert states() == [("new", 6, 0), ("new", 3, 0)]
    for mine in reversed(shards.values()):  # in whatever order Slurm runs them
        measure_shard(mine, "sweep-1")
    rows = rows_below(tmp_path)
    assert once_each(rows)
    assert sorted((r.kernel, r.cols) for r in rows) == [
        (kernel, cols) for kernel in ("copy", "good", "torch") for cols in (8, 16, 32)
    ]
    assert states() == [("done", 6, 6), ("done", 3, 3)]
    assert {row.sweep for row in rows} == {"sweep-1"}


def test_a_state_is_what_slurm_says_or_else_what_the_rows_say(composed: Composed) -> None:
    jobs = [compose(["kernel=good", *shape(4, [8, 16]), *FEW])]

    def state(slurm: dict[str, str] | None) -> State:
        return state_of(jobs, [], "7_0", slurm)

    for slurm, word, why in [
        ({"7_0": "PENDING"}, "queued", ""), (None, "running", ""),
        ({"7_0": "COMPLETED"}, "running", ""),
        ({"7_0": "CANCELLED"}, "failed", "Slurm says CANCELLED (log: "),
        ({}, "failed", "points are missing (log: "),
    ]:  # fmt: skip
        found = state(slurm)
        assert (found.word, found.why[: len(why)]) == (word, why)
        assert found.is_due({"overwrite": True, "only_failed": False}) == (word == "failed")
        assert not found.is_due({"overwrite": False, "only_failed": True})


@on_slurm
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hydra.launcher.partition=nope"], "invalid partition specified: nope"),
        (["hydra.launcher.more={no-such: 1}"], "unrecognized option '--no-such=1'"),
        (["hydra.launcher.time=soon"], "Slurm takes no job: "),
        (["+hydra.launcher.queue=short"], "hydra.launcher: Unavailable parameter"),
        (["gpu.card=1"], "gpu.card= pins a card of this host; Slurm assigns the cards"),
    ],
)
def test_wrong_options_are_one_line_and_nothing_is_submitted(
    arguments: list[str], message: str, cluster: Cluster, tmp_path: Path
) -> None:
    given = {argument.partition("=")[0] for argument in arguments}
    others = [argument for argument in ONE if argument.partition("=")[0] not in given]
    done = cluster.submit(tmp_path, *others, *arguments)
    assert done.status == 2
    assert message in done.error
    assert cluster.jobs("pending,running") == []


@on_slurm
def test_rows_measured_without_slurm_are_not_mixed_with_its_own(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "rows.jsonl").touch()
    done = cluster.submit(tmp_path, *ONE)
    assert "holds rows measured without Slurm; choose another" in done.error
    assert done.status == 2


def test_a_sweep_on_slurm_goes_on_there_alone(sweep: Command, tmp_path: Path) -> None:
    (tmp_path / "out" / "slurm").mkdir(parents=True)
    done = sweep(*ONE)
    assert "is a sweep's on Slurm (LAUNCHER=slurm); choose another" in done.error
    assert done.status == 2


def shards(out: Path) -> dict[str, str]:
    """The Slurm job of each shard, by the shard's folder."""
    return read_object(out / "slurm" / "jobs.json")


def half_done(cluster: Cluster, out: Path, not_again: str = "") -> tuple[str, str]:
    """A shard's name and job, once it is running with a point on disk and another to come."""
    found: list[tuple[str, str]] = []

    def look() -> bool:
        running = set(cluster.jobs("running"))
        found[:] = [
            (name, job)
            for name, job in shards(out).items()
            if job in running and name != not_again and 1 <= lines(out / "shards" / name) <= 2
        ]
        return bool(found)

    wait_until(look, 120)
    return found[0]


@on_slurm
def test_left_hurt_and_submitted_again_it_has_every_row_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = cluster.submit(out, "experiment=twelve")
    assert first.status == 0, first.stderr
    assert "12 of 12 shards submitted; the same command looks again" in first.stdout

    cancelled, job = half_done(cluster, out)
    cluster.say("scancel", job)
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    seen = cluster.submit(out, "experiment=twelve", "dry_run=true")
    assert "Slurm says CANCELLED" in seen.stdout
    assert "1 of 12 shards to submit" in seen.stdout

    lost, job = half_done(cluster, out, not_again=cancelled)
    cluster.kill_node()
    cluster.start_node()
    wait_until(lambda: job not in cluster.jobs("running,completing"), 60)
    assert 1 <= lines(out / "shards" / cancelled) <= 2
    assert 1 <= lines(out / "shards" / lost) <= 2

    assert cluster.submit(out, "experiment=twelve").status == 0
    wait_until(lambda: not cluster.jobs("pending,running,completing"), 280)
    jobs = shards(out)
    again = cluster.submit(out, "experiment=twelve")
    assert again.status == 0, again.stderr
    assert len(again.rows) == 36
    assert once_each(again.rows)
    assert all(row.attempt == 1 and row.card == 0 for row in again.rows)
    assert "12 shards: 0 new, 0 queued, 0 running, 12 done, 0 failed" in again.stdout
    assert again.stderr == ""
    assert (out / "table.md").read_text().count("| ok") == 36
    assert "of roof" in again.stdout
    assert shards(out) == jobs
