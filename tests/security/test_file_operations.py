# SPDX-License-Identifier: Apache-2.0
"""Work on files from outside, against a tenant who owns the files and means harm."""
import gzip
import io
import os
import random
import tarfile
import threading

import pytest

from conftest import quick, start_tenant
from server import wait_until
from tree import Tree, entry_of, tar_of

LONGEST = 2000  # bytes of a line that a search shows


@pytest.fixture
def tree(server, session):
    return Tree(server, session)


def make(server, session, code):
    server.python(session, "import os, socket\n" + code, timeout=60)


# ---- what is no file, and links that lead out ----

@pytest.mark.parametrize("kind, code", [
    ("fifo", "os.mkfifo('x')"), ("socket", "s = socket.socket(1); s.bind('x')"),
    ("directory", "os.mkdir('x')"), ("link out", "os.symlink('/etc/passwd', 'x')"),
    ("link to /proc", "os.symlink('/proc/self/environ', 'x')"), ("loop", "os.symlink('x', 'x')")])
def test_only_regular_files_are_read_written_and_edited(server, session, tree, kind, code):
    make(server, session, code)
    for reply in (quick(tree.read, "x"), quick(tree.write, "x", b"y"),
                  quick(tree.edit, "x", "a", "b"), quick(tree.write, "x", b"y", append=1),
                  quick(tree.read, "x", line=1)):
        assert reply.status == 400, (kind, reply)
    found = quick(tree.search, "root").json
    assert found["matches"] == []


def test_nothing_leads_out_through_a_directory(server, session, tree):
    make(server, session, "os.symlink('/etc', 'out'); os.symlink('/', 'top'); os.mkdir('in')")
    for path in ("out/passwd", "top/etc/passwd"):
        for reply in (tree.stat(path), tree.read(path), tree.write(path, b"x"), tree.mkdir(path),
                      tree.edit(path, "root", "x"), tree.remove(path), tree.move(path, "y"),
                      tree.search("root", path=path), tree.archive(path),
                      tree.unpack(tar_of(("f", b"x")), path)):
            assert reply.status == 400, (path, reply)
    assert tree.move("in", "out/in").status == 400
    for path in ("out", "top"):
        assert tree.list(path).status == 400 and tree.glob("**", path=path).status == 400
    assert tree.globbed("**") == ["in", "out", "top"]
    assert tree.paths("", recursive=1) == ["in", "out", "top"]


def test_a_link_is_removed_itself(server, session, tree):
    make(server, session, "os.makedirs('keep'); open('keep/f', 'w').close();"
                          "os.makedirs('d'); os.symlink('../keep', 'd/link');"
                          "os.symlink('/etc', 'd/out')")
    assert tree.remove("d", recursive=1).status == 200
    assert tree.paths("", recursive=1) == ["keep", "keep/f"]


def test_hostile_names_come_through(server, session, tree):
    make(server, session, """
os.mkdir('d')
for name in (b'a b', b'-rf', b'$(x)', b'new\\nline', b'"q"', b'\\xff\\xfe', b'*', b'[', b'\\x1b[2J',
             b'x' * 255):
    open(b'd/' + name, 'w').write('needle')""")
    assert len(tree.paths("d")) == 10
    assert len(tree.found("needle")) == 10
    assert tree.globbed("d/\\*") == ["d/*"]
    with tarfile.open(fileobj=io.BytesIO(tree.archive("d").body), errors="surrogateescape") as tar:
        assert len(tar.getnames()) == 10 and "\udcff\udcfe" in tar.getnames()
    assert tree.remove("d/new\nline").status == 200
    assert tree.remove("d", recursive=1).status == 200
    assert tree.paths() == []


# ---- races ----

SWAPPER = """
import os, sys
os.makedirs('real/sub', exist_ok=True)
for name in ('real/f', 'real/sub/g'):
    open(name, 'w').write('inside')
os.symlink(sys.argv[1], 'trap')
print('ready', flush=True)
while True:
    for a, b in (('real', 'swap'), ('trap', 'real'), ('real', 'trap'), ('swap', 'real')):
        try: os.rename(a, b)
        except OSError: pass
"""


