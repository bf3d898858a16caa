"""A real Slurm of one node: munged, slurmctld and slurmd, all their files in one folder."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from tests.conftest import ROOT, Result, command_line
from tests.experiments.test_faults import wait_until

CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=1
SlurmdTimeout=5
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=60 State=UP
"""
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
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        children.setdefault(int(rest.rpartition(") ")[2].split()[1]), []).append(int(pid))
    found = list(parents)
    for process in found:
        found += children.get(process, [])
    return found


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
