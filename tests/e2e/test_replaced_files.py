# SPDX-License-Identifier: Apache-2.0
"""Uploads and archives in the place of what is there."""
import concurrent.futures
import os

from files import upload
from tree import Tree, tar_of

MIB = 1 << 20

# For as long as archives are unpacked over it.
USE = """
import os
problems = set()
while not os.path.exists('over'):
    try:
        with open('a/log', 'a') as file: file.write(open('a/p').read())
    except OSError as error: problems.add(error.strerror)
print(sorted(problems))"""


def test_a_directory_is_in_its_place_while_files_want_it(server, session):
    tree = Tree(server, session)
    server.stdout(session, "mkdir a; echo precious > a/p")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        user = pool.submit(server.python, session, USE)
        replies = list(pool.map(lambda _: tree.unpack(tar_of(("a", b"file"))), range(60)))
        replies += pool.map(lambda _: upload(server, session, "a", b"file"), range(60))
        server.stdout(session, "touch over")
        assert user.result() == "[]\n"
    assert all(400 <= reply.status < 500 for reply in replies), replies
    assert server.stdout(session, "cat a/p; ls -A | grep upload; true") == "precious\n"


def test_what_was_replaced_takes_no_room(start_server):
    """At once: the next file of an archive may need it."""
    server = start_server(MAX_WORKSPACE_SIZE_MB=16)
    session = server.create()
    tree = Tree(server, session)
    for _ in range(8):
        archive = tar_of(*[(f"f{i}", os.urandom(4 * MIB)) for i in range(2)])
        assert tree.unpack(archive).status == 200
