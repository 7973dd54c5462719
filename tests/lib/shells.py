# SPDX-License-Identifier: Apache-2.0
"""A shell of a session over HTTP: opened, given commands, looked at, ended."""
import contextlib
import json

from live import read_events
from server import wait_until


def try_open(server, session, **fields):
    return server.post(f"/api/sessions/{session}/shells", fields)


def open_shell(server, session, **fields):
    reply = try_open(server, session, **fields)
    assert reply.status == 201, reply
    return Shell(server, session, reply.json["shell_id"])


class Shell:
    def __init__(self, server, session, number):
        self.server, self.session, self.number = server, session, number
        self.path = f"/api/sessions/{session}/shells/{number}"

    def try_run(self, command, seconds=60, **fields):
        return self.server.post(f"{self.path}/run", {"command": command, **fields},
                                seconds=seconds)

    def run(self, command, **fields):
        reply = self.try_run(command, **fields)
        why = [line for line in self.server.log().splitlines() if "internal_error" in line]
        assert reply.status == 200, (reply, why)
        return reply.json

    def say(self, command, **fields):
        """What a command that must succeed in this very shell printed."""
        answer = self.run(command, **fields)
        assert answer["exit_code"] == 0 and answer["stderr"] == "", answer
        assert not answer["shell"]["respawned"], answer
        return answer["stdout"]

    def run_and_forget(self, command, **fields):
        """For a server that may die under it."""
        with contextlib.suppress(Exception):
            self.try_run(command, **fields)

    def show(self):
        reply = self.server.get(self.path)
        assert reply.status == 200, reply
        return reply.json

    def interrupt(self):
        return self.server.post(f"{self.path}/interrupt")

    def delete(self):
        return self.server.request("DELETE", self.path)

    def wait_running(self, command=None):
        """The process at work in it, once there is one and it runs `command`."""
        def at_work():
            number = self.show()["running"]
            if number is None:
                return None
            process = self.server.process_of(self.session, number)
            return number if command is None or process["command"] == command else None
        return wait_until(at_work, "a command runs in the shell")

    @contextlib.contextmanager
    def stream(self, command, events=False, **fields):
        """An iterator of (type, message) as they come."""
        with contextlib.closing(self.server.connect()) as connection:
            headers = {"Content-Type": "application/json"}
            if events:
                headers["Accept"] = "text/event-stream"
            body = json.dumps({"command": command, "stream": True, **fields})
            connection.request("POST", f"{self.path}/run", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            with contextlib.closing(answer):
                yield events_of(answer) if events else lines_of(answer)


def events_of(answer):
    for event in read_events(answer):
        yield event.name, event.data


def lines_of(answer):
    while line := answer.readline():
        if line.strip():
            message = json.loads(line)
            yield message.pop("type"), message
