"""A stand-in for Label Studio's server, community edition: the documented API, over HTTP.

It refuses what the documentation does not allow, and can be told to fail. The form of what it
answers follows api.labelstud.io and the project's own serializers.
"""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

LEGACY = "0123456789abcdef0123456789abcdef01234567"
PERSONAL = "header.refresh.signature"
LABELS = ["left", "right"]


def interface(labels=LABELS, variables=("features",)):
    """Return what a project's labelling interface is parsed to."""
    return {
        "side": {
            "type": "Choices",
            "to_name": ["shown"],
            "inputs": [{"type": "Table", "valueType": None, "value": v} for v in variables],
            "labels": list(labels),
            "labels_attrs": {label: {"value": label} for label in labels},
        }
    }


class StandIn:
    """A server with project 7.

    Attributes
    ----------
    tasks : by number, as the API gives them
    config : the project's parsed labelling interface
    overlap : annotations that finish a task
    faults : what befalls the next requests, each (method, part of the path, fault); see `_Handler`
    seen : the requests that came, as (method, path)
    """

    def __init__(self):
        self.begin_anew()
        self.lock = threading.RLock()
        self.access = 0
        self._number = 100
        handler = type("Handler", (_Handler,), {"studio": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # callers who have gone
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def begin_anew(self):
        """Forget all that came, and be as reliable as at first."""
        self.tasks = {}
        self.config = interface()
        self.overlap = 1
        self.faults = deque()
        self.seen = []

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def expire_access(self):
        """Let the short-lived access of personal tokens run out."""
        self.access += 1

    def add(self, task):
        with self.lock:
            self._number += 1
            number = self._number
            self.tasks[number] = {
                "id": number,
                "project": 7,
                "data": task["data"],
                "predictions": task.get("predictions", []),
                "annotations": [],
                "is_labeled": False,
                "drafts": [],
            }
        return number

    def annotate(self, number, label, name="side", cancelled=False):
        """Finish an annotation, as a person does in the browser."""
        with self.lock:
            task = self.tasks[number]
            value = {"choices": [] if label is None else [label]}
            result = {"id": "x", "from_name": name, "to_name": "shown", "type": "choices"}
            task["annotations"].append(
                {
                    "id": 1000 + len(task["annotations"]),
                    "completed_by": 1,
                    "result": [] if cancelled else [result | {"value": value}],
                    "was_cancelled": cancelled,
                    "created_at": "2026-03-09T22:16:08.728353Z",
                }
            )
            finished = [one for one in task["annotations"] if not one["was_cancelled"]]
            task["is_labeled"] = len(finished) >= self.overlap

    def by_record(self):
        """Return the numbers of the tasks there are, by their records' ids."""
        with self.lock:
            found = {}
            for number, task in self.tasks.items():
                found.setdefault(task["data"]["id"], []).append(number)
        return found


class _Handler(BaseHTTPRequestHandler):
    """Answers; a fault is a status to fail with, "lost" (done, but the reply is), or "again".

    With "again" a list gives the page before the one asked for; a callable is called when the
    request was carried out, before the reply.
    """

    studio: StandIn

    def do_GET(self):
        self._serve()

    def do_POST(self):
        self._serve()

    def do_DELETE(self):
        self._serve()

    def log_message(self, *_):
        pass

    def _serve(self):
        studio, fault = self.studio, None
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        studio.seen.append((self.command, self.path))
        if studio.faults and studio.faults[0][:2] == (self.command, path):
            fault = studio.faults.popleft()[2]
        if isinstance(fault, int):
            self._reply(fault, {"detail": "as told"})
            return
        with studio.lock:
            status, content = self._answer(path, body, fault)
        if callable(fault):
            fault()
        if fault == "lost":
            self.close_connection = True
            return
        self._reply(status, content)

    def _reply(self, status, content):
        payload = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "https://elsewhere.example/")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _answer(self, path, body, fault):
        if body:
            assert self.headers["Content-Type"] == "application/json"
            body = json.loads(body)
        if (self.command, path) == ("POST", "/api/token/refresh/"):
            if body != {"refresh": PERSONAL}:
                return 401, {"detail": "Token is invalid", "code": "token_not_valid"}
            return 200, {"access": f"access-{self.studio.access}"}
        given = self.headers.get("Authorization")
        if given not in (f"Token {LEGACY}", f"Bearer access-{self.studio.access}"):
            return 401, {"detail": "Invalid token."}
        match self.command, path.strip("/").split("/"):
            case "GET", ["api", "projects", "7"]:
                return 200, {"id": 7, "title": "t", "parsed_label_config": self.studio.config}
            case "POST", ["api", "projects", "7", "import"]:
                return self._import(body)
            case "GET", ["api", "tasks"]:
                return self._list(fault)
            case "DELETE", ["api", "tasks", number] if int(number) in self.studio.tasks:
                del self.studio.tasks[int(number)]
                return 204, None
        return 404, {"detail": "Not found."}

    def _import(self, tasks):
        config = self.studio.config
        for task in tasks:
            lacking = {i["value"] for tag in config.values() for i in tag["inputs"]} - set(
                task["data"]
            )
            if lacking:
                return 400, {"detail": f"{lacking} key is expected in task data"}
            for prediction in task.get("predictions", ()):
                assert isinstance(prediction["model_version"], str)
                assert prediction["score"] is None or 0 <= prediction["score"] <= 1
                for result in prediction["result"]:
                    tag = config[result["from_name"]]
                    assert result["to_name"] in tag["to_name"]
                    assert result["type"] == "choices"
                    if not set(result["value"]["choices"]) <= set(tag["labels"]):
                        return 400, {"detail": "Prediction validation failed"}
        ids = [self.studio.add(task) for task in tasks]
        counts = {"task_count": len(ids), "annotation_count": 0, "prediction_count": 0}
        asked = parse_qs(urlsplit(self.path).query)
        return 201, counts | ({"task_ids": ids} if asked.get("return_task_ids") == ["true"] else {})

    def _list(self, fault):
        query = {name: value for name, (value,) in parse_qs(urlsplit(self.path).query).items()}
        assert query["project"] == "7"
        assert query["fields"] == "all", "annotations are given with all fields only"
        chosen = json.loads(query.get("query", "{}")).get("selectedItems", {"all": True})
        tasks = [self.studio.tasks[number] for number in sorted(self.studio.tasks)]
        if not chosen["all"]:
            tasks = [task for task in tasks if task["id"] in chosen["included"]]
        size, page = int(query["page_size"]), int(query["page"]) - (fault == "again")
        rows = tasks[(page - 1) * size : page * size]
        if page > 1 and not rows:
            return 404, {"detail": "Invalid page."}
        totals = {"total": len(tasks), "total_annotations": 0, "total_predictions": 0}
        return 200, totals | {"tasks": rows}
