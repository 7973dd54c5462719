# SPDX-License-Identifier: Apache-2.0
"""Errors of remote mode: ours, and at the same time those of ``requests`` that callers have always
caught (``requests.HTTPError`` with ``response.status_code``, ``requests.ConnectionError``,
``requests.Timeout``). Imported when the first one happens, since ``requests`` takes its time."""

from __future__ import annotations

import json
from typing import Any

import requests

from . import _errors as plain
from ._http import Response


class RemoteSessionExpiredError(plain.SessionExpiredError, requests.HTTPError):
    pass


class RemoteCommandRefusedError(plain.CommandRefusedError, requests.HTTPError):
    pass


class RemoteInvalidRequestError(plain.InvalidRequestError, requests.HTTPError):
    pass


class RemoteLimitExceededError(plain.LimitExceededError, requests.HTTPError):
    pass


class RemoteCapacityError(plain.CapacityError, requests.HTTPError):
    pass


class RemoteProcessNotFoundError(plain.ProcessNotFoundError, requests.HTTPError):
    pass


class RemoteConflictError(plain.ConflictError, requests.HTTPError):
    pass


class RemoteEditError(plain.EditError, requests.HTTPError):
    pass


class RemoteUnsupportedError(plain.UnsupportedError, requests.HTTPError):
    pass


class RemoteServerError(plain.ServerError, requests.HTTPError):
    pass


class RemoteFileNotFoundError(plain.SandboxError, FileNotFoundError, requests.HTTPError):
    pass


class RemotePermissionError(plain.SandboxError, PermissionError, requests.HTTPError):
    pass


class RemoteAuthenticationError(plain.AuthenticationError, requests.HTTPError):
    pass


class RemoteUnreachableError(plain.UnreachableError, requests.ConnectionError):
    pass


class RemoteTimeoutError(plain.ServerTimeoutError, requests.Timeout):
    pass


class RemoteProtocolError(plain.ProtocolError, requests.RequestException):
    pass


WITHOUT_ANSWER: dict[type[plain.SandboxError], type[plain.SandboxError]] = {
    plain.UnreachableError: RemoteUnreachableError,
    plain.ServerTimeoutError: RemoteTimeoutError,
    plain.ProtocolError: RemoteProtocolError,
}


def without_answer(problem: plain.SandboxError) -> plain.SandboxError:
    """The same error as one of ``requests`` too."""
    kind = WITHOUT_ANSWER.get(type(problem))
    return problem if kind is None else _made(kind, str(problem), None)


def from_response(response: Response) -> plain.SandboxError:
    """What the answer of a server that refuses means."""
    body = _body(response)
    message = body.get("error") or body.get("detail") or response.reason or "no reason given"
    if not isinstance(message, str):
        message = json.dumps(message)
    if response.status >= 500 and body.get("reference"):
        message += f" (reference {body['reference']})"
    if response.status == 401:
        message += "; give api_key=, or set SANDBOX_API_KEY"
    kind = _kind(response, body, message)
    error = _made(kind, message, _as_requests(response))
    if isinstance(error, plain.CommandRefusedError):
        error.command = str(body.get("command", ""))
        error.forbidden_pattern = body.get("forbidden_pattern")
        error.offset = (body.get("position") or {}).get("offset")
    elif isinstance(error, plain.EditError):
        error.matches, error.lines = body["matches"], body.get("lines", [])
    return error


def _kind(response: Response, body: dict[str, Any], message: str) -> type[plain.SandboxError]:
    status = response.status
    if status == 404:
        return _missing(body, message)
    if status == 409 and "matches" in body:
        return RemoteEditError
    if status == 400:
        refused = "command" in body or "forbidden_pattern" in body
        return RemoteCommandRefusedError if refused else RemoteInvalidRequestError
    kinds: dict[int, type[plain.SandboxError]] = {
        401: RemoteAuthenticationError,
        403: RemotePermissionError,
        405: RemoteUnsupportedError,
        409: RemoteConflictError,
        413: RemoteLimitExceededError,
        429: RemoteLimitExceededError,
        501: RemoteUnsupportedError,
        503: RemoteCapacityError,
        507: RemoteLimitExceededError,
    }
    return kinds.get(status, RemoteServerError)


def _missing(body: dict[str, Any], message: str) -> type[plain.SandboxError]:
    """404 has many meanings; the body tells them apart."""
    if "filename" in body or "path" in body:
        return RemoteFileNotFoundError
    if message.startswith(("Volume not found", "Artifact not found")):
        return RemoteFileNotFoundError
    if message.startswith("no such"):
        return RemoteProcessNotFoundError
    if message == "Not Found":
        return RemoteUnsupportedError  # no such route: an older server
    return RemoteSessionExpiredError


def _body(response: Response) -> dict[str, Any]:
    try:
        body = json.loads(response.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _made(
    kind: type[plain.SandboxError], message: str, response: requests.Response | None
) -> plain.SandboxError:
    error: Any = kind(message)
    error.response = response
    error.request = None if response is None else response.request
    return error  # type: ignore[no-any-return]


def _as_requests(response: Response) -> requests.Response:
    made = requests.Response()
    made.status_code = response.status
    made.reason = response.reason
    made.url = response.url
    made.headers.update(response.headers)
    made.request = requests.Request(response.method, response.url).prepare()
    made._content = response.body
    made._content_consumed = True  # type: ignore[attr-defined]
    made.encoding = "utf-8"
    return made