def test_links_swapped_under_every_operation_reach_nothing_outside(server, session, tree):
    start_tenant(server, session, SWAPPER, "/tmp")
    server.stdout(session, "mkdir -p /tmp/sub; echo outside > /tmp/f; echo outside > /tmp/sub/g")
    allowed = {200, 201, 400, 404, 409, 503}
    for round in range(60):
        for reply in (tree.read("real/f"), tree.edit("real/f", "inside", "inside"[::-1]),
                      tree.write("real/f", b"inside"), tree.stat("real/f"),
                      tree.search("outside"), tree.unpack(tar_of(("real/f", b"inside")))):
            assert reply.status in allowed, reply
            assert b"outside" not in reply.body.replace(b'"outside"', b""), reply
        got = tree.archive("")
        assert got.status == 200 and b"outside" not in got.body
        if round % 10 == 9:
            assert tree.remove("real", recursive=1).status in allowed
            assert tree.unpack(tar_of(("real/sub/g", b"inside"))).status in allowed
    assert server.stdout(session, "cat /tmp/f /tmp/sub/g") == "outside\noutside\n"


def test_two_edits_at_once_lose_nothing(tree):
    tree.wrote("f", b"0" + b"".join(b" %d;" % i for i in range(100, 140)))
    statuses = []

    def change(numbers):
        for number in numbers:
            while True:
                reply = tree.edit("f", f" {number};", f" done{number};")
                statuses.append(reply.status)
                assert reply.status in (200, 409, 503), reply
                if reply.status == 200:
                    break
    threads = [threading.Thread(target=change, args=(range(100 + i, 140, 2),)) for i in (0, 1)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert tree.read("f").body == b"0" + b"".join(b" done%d;" % i for i in range(100, 140))


# ---- size ----

def test_a_hundred_thousand_names(server, session, tree):
    make(server, session, "os.mkdir('d')\nfor i in range(100000):"
                          " os.close(os.open(f'd/f{i:06}', os.O_CREAT))")
    first = tree.list("d", limit=10000).json
    assert len(first["files"]) == 10000 and first["files"][0]["path"] == "d/f000000"
    second = tree.list("d", limit=10000, cursor=first["next_cursor"]).json
    assert second["files"][0]["path"] == "d/f010000"
    assert tree.globbed("d/f09999[0-3]") == [f"d/f09999{i}" for i in range(4)]
    assert tree.search("x").json["files_searched"] == 0
    assert tree.remove("d", recursive=1).status == 200
    assert tree.paths() == []


def test_a_tree_deeper_than_any_path(server, session, tree):
    make(server, session, """
for i in range(3000):
    os.mkdir('d'); os.chdir('d')
open('bottom', 'w').close()""")
    reply = tree.list("", recursive=1)
    assert reply.status == 200 and reply.json["complete"] is False
    assert len(reply.json["files"]) == 200
    assert tree.glob("**/bottom").json["files"] == []
    assert tree.search("x").json["complete"] is False
    assert tree.archive("").status == 413
    assert tree.remove("d", recursive=1).status == 200
    assert tree.paths() == []


def test_files_with_holes_are_neither_packed_nor_edited(server, session, tree):
    server.stdout(session, "for i in $(seq 50); do truncate -s 100M holes$i; done")
    assert tree.archive("").status == 413
    assert tree.edit("holes1", "a", "b").status == 413
    assert tree.archive("holes1").status == 200


# ---- patterns ----

@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*c", "(.*a){30}b",
                                     "(a{500}){0}|x{999}y", "(x+x+)+y", "((a{30}){30})",
                                     "[^b]{900}$"])
def test_a_pattern_takes_time_in_proportion_to_the_text(server, session, tree, pattern):
    tree.wrote("f", b"a" * 100000 + b"!\n")
    reply = quick(tree.search, pattern, regex=True, seconds=15)
    assert reply.status in (200, 400), reply
    assert quick(server.stdout, session, "echo on") == "on\n"


@pytest.mark.long
def test_the_worst_pattern_on_the_worst_text_ends_in_time(server, session, tree):
    """Each byte makes a set of thousands of places that was never seen before; the search is given
    up after ten seconds, and says so."""
    bits = random.Random(1).choices(b"ab", k=200000)
    tree.wrote("f", bytes(bits) + b"\n")
    branches = "|".join(f"a[a-b]{{{n}}}{end}" for n, end in zip(range(990, 997), "cdefghi"))
    reply = tree.search(f"({branches})", regex=True)
    assert reply.status == 200 and reply.json["matches"] == [], reply


