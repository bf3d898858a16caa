"""A worker process, started by a sweep: ``python -m experiments.worker DEVICE [prepare] SOCKET``.

SOCKET is an inherited file descriptor. Each line on it is a request or an answer, in JSON.
"""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import json
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from experiments.data.errors import UserError, anonymous
from experiments.worker.machine import choose_device

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Sends its device and environment, then answers requests until the socket is closed.

    Linux kills it when its parent ends, in any way: an orphan would still use the card while the
    resumed sweep measures.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.stdout = sys.stderr  # which encodes any character, and writes each line to the log at once
    _, device_asked, *prepare, descriptor = sys.argv
    parent = socket.socket(fileno=int(descriptor))
    parent.set_inheritable(False)
    requests = map(json.loads, parent.makefile("rb"))

    def send(**message: Any) -> None:
        parent.sendall(json.dumps(message).encode() + b"\n")

    try:
        machine = choose_device(device_asked)
    except RuntimeError as error:
        send(error=str(error))
        return
    # `choose_device` has decided about Triton's interpreter; only now may kernels be imported
    from experiments.worker.describe import describe, inspect
    from experiments.worker.measure import measure
    from experiments.worker.trial import Equipment, check_file

    gc.freeze()  # the garbage collector skips the objects of the imports, which stay
    device = machine.device
    about = {"environment": machine.environment, "host_cards": machine.host_cards}
    send(device=dataclasses.asdict(device), **about)
    equipment = functools.cache(lambda: Equipment(machine))  # made on first use: it takes memory
    if prepare:
        with contextlib.suppress(Exception):  # the first point raises it again; its row says so
            equipment().flush()

    def announce(stage: str) -> None:
        send(stage=stage)

    def ask(path: str) -> dict[str, Any]:
        send(check=path)
        result: dict[str, Any] = next(requests)["result"]
        return result

    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "describe": lambda request: describe(request["job"], device),
        "inspect": lambda request: inspect(request["kernel"]),
        "measure": lambda request: measure(request["point"], equipment(), announce, ask),
        "check": lambda request: check_file(request["path"], equipment()),
    }
    for request in requests:
        try:
            reply = answers[request["do"]](request)
        except UserError as error:
            reply = {"error": str(error)}
        except Exception as error:  # a kernel's own declarations may raise anything
            if request["do"] == "measure":
                raise  # ends this worker; the parent starts another for the next point
            reply = {"error": f"it fails with {anonymous(error)}"}
        send(reply=reply, number=request["number"])


if __name__ == "__main__":
    main()
