# SPDX-License-Identifier: Apache-2.0
"""A socket that writes down what clients send, byte by byte, and answers as it was told."""
import json
import socket
import threading

ANSWERS = {  # what each path says to a client that wants to go on
    "/create_session": {"session_id": "sess-1", "status": "created"},
    "/get_session": {"session_id": "sess-1", "status": "active"},
    "/execute": {"exit_code": 0, "output": "", "stdout": "", "stderr": "", "execution_time_ms": 1},
    "/upload_file": {"status": "uploaded"},
    "/list_files": {"files": [], "total_files": 0, "total_size_bytes": 0},
    "/status/sess-1": {"status": "active"},
    "/health": {"worker_id": "w", "pool_size": 1, "active_sessions": 0},
    "/cleanup": {"status": "cleaned_up"},
    "/download_file": {},
}


class Request:
    """One request as it came, and whether its client closed the connection after the answer."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.line, self.body, self.closed = lines[0], body, False
        self.headers = dict(line.split(": ", 1) for line in lines[1:])
        self.repeated = len(self.headers) != len(lines) - 1

    @property
    def call(self):
        return self.line.rsplit(" ", 1)[0].split("?")[0]


class Recorder:
    """Answers 200 with ANSWERS, but what `script` holds for a path first: (status, value) each."""

    def __init__(self):
        self.requests = []
        self.script = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.serving = []
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            self.serving.append(thread)
            thread.start()

    def serve(self, connection):
        with connection:
            connection.settimeout(30)
            data = b""
            while b"\r\n\r\n" not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, _, body = data.partition(b"\r\n\r\n")
            request = Request(head, body)
            while len(request.body) < int(request.headers.get("Content-Length", 0)):
                request.body += connection.recv(65536)
            self.requests.append(request)
            connection.sendall(self.answer(request))
            request.closed = connection.recv(1) == b""  # a second request would show here

    def answer(self, request):
        path = request.call.split(" ")[1]
        planned = self.script.get(path)
        status, value = planned.pop(0) if planned else (200, ANSWERS[path])
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return (f"HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def take(self):
        """All requests since the last time, once their connections are at an end."""
        for thread in self.serving:
            thread.join(30)
        self.serving.clear()
        taken, self.requests = self.requests, []
        return taken

    def close(self):
        if self.listener.fileno() == -1:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.acceptor.join(10)