@pytest.mark.parametrize("size", [10, 4095, 4096, 65535, 65536])
def test_a_line_ends_the_same_wherever_its_pieces_do(tree, size):
    tree.wrote("f", b"x" * size + b"\r\ny\rz\r")
    assert [(line, len(text)) for _, line, text in tree.found("x$", regex=True)] == \
        [(1, min(size, LONGEST))]
    assert [line for _, line, _ in tree.found("\rz\r")] == [2]


@pytest.mark.parametrize("pattern", ["*" * 2000, "*a" * 900 + "b", "**/" * 800 + "x",
                                     "{a,b}" * 20, "{" * 1000, "[" * 1000, "?" * 2000])
def test_a_glob_takes_little_time(tree, pattern):
    tree.wrote("a" * 250, b"")
    assert quick(tree.glob, pattern, seconds=5).status in (200, 400)


def test_a_search_goes_on_while_others_work(server, session, tree):
    other = server.create()
    make(server, session, "for i in range(50): open(f'f{i}', 'w').write('a' * 1000000 + '\\n')")
    replies = []
    busy = threading.Thread(target=lambda: replies.append(tree.search("(a|aa)+(.*b){40}c",
                                                                      regex=True)))
    busy.start()
    for _ in range(20):
        assert quick(server.stdout, other, "echo on", seconds=2) == "on\n"
    busy.join()
    assert replies[0].status == 200 and replies[0].json["matches"] == []
    server.cleanup(other)


# ---- archives ----

def bare(name=b"f", size=b"0" * 11, kind=b"0", link=b"", mode=b"0000644", magic=b"ustar\x0000"):
    """A header as tarfile would never write it."""
    block = bytearray(512)
    for at, text in ((0, name), (100, mode), (124, size), (136, b"0" * 11), (156, kind),
                     (157, link), (257, magic)):
        block[at:at + len(text)] = text
    block[148:156] = b" " * 8
    block[148:155] = b"%06o\0" % sum(block)
    return bytes(block)


