"""The interface of a Label Studio server for tests: its URL, injected failures, and annotators."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

LEGACY = "0123456789abcdef0123456789abcdef01234567"
OTHERS = ("1" * 40, "2" * 40)
PEOPLE = (LEGACY, *OTHERS)
"""The legacy tokens of those who answer, of whom the first has made the project."""

EMAILS = ("people@example.com", *(f"{token}@example.com" for token in OTHERS))
"""The e-mail addresses of these people."""

LABELS = ["left", "right"]


def interface(labels=LABELS, shows='<Table name="shown" value="$features"/>'):
    """Return a labelling interface, which `shows` something named `shown` and asks for a side."""
    choices = "".join(f'<Choice value="{label}"/>' for label in labels)
    asks = f'<Choices name="side" toName="shown" choice="single">{choices}</Choices>'
    return f"<View>{shows}{asks}</View>"


class Front:
    """A server with a project; whoever has the other side says what is `answer`ed.

    Attributes
    ----------
    url, project : where it is, and the project's number
    personal : a personal access token
    faults : what befalls the next requests, each (method, path, fault); see `_Handler`
    seen : the requests that came, as (method, path)
    lock : while it is held, nothing is answered
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.faults = deque()
        self.seen = []
        handler = type("Handler", (_Handler,), {"studio": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # callers who have gone
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, method, target, headers, body):
        """Return the status and the bytes that `target`, a path with its query, is answered by."""
        raise NotImplementedError

    def lose_data(self, first):
        """Restart on an empty database, with a project of the same number.

        The next task has the number `first`, as if the tasks before had been deleted.
        """
        raise NotImplementedError

    def begin_anew(self):
        """Be as reliable as at first, with a new project."""
        self.faults.clear()
        self.seen.clear()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def importing(self):
        return f"/api/projects/{self.project}/import"

    def do(self, method, path, body=None, token=LEGACY):
        """Ask as somebody in a browser does, whom no fault befalls: return status and answer."""
        scheme = "Token" if "." not in (token or "") else "Bearer"
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"{scheme} {token}"} if token else {}
        payload = None if body is None else json.dumps(body).encode()
        status, content = self.answer(method, path, headers, payload)
        try:
            return status, json.loads(content or b"null")
        except ValueError:
            return status, content

    def done(self, *request):
        """Return the answer to a request that is carried out."""
        status, content = self.do(*request)
        assert status < 300, (status, content)
        return content

    def show(self, xml):
        """Give the project another labelling interface."""
        self.done("PATCH", f"/api/projects/{self.project}/", {"label_config": xml})

    def want(self, n):
        """Set the number of annotations that finish a task to `n`."""
        self.done("PATCH", f"/api/projects/{self.project}/", {"maximum_annotations": n})

    @property
    def tasks(self):
        """The tasks as the API gives them, by number."""
        query = {"project": self.project, "fields": "all", "page": 1, "page_size": 1000}
        rows = self.done("GET", f"/api/tasks/?{urlencode(query)}")["tasks"]
        return {row["id"]: row for row in rows}

    def by_record(self):
        """Return the numbers of the tasks there are, by their records' ids."""
        found = {}
        for number, task in self.tasks.items():
            found.setdefault(task["data"].get("id"), []).append(number)
        return found

    def add(self, task):
        path = f"{self.importing}?return_task_ids=true"
        return self.done("POST", path, [task])["task_ids"][0]

    def remove(self, number):
        self.done("DELETE", f"/api/tasks/{number}/")

    def annotate(self, number, label, name="side", cancelled=False, by=LEGACY):
        """Finish an annotation, as a person does in the browser."""
        value = {"choices": [] if label is None else [label]}
        result = {"id": "x", "from_name": name, "to_name": "shown", "type": "choices"}
        body = {"result": [] if cancelled else [result | {"value": value}]}
        path = f"/api/tasks/{number}/annotations/"
        self.done("POST", path, body | {"was_cancelled": cancelled}, by)

    def begin(self, number, by=LEGACY):
        """Begin to annotate, and leave it at a draft."""
        self.done("POST", f"/api/tasks/{number}/drafts", {"result": []}, by)


class _Handler(BaseHTTPRequestHandler):
    """Answers; a fault is a status to fail with, "lost" (done, but the reply is), or "again".

    With "again" a list gives the page before the one asked for; a callable is called when the
    request was carried out, before the reply.
    """

    studio: Front

    def do_GET(self):
        self._serve()

    def do_POST(self):
        self._serve()

    def do_PATCH(self):
        self._serve()

    def do_DELETE(self):
        self._serve()

    def log_message(self, *_):
        pass

    def _serve(self):
        studio, fault = self.studio, None
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        studio.seen.append((self.command, self.path))
        if studio.faults and studio.faults[0][:2] == (self.command, path):
            fault = studio.faults.popleft()[2]
        if isinstance(fault, int):
            self._reply(fault, b'{"detail": "as told"}')
            return
        with studio.lock:
            target = _page_before(self.path) if fault == "again" else self.path
            status, content = studio.answer(self.command, target, dict(self.headers), body)
        if callable(fault):
            fault()
        if fault == "lost":
            self.close_connection = True
            return
        self._reply(status, content)

    def _reply(self, status, payload):
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "https://elsewhere.example/")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _page_before(target):
    path, _, query = target.partition("?")
    asked = {name: value for name, (value,) in parse_qs(query).items()}
    return f"{path}?{urlencode(asked | {'page': int(asked['page']) - 1})}"
