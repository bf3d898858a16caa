"""A fake of W&B's server, in this process."""

import base64
import json
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSED_KEY = "r" * 40


class Server(ThreadingHTTPServer):
    """Answers the requests of wandb-core and keeps what it sends; if ``deaf``, it does not answer.

    ``runs`` has the runs by id. Lines of a run's history are stored at the offset that is sent.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.deaf = False
        self.received: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that close their connection, as wandb-core does at its end."""

    def named(self, name: str) -> list[dict[str, Any]]:
        """The runs with a name, the one with the most lines last."""
        found = [run for run in self.runs.values() if run["displayName"] == name]
        return sorted(found, key=lambda run: len(run["lines"]))

    def stream(self, run: dict[str, Any], sent: dict[str, Any]) -> None:
        files = sent.get("files", {})
        if chunk := files.get("wandb-history.jsonl"):
            run["lines"] |= dict(enumerate(map(json.loads, chunk["content"]), chunk["offset"]))
        if chunk := files.get("wandb-summary.json"):
            run["summary"] = json.loads(chunk["content"][-1])
        run["exit_code"] = sent.get("exitcode", run.get("exit_code"))

    def answer(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            name = given["name"]
            run = self.runs.setdefault(name, {"lines": {}})
            run.update({key: value for key, value in given.items() if value is not None})
            bucket = {
                "id": name, "name": name, "displayName": run["displayName"],
                "project": {"id": "p", "name": given["project"], "entity": {"name": "somebody"}},
            }  # fmt: skip
            return {"upsertBucket": {"bucket": bucket}}
        files = [{"name": n, "uploadUrl": f"{self.url}/upload/{n}"} for n in given["files"]]
        return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("latin-1")
        if self.server.deaf:
            time.sleep(60)
        self.server.received.append(f"{self.path}{self.headers}{body}")
        answer: dict[str, Any] = {}
        status, key = 200, self.headers.get("Authorization", "").removeprefix("Basic ")
        if stream := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self.server.stream(self.server.runs[stream[1]], json.loads(body))
        elif REFUSED_KEY in base64.b64decode(key).decode("latin-1"):
            status, answer = 401, {"errors": [{"message": "invalid API key"}]}
        elif self.path == "/graphql":
            sent = json.loads(body)
            given = sent.get("variables") or {}
            answer = {"data": self.server.answer(sent["query"], given.get("input", given))}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_POST = do_PUT