END = bytes(1024)
ATTACKS = {
    "absolute": tar_of(("/etc/x", b"x")),
    "climbs": tar_of(("../x", b"x")),
    "climbs inside": tar_of(("a/../../x", b"x")),
    "device": tar_of(entry_of("x", tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "block device": tar_of(entry_of("x", tarfile.BLKTYPE)),
    "fifo": tar_of(entry_of("x", tarfile.FIFOTYPE)),
    "through a link": tar_of(entry_of("l", tarfile.SYMTYPE, "/tmp"), ("l/x", b"x")),
    "through a link to a link": tar_of(entry_of("a", tarfile.SYMTYPE, "b"),
                                       entry_of("b", tarfile.SYMTYPE, "/tmp"), ("a/x", b"x")),
    "through a link inside": tar_of(entry_of("l", tarfile.SYMTYPE, "."), ("l/x", b"x")),
    "hard link out": tar_of(entry_of("h", tarfile.LNKTYPE, "/etc/passwd")),
    "hard link climbs": tar_of(entry_of("h", tarfile.LNKTYPE, "../../etc/passwd")),
    "hard link by a link": tar_of(entry_of("l", tarfile.SYMTYPE, "/etc"),
                                  entry_of("h", tarfile.LNKTYPE, "l/passwd")),
    "hard link to a link": tar_of(entry_of("l", tarfile.SYMTYPE, "/etc/passwd"),
                                  entry_of("h", tarfile.LNKTYPE, "l")),
    "pax path climbs": tar_of(entry_of("x", tarfile.REGTYPE, pax_headers={"path": "../x"})),
    "pax path with NUL": tar_of(entry_of("x", tarfile.REGTYPE, pax_headers={"path": "a\0b"})),
    "sparse": bare(kind=b"S") + END,
    "pax sparse": tar_of(entry_of("x", tarfile.REGTYPE, pax_headers={"GNU.sparse.major": "1"})),
    "cut in a file": tar_of(("f", b"x" * 5000))[:2000],
    "cut in a header": tar_of(("f", b"x" * 5000))[:300],
    "cut gzip": gzip.compress(tar_of(("f", os.urandom(50000))))[:20000],
    "broken gzip": b"\x1f\x8b\x08\x00" + b"x" * 1000,
    "gzip of garbage": gzip.compress(b"x" * 4096),
    "wrong sum": b"\1" + tar_of(("f", b"x"))[1:],
    "no tar": b"PK\3\4" + b"x" * 2000,
    "huge size": bare(size=b"\x80" + b"\0" * 3 + b"\xff" * 8) + END,
    "negative size": bare(size=b"\xff" * 12) + END,
    "size of letters": bare(size=b"xyzxyzxyzxy") + END,
    "huge long name": bare(b"././@LongLink", b"77777777777", b"L") + END,
    "huge pax": bare(b"x", b"77777777777", b"x") + END,
    "pax without end": bare(b"x", b"00000000012", b"x") + b"99 path=ab" + bytes(502) + END,
    "unknown kind": bare(kind=b"Z") + END,
    "long part": tar_of(("y" * 300, b"x")),
    "too deep": tar_of(("/".join(["d" * 200] * 25), b"x")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_archive_that_means_harm_is_refused(server, session, tree, attack):
    reply = quick(tree.unpack, ATTACKS[attack], "to", seconds=10)
    assert reply.status in (400, 404, 413), reply
    assert "error" in reply.json
    left = server.stdout(session, "ls /tmp; ls; find to -type f | sort")
    assert left.split() in (["to"], ["to", "to/f"]), left
    assert server.stdout(session, "test ! -e x && test ! -e /tmp/x && echo clean") == "clean\n"


def test_set_user_id_bits_are_dropped(server, session, tree):
    data = tar_of((entry_of("s", tarfile.REGTYPE, mode=0o7777), b"x"),
                  entry_of("d", tarfile.DIRTYPE, mode=0o7000))
    assert tree.unpack(data).status == 200
    assert server.stdout(session, "stat -c '%a %n' s d") == "777 s\n700 d\n"


def test_a_gzip_bomb_is_bounded(start_server):
    server = start_server(MAX_WORKSPACE_SIZE_MB=32, MAX_FILE_SIZE_MB=8)
    session = server.create()
    tree = Tree(server, session)
    head = tarfile.TarInfo("f")
    head.size = 7 << 20
    one = head.tobuf() + bytes(7 << 20)
    bomb = gzip.compress(one * 30)
    assert len(bomb) < 1 << 20
    assert tree.unpack(bomb).status == 507
    zeros = gzip.compress(bytes(200 << 20))
    assert tree.unpack(zeros).status == 400
    many = gzip.compress(tarfile.TarInfo("e").tobuf() * 200000)
    assert tree.unpack(many).status in (200, 507)
    assert server.stdout(session, "echo on") == "on\n"


def test_existing_links_are_replaced_and_not_written_through(server, session, tree):
    server.stdout(session, "echo outside > /tmp/target; ln -s /tmp/target f; ln -s /tmp d")
    assert tree.unpack(tar_of(("f", b"inside"))).status == 200
    assert tree.unpack(tar_of(("d/target", b"inside"))).status == 400
    assert tree.unpack(tar_of(entry_of("d", tarfile.SYMTYPE, "elsewhere"))).status == 200
    assert server.stdout(session, "cat /tmp/target f; readlink d") == "outside\ninsideelsewhere\n"


def test_whoever_leaves_in_the_middle_leaves_nothing_behind(server, session, tree):
    server.stdout(session, "head -c 50M /dev/urandom > big")
    connection = server.connect()
    connection.request("GET", f"{tree.base}/archive?path=")
    assert connection.getresponse().read(1000)
    connection.close()
    up = server.connect()
    up.putrequest("PUT", f"{tree.base}/archive?path=to")
    up.putheader("Content-Length", str(1 << 20))
    up.endheaders()
    up.send(tar_of(("f", b"x" * 100000))[:50000])
    wait_until(lambda: len(server.sandbox_pids(session)) >= 2, "the helper works")
    up.close()
    wait_until(lambda: len(server.sandbox_pids(session)) == 1, "no helper is left")
    assert tree.paths("to") == []


def test_no_helper_means_a_clear_answer(start_server):
    server = start_server(PIDS_LIMIT=20)
    session = server.create()
    tree = Tree(server, session)
    server.execute(session, """python3 -c '
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(60); os._exit(0)
    except OSError: time.sleep(0.001)' > /dev/null 2>&1 &""")
    # And one more, that of a shell which is only copied.
    wait_until(lambda: len(server.sandbox_pids(session, True)) == 21, "all processes are taken")
    for reply in (quick(tree.stat, "f"), quick(tree.list), quick(tree.search, "x"),
                  quick(tree.remove, "f"), quick(tree.archive, ""),
                  quick(tree.unpack, tar_of(("f", b"x")))):
        assert reply.status == 503 and "limit of processes" in reply.json["error"], reply
