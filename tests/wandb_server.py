"""A local stand-in for W&B's server: what wandb-core asks of it, answered and kept in memory.

It follows the real one in what the mirror leans on: a run is found by its id, lines of its history
are placed at the offset that the client names, the client learns how many there are, and an
artifact passes through create, manifest, upload and commit. It is not the real one in that it
checks no schema, knows a single entity, never deduplicates an artifact by its digest, and takes any
key but the refused one.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "k" * 40
REFUSED_KEY = "r" * 40
ENTITY = {"id": "e", "name": "somebody"}
ALWAYS: dict[str, dict[str, Any]] = {
    "Viewer": {"viewer": {"id": "1", "entity": "somebody", "username": "somebody", "email": "",
                          "flags": "{}", "teams": {"edges": []}}},
    "ServerFeaturesQuery": {"serverInfo": {"features": []}},
    "OrganizationCoreWeaveOrganizationID": {"entity": {"organization": None}},
    "RunStoppedStatus": {"project": {"run": {"stopped": False}}},
    "ArtifactType": {"project": {"artifact": {"artifactType": {"name": "rows"}}}},
}  # fmt: skip


@dataclass
class StoredRun:
    """One run as the server knows it after all requests."""

    fields: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any] | None] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    artifacts: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        stored = json.loads(self.fields.get("config") or "{}")
        return {key: entry["value"] for key, entry in stored.items()}

    def history(self, metric: str, axis: str = "N") -> list[tuple[int, float]]:
        """N and a metric, line by line; a hole in the history fails here."""
        return [(line[axis], line[metric]) for line in self.lines if metric in line]  # type: ignore[operator,index]


class WandbStore:
    """Runs by their id; an operation of wandb-core's is a method of its name."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: dict[str, StoredRun] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.unknown: list[str] = []
        self._addresses = itertools.count()

    def answer(self, operation: str, query: str, values: dict[str, Any]) -> dict[str, Any]:
        if operation in ALWAYS:
            return ALWAYS[operation]
        handler = getattr(self, operation, None)
        if handler is None:
            self.unknown.append(f"{operation}: {query}")
            return {}
        answer: dict[str, Any] = handler(values.get("input", values))
        return answer

    def stream(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[name]
        for file, chunk in body.get("files", {}).items():
            if file == "wandb-history.jsonl":
                end = chunk["offset"] + len(chunk["content"])
                run.lines.extend([None] * (end - len(run.lines)))
                run.lines[chunk["offset"] : end] = map(json.loads, chunk["content"])
            elif file == "wandb-summary.json":
                run.summary = json.loads(chunk["content"][-1])
        if body.get("complete"):
            run.exit_code = body["exitcode"]
        return {"exitcode": None, "limits": {}}

    def named(self, name: str) -> StoredRun:
        """The one run of a name."""
        [run] = [run for run in self.runs.values() if run.fields["displayName"] == name]
        return run

    def upload_url(self, name: str) -> str:
        return f"{self.url}/upload/{next(self._addresses)}/{name}"

    def RunResumeStatus(self, values: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(values["name"])
        if run is None:
            return {"model": None}
        bucket = self._bucket(values["name"]) | {
            "summaryMetrics": json.dumps(run.summary),
            "historyTail": json.dumps([json.dumps(line) for line in run.lines[-1:]]),
            "eventsTail": "[]", "logLineCount": 0, "eventsLineCount": 0, "tags": [],
            "notes": None, "wandbConfig": '{"t": 1}',
        }  # fmt: skip
        return {"model": {"id": "p", "name": "p", "entity": ENTITY, "bucket": bucket}}

    def UpsertBucket(self, values: dict[str, Any]) -> dict[str, Any]:
        inserted = values["name"] not in self.runs
        run = self.runs.setdefault(values["name"], StoredRun())
        run.fields.update({key: value for key, value in values.items() if value is not None})
        project = {"id": "p", "name": values["project"], "entity": ENTITY}
        bucket = {**self._bucket(values["name"]), "sweepName": None, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def _bucket(self, name: str) -> dict[str, Any]:
        run = self.runs[name]
        return {
            "id": name, "name": name, "displayName": run.fields.get("displayName"),
            "historyLineCount": len(run.lines), "config": run.fields.get("config"),
            "description": None,
        }  # fmt: skip

    def CreateRunFiles(self, values: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": self.upload_url(name)} for name in values["files"]]
        return {"createRunFiles": {"runID": values["run"], "uploadHeaders": [], "files": files}}

    def CreateArtifact(self, values: dict[str, Any]) -> dict[str, Any]:
        name = f"artifact{len(self.artifacts)}"
        self.artifacts[name] = values
        artifact = {"id": name, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def CreateArtifactManifest(self, values: dict[str, Any]) -> dict[str, Any]:
        file = {"id": "f", "uploadUrl": self.upload_url("manifest"), "uploadHeaders": []}
        manifest = {"id": values["artifactID"], "file": file}
        return {"createArtifactManifest": {"artifactManifest": manifest}}

    def CreateArtifactFiles(self, values: dict[str, Any]) -> dict[str, Any]:
        edges = []
        for spec in values["artifactFiles"]:
            node = {"storagePath": spec["name"], "uploadUrl": self.upload_url(spec["name"])}
            rest = {"uploadHeaders": [], "uploadMultipartUrls": None}
            edges.append({"node": {**node, **rest, "artifact": {"id": spec["artifactID"]}}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def CommitArtifact(self, values: dict[str, Any]) -> dict[str, Any]:
        artifact = self.artifacts[values["artifactID"]]
        self.runs[artifact["runName"]].artifacts.append(artifact["artifactCollectionName"])
        given = {"id": values["artifactID"], "digest": artifact["digest"]}
        return {"commitArtifact": {"artifact": given}}


class WandbServer(ThreadingHTTPServer):
    """Serves on a free port of this host, inside a ``with``.

    Once `deaf_after` has named an operation, that is answered once more and then nothing is, until
    ``released`` is set.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[str] = []
        self.last = ""
        self.released = threading.Event()
        self.released.set()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.store = WandbStore(self.url)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, as wandb-core does at its end, is not news."""

    def __enter__(self) -> WandbServer:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def deaf_after(self, operation: str) -> None:
        """Answers this GraphQL operation once more and then nothing until ``released`` is set."""
        self.last = operation

    def everything(self) -> str:
        """All that any client ever sent, as one text."""
        uploads = [data.decode("latin-1") for data in self.store.uploads.values()]
        return "\n".join([*self.requests, *uploads])


class _Handler(BaseHTTPRequestHandler):
    server: WandbServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.server.released.wait()
        self.server.requests.append(f"{self.path}{self.headers}")
        self._reply({})

    def do_PUT(self) -> None:
        self.server.store.uploads[self.path] = self._body()
        self._reply({})

    def do_POST(self) -> None:
        self.server.released.wait()
        body, store = self._body().decode(), self.server.store
        self.server.requests.append(f"{self.headers}{body}")
        sent = json.loads(body)
        key = self.headers.get("Authorization", "").removeprefix("Basic ")
        if stream := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self._reply(store.stream(stream[1], sent))
        elif REFUSED_KEY in base64.b64decode(key).decode("latin-1"):
            self._reply({"errors": [{"message": "invalid API key"}]}, status=401)
        else:
            name = re.search(r"(?:query|mutation)\s+(\w+)", sent["query"])
            operation = name[1] if name else ""
            if operation == self.server.last:
                self.server.last = ""
                self.server.released.clear()
            answer = store.answer(operation, sent["query"], sent.get("variables") or {})
            self._reply({"data": answer})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _reply(self, data: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
