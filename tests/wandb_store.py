"""What the stand-in of W&B's server knows, and its answers to wandb-core's GraphQL operations.

Those of `wandb.Api` are in tests/wandb_api.py.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from tests.wandb_api import WandbApi
from tests.wandb_run import StoredRun

ENTITY = {"id": "e", "name": "somebody"}


class WandbStore:
    """Runs by their id; an operation of wandb-core's is a method of its name."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: dict[str, StoredRun] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.unknown: list[str] = []
        self.manifests: dict[str, str] = {}
        self.api = WandbApi(self)
        self._addresses = itertools.count()

    def answer(self, operation: str, query: str, values: dict[str, Any]) -> dict[str, Any]:
        handler = getattr(self, operation, None) or getattr(self.api, operation, None)
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

    def upload_url(self, name: str) -> str:
        return f"{self.url}/upload/{next(self._addresses)}/{name}"

    def Viewer(self, values: dict[str, Any]) -> dict[str, Any]:
        name = ENTITY["name"]
        viewer = {"id": "1", "entity": name, "username": name, "email": "", "flags": "{}"}
        return {"viewer": {**viewer, "teams": {"edges": []}}}

    def ServerFeaturesQuery(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def OrganizationCoreWeaveOrganizationID(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"entity": {"organization": None}}

    def RunStoppedStatus(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"run": {"stopped": False}}}

    def RunResumeStatus(self, values: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(values["name"])
        if run is None:
            return {"model": None}
        tail = [json.dumps(line) for line in run.lines[-1:]]
        bucket = {
            **self._bucket(values["name"]),
            "summaryMetrics": json.dumps(run.summary),
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "logLineCount": 0,
            "eventsLineCount": 0,
            "tags": [],
            "notes": None,
            "wandbConfig": '{"t": 1}',
        }
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
        named = {"id": name, "name": name, "displayName": run.fields.get("displayName")}
        counted = {"historyLineCount": len(run.lines), "config": run.fields.get("config")}
        return {**named, **counted, "description": None}

    def CreateRunFiles(self, values: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": self.upload_url(name)} for name in values["files"]]
        return {"createRunFiles": {"runID": values["run"], "uploadHeaders": [], "files": files}}

    def ArtifactType(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": {"artifactType": {"name": "rows"}}}}

    def CreateArtifact(self, values: dict[str, Any]) -> dict[str, Any]:
        name = f"artifact{len(self.artifacts)}"
        self.artifacts[name] = values
        artifact = {"id": name, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def CreateArtifactManifest(self, values: dict[str, Any]) -> dict[str, Any]:
        manifest = self._manifest(values["artifactID"])
        return {"createArtifactManifest": {"artifactManifest": manifest}}

    def UpdateArtifactManifest(self, values: dict[str, Any]) -> dict[str, Any]:
        manifest = self._manifest(values["artifactManifestID"])
        return {"updateArtifactManifest": {"artifactManifest": manifest}}

    def _manifest(self, artifact: str) -> dict[str, Any]:
        url = self.upload_url("manifest")
        self.manifests[artifact] = url.removeprefix(self.url)
        return {"id": artifact, "file": {"id": "f", "uploadUrl": url, "uploadHeaders": []}}

    def CreateArtifactFiles(self, values: dict[str, Any]) -> dict[str, Any]:
        edges = []
        for spec in values["artifactFiles"]:
            node = {"storagePath": spec["name"], "uploadUrl": self.upload_url(spec["name"])}
            rest = {"uploadHeaders": [], "uploadMultipartUrls": None}
            edges.append({"node": {**node, **rest, "artifact": {"id": spec["artifactID"]}}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def CommitArtifact(self, values: dict[str, Any]) -> dict[str, Any]:
        artifact = self.artifacts[values["artifactID"]]
        artifact["committed"] = True
        self.runs[artifact["runName"]].artifacts.append(artifact["artifactCollectionName"])
        given = {"id": values["artifactID"], "digest": artifact["digest"]}
        return {"commitArtifact": {"artifact": given}}
