# SPDX-License-Identifier: Apache-2.0
"""Tokens of an identity provider: a secret, or keys that are read from a URL and may change."""
import base64
import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time

import pytest

from server import Server, wait_until

SECRET = "a secret of more than thirty-two bytes"
RULES = {"JWT_ISSUER": "https://id.example", "JWT_AUDIENCE": "threadbox"}


def encode(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def claims(**more):
    now = int(time.time())
    usual = {"iss": RULES["JWT_ISSUER"], "aud": RULES["JWT_AUDIENCE"], "iat": now, "exp": now + 60,
             "sub": "u-7", "tenant": "acme", "role": "user"}
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


def token(head=None, secret=SECRET, **more):
    text = f"{encode({'alg': 'HS256', **(head or {})})}.{encode(claims(**more))}"
    mac = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{encode(mac)}"


class Provider:
    """An identity provider: openssl signs, and a server on loopback publishes the keys."""

    def __init__(self, place):
        self.place, self.asked, self.ids = place, 0, []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                provider.asked += 1
                body = json.dumps({"keys": [provider.public(one) for one in provider.ids]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/jwks"

    def file(self, name):
        return str(self.place / f"{name}.pem")

    def add(self, name):
        subprocess.run(["openssl", "genrsa", "-out", self.file(name), "2048"], check=True,
                       capture_output=True)
        self.ids.append(name)

    def public(self, name):
        shown = subprocess.run(["openssl", "rsa", "-in", self.file(name), "-noout", "-modulus"],
                               check=True, capture_output=True, text=True).stdout
        modulus = bytes.fromhex(shown.strip().partition("=")[2])
        return {"kty": "RSA", "kid": name, "use": "sig", "alg": "RS256", "n": encode(modulus),
                "e": "AQAB"}

    def sign(self, name, **more):
        text = f"{encode({'alg': 'RS256', 'kid': name})}.{encode(claims(**more))}"
        made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.file(name)],
                              input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{encode(made)}"


@pytest.fixture
def provider(tmp_path):
    made = Provider(tmp_path)
    yield made
    made.server.shutdown()


def status(server, credential, path="/api/sessions", method="GET", body=None):
    headers = {"Authorization": f"Bearer {credential}"}
    return server.request(method, path, body, headers).status


def test_tokens_open_the_server_for_their_tenant_and_role(start_server):
    server = start_server(JWT_SECRET=SECRET, **RULES)
    assert "token of https://id.example" in server.lines[2]
    assert server.get("/api/sessions").status == 401
    body = {"thread_id": "t"}
    sessions = {}
    for tenant in ("acme", "other"):
        server.key = token(tenant=tenant)
        sessions[tenant] = server.create("t")
    assert sessions["acme"] != sessions["other"]
    assert server.try_execute(sessions["acme"], "true").status == 404
    server.key = None
    reader = token(role="readonly")
    assert status(server, reader, f"/status/{sessions['acme']}") == 200
    assert status(server, reader, "/create_session", "POST", body) == 403
    for wrong in (
            token(exp=int(time.time()) - 61), token(exp=None), token(iss="x"), token(aud=["x"]),
            token(nbf=int(time.time()) + 90), token(tenant=None), token(role="root"),
            token(secret="another secret of thirty-two bytes"), token({"alg": "none"}),
            token({"crit": ["x"]}), token()[:-1], token() + "=", "x" * 9000,
            f"{encode({'alg': 'none'})}.{encode(claims())}."):
        assert status(server, wrong) == 401, wrong
    assert SECRET not in server.log() and SECRET not in server.command("config").stdout


def test_keys_of_a_url_are_read_and_change(provider, start_server):
    provider.add("one")
    server = start_server(JWT_JWKS_URL=provider.url, **RULES)
    wait_until(lambda: provider.asked, "the keys are asked for")
    wait_until(lambda: status(server, provider.sign("one")) == 200, "the token is good")
    # HS256 with what everybody can know of the key.
    public = json.dumps(provider.public("one"))
    assert status(server, token({"kid": "one"}, secret=public)) == 401
    provider.add("two")
    before = provider.asked
    made_up = [status(server, token({"alg": "RS256", "kid": f"k{i}"})) for i in range(20)]
    assert set(made_up) == {401} and provider.asked - before <= 1, "names make no requests"


def test_a_key_that_is_new_at_a_url_is_found(provider, start_server):
    """Half a minute after the last look: names that somebody makes up lead to no more."""
    provider.add("one")
    server = start_server(JWT_JWKS_URL=provider.url, **RULES)
    late = int(time.time()) + 600
    wait_until(lambda: status(server, provider.sign("one", exp=late)) == 200, "the token is good")
    before = provider.asked
    provider.add("two")
    new = provider.sign("two", exp=late)
    old = provider.sign("one", exp=late)
    provider.ids.remove("one")

    def opens():
        if status(server, new) == 200:
            return True
        time.sleep(0.5)
        return False
    wait_until(opens, "the new key is read", 60)
    assert provider.asked - before == 1
    assert status(server, old) == 401, "what the provider took back is not good any more"


def test_one_bad_key_of_many_keeps_nobody_out(provider, start_server):
    provider.add("one")
    subprocess.run(["openssl", "genrsa", "-out", provider.file("weak"), "1024"], check=True,
                   capture_output=True)
    provider.ids.insert(0, "weak")
    server = start_server(JWT_JWKS_URL=provider.url, **RULES)
    wait_until(lambda: status(server, provider.sign("one")) == 200, "the token is good")
    assert status(server, provider.sign("weak")) == 401
    assert "jwk_left_out" in server.log() and "less than 2048 bits" in server.log()


def test_a_subject_that_is_too_long_is_refused(start_server):
    server = start_server(JWT_SECRET=SECRET, **RULES)
    assert status(server, token(sub="u" * 255)) == 200
    assert status(server, token(sub="u" * 256)) == 401
    server.key = token(sub="\x01" * 255)  # the longest that there is in JSON
    thread = "\x02" * 10
    session = server.create("t" + thread.replace("\x02", "x"))
    server.restart()
    assert server.stdout(session, "echo there") == "there\n"


def test_what_is_wrong_with_the_settings_is_said(binary):
    for settings, words in (
            ({"JWT_SECRET": SECRET}, "JWT_ISSUER and JWT_AUDIENCE"),
            ({"JWT_SECRET": "short", **RULES}, "32 bytes"),
            ({"JWT_JWKS_URL": "http://id.example/jwks", **RULES}, "must be https"),
            ({"JWT_JWKS_FILE": "/nowhere", **RULES}, "JWT_JWKS_FILE"),
            ({"JWT_SECRET": SECRET, "JWT_LEEWAY_SECONDS": "601", **RULES}, "JWT_LEEWAY_SECONDS")):
        server = Server(**settings)
        try:
            done = server.command("serve")
            assert done.returncode == 1 and words in done.stderr, done
        finally:
            server.remove()
