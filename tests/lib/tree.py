# SPDX-License-Identifier: Apache-2.0
"""The files of a session through /api/sessions/{id}/files."""
import gzip
import io
import tarfile

from files import query


class Tree:
    def __init__(self, server, session):
        self.server, self.session = server, session
        self.base = f"/api/sessions/{session}/files"

    def call(self, method, place, body=None, headers=None, **fields):
        asked = "?" + query(**fields) if fields else ""
        return self.server.request(method, self.base + place + asked, body, headers or {})

    def stat(self, path):
        return self.call("GET", "", path=path)

    def list(self, path="", **fields):
        return self.call("GET", "/list", path=path, **fields)

    def paths(self, path="", **fields):
        reply = self.list(path, **fields)
        assert reply.status == 200, reply
        return [row["path"] for row in reply.json["files"]]

    def read(self, path, headers=None, **fields):
        return self.call("GET", "/content", headers=headers, path=path, **fields)

    def write(self, path, content, **fields):
        return self.call("PUT", "/content", content, path=path, **fields)

    def wrote(self, path, content=b"", **fields):
        reply = self.write(path, content, **fields)
        assert reply.status in (200, 201), reply
        return reply.json

    def edit(self, path, old, new, **fields):
        return self.call("POST", "/edit", {"path": path, "old": old, "new": new, **fields})

    def glob(self, pattern, **fields):
        return self.call("GET", "/glob", pattern=pattern, **fields)

    def globbed(self, pattern, **fields):
        reply = self.glob(pattern, **fields)
        assert reply.status == 200, reply
        return [row["path"] for row in reply.json["files"]]

    def search(self, pattern, **fields):
        return self.call("POST", "/search", {"pattern": pattern, **fields})

    def found(self, pattern, **fields):
        reply = self.search(pattern, **fields)
        assert reply.status == 200, reply
        return [(row["path"], row["line"], row["text"]) for row in reply.json["matches"]]

    def mkdir(self, path, **fields):
        return self.call("POST", "/mkdir", {"path": path, **fields})

    def move(self, source, target, **fields):
        return self.call("POST", "/move", {"from": source, "to": target, **fields})

    def remove(self, path, **fields):
        return self.call("DELETE", "", path=path, **fields)

    def archive(self, *paths, **fields):
        asked = "&".join([query(path=path) for path in paths] + [query(**fields)] * bool(fields))
        return self.server.request("GET", f"{self.base}/archive?{asked}")

    def unpack(self, data, path=""):
        return self.call("PUT", "/archive", data, path=path)


def tar_of(*entries, compress=False, **options):
    """A tar: each entry is (name, content) or a TarInfo or (TarInfo, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as archive:
        for entry in entries:
            info, content = entry if isinstance(entry, tuple) else (entry, None)
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
            if content is not None:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if content is not None else None)
    return gzip.compress(out.getvalue()) if compress else out.getvalue()


def entry_of(name, kind, target="", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    for key, value in fields.items():
        setattr(info, key, value)
    return info
