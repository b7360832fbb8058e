"""An HTTP server that receives the messages of [notify]."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """An HTTP server that keeps the requests, and answers them with `statuses`, then with 200."""

    def __init__(self):
        self.requests, self.statuses, self.may_answer = [], [], threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                receiver.may_answer.wait(60)
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/hidden?token=hunter2"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def messages(self):
        return [json.loads(body) for _, _, body in self.requests]

    def events(self, kind):
        return [one for sent in self.messages for one in sent["events"] if one["type"] == kind]

    def close(self):
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()
