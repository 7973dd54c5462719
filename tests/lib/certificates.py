# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test's own, made by openssl."""
import pathlib
import subprocess
import uuid


class Certificates:
    """An authority, and certificates of it."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out",
                     "ca.pem", "-days", "2", "-subj", "/CN=authority of the tests")
        self.authority = str(self.place / "ca.pem")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.place, check=True, capture_output=True)

    def make(self, names, expired=False):
        name = uuid.uuid4().hex
        (self.place / f"{name}.cnf").write_text(
            "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\n"
            "default_md=sha256\npolicy=p\nx509_extensions=e\nunique_subject=no\n"
            f"[p]\ncommonName=supplied\n[e]\nsubjectAltName={names}\n")
        (self.place / "index").touch()
        (self.place / "serial").write_text(f"{int(name[:8], 16) | 1 << 32:012x}\n")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
                     f"{name}.csr", "-subj", "/CN=e2b of the tests")
        until = "20200101000000Z" if expired else "20991231000000Z"
        self.openssl("ca", "-batch", "-config", f"{name}.cnf", "-cert", "ca.pem", "-keyfile",
                     "ca.key", "-in", f"{name}.csr", "-out", f"{name}.pem", "-startdate",
                     "20190101000000Z", "-enddate", until)
        return str(self.place / f"{name}.pem"), str(self.place / f"{name}.key")
