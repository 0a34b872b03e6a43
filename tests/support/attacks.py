# SPDX-License-Identifier: Apache-2.0
"""Hostile inputs to every port of both programs: tests/e2e/attacks.tsv says what is sent and what has to come back.

After each one the program has to answer a good request in time; after all of them it has no more descriptors and threads
than before, has logged next to nothing, and nothing that an attacker wrote stands in its log or in an answer as it came."""
import base64
import contextlib
import dataclasses
import json
import os
import re
import select
import socket
import ssl
import subprocess
import tempfile
import time

import exporter
from e2e import HASH, SOURCE, TEXT, certificate
from harness import ROOT, Failed, Row, expect
from page import Page

TABLE = os.path.join(ROOT, "tests", "e2e", "attacks.tsv")
PATIENCE = 60  # seconds, for a machine that is busy: no answer takes more than a few
BUDGET = 10    # seconds, in which a scrape has to be answered
LOG_LINES = 5  # at the usual level nothing is said of clients; a busy machine may have its own word
DEBUG_LINES = 60  # at the level debug ten lines of each kind, then one in ten seconds
CLIENT_MESSAGES = ("refused a request", "web server", "a client did not take its answer")
GUESSES_HASHED = 5  # at once, of one address; then one in two seconds
TOKEN = "b7e0f5f0c3d14a52"

# What attackers would like to see somewhere: a line of a log of their own, a script, the escapes of a terminal.
EVIL = b'evil"\'>&<script>'
EVIL_ENCODED = "evil%0d%0alevel=error%20msg=forged%1b[31m%22'%3E%26%3Cscript%3E"
MARK = b"evil"


@dataclasses.dataclass
class Attack:
    id: str
    port: str
    sent: str
    wanted: str  # the status of every answer, in order; `closed` where none comes
    shown: list  # "NAME: REGEX" of the last answer: a header, or the body; "!NAME" a header that must not be there
    why: str


def table():
    attacks = []
    with open(TABLE, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            expect(len(fields) == 6, f"{TABLE}:{number}: {len(fields)} columns")
            attacks.append(Attack(*fields[:4], [s for s in fields[4].split(" ;; ") if s != "-"], fields[5]))
    expect(len({a.id for a in attacks}) == len(attacks), "an ID stands twice")
    return attacks


ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}


def plain(text):
    """Bytes of a text with the escapes of C."""
    return re.sub(rb"\\(x[0-9a-f]{2}|.)", lambda m: bytes([int(m.group(1)[1:], 16)]) if len(m.group(1)) == 3 else ESCAPES[m.group(1).decode()],
                  text.encode("utf-8"), flags=re.S)


def expand(text, port):
    """What the column `sent` stands for; the head of the table says how to read it."""
    named = {"H": b" HTTP/1.1\r\nHost: x\r\n", "M": EVIL, "M%": EVIL_ENCODED.encode(), "port": str(port).encode(), "T": TOKEN.encode(),
             "A": b"Authorization: Basic " + base64.b64encode(b"alice:secret") + b"\r\n"}

    def one(match):
        count, what = match.group(1), match.group(2)
        if not count:
            return named[match.group(3)]
        return plain(what) * int(count) if "#" not in what else b"".join(plain(what.replace("#", f"{n:04}")) for n in range(int(count)))
    out, last = b"", 0
    for match in re.finditer(r"\{(\d+)\*([^}]*)\}|\{(H|M%?|port|T|A)\}", text):
        out += plain(text[last:match.start()]) + one(match)
        last = match.end()
    return out + plain(text[last:])


class Wire:
    """One connection, with TLS where `tls` is a context. Unlike Python's own it reads on after its side has ended."""

    def __init__(self, address, tls=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address)
        self.tls = None
        if tls:
            self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = tls.wrap_bio(self.incoming, self.outgoing)
            while True:
                try:
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._flush()
                    self.incoming.write(self.socket.recv(65536) or self._ended())
            self._flush()

    def _ended(self):
        raise ConnectionResetError("the peer ended the handshake")

    def _flush(self):
        data = self.outgoing.read()
        if data:
            self.socket.sendall(data)

    def exchange(self, data, end=True):
        """Sends, reads beside it, and returns all that came until the other side closed. An attacker does not care how
        that happens: a reset connection is a closed one."""
        if self.tls:
            for i in range(0, len(data), 16384):
                self.tls.write(data[i:i + 16384])
            data = self.outgoing.read()
        got, deadline = b"", time.monotonic() + PATIENCE
        sending = True
        while True:
            left = deadline - time.monotonic()
            expect(left > 0, f"neither answered nor closed in {PATIENCE} s; so far {got[:200]!r}")
            readable, writable, _ = select.select([self.socket], [self.socket] if sending else [], [], left)
            if writable:
                try:
                    data = data[self.socket.send(data[:65536]):]
                    if not data:
                        sending = False
                        if end:
                            self.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    sending = False
            if readable:
                try:
                    part = self.socket.recv(65536)
                except OSError:
                    part = b""
                if not part:
                    return got
                if self.tls:
                    self.incoming.write(part)
                    try:
                        while True:
                            more = self.tls.read(65536)
                            if not more:
                                break
                            got += more
                    except ssl.SSLWantReadError:
                        pass
                    except ssl.SSLError:  # an alert
                        return got
                else:
                    got += part

    def close(self):
        self.socket.close()


def answers_in(data, head=False):
    """(status, headers, body) of each answer."""
    out = []
    while data:
        found = re.match(rb"HTTP/1\.1 (\d\d\d) [A-Za-z ()-]+\r\n((?:[A-Za-z-]+: [\x20-\x7e]*\r\n)*)\r\n", data)
        expect(found, lambda: f"no HTTP answer: {data[:300]!r}")
        status, data = int(found.group(1)), data[found.end():]
        headers = {}
        for line in found.group(2).decode().split("\r\n")[:-1]:
            name, _, value = line.partition(": ")
            expect(name.lower() not in headers, f"{name} stands twice")
            headers[name.lower()] = value
        if status == 100:
            out.append((status, headers, b""))
            continue
        length = 0 if head else int(headers["content-length"])
        expect(len(data) >= length, lambda: f"{len(data)} of {length} bytes of a body")
        out.append((status, headers, data[:length]))
        data = data[length:]
        expect(headers.get("x-content-type-options") == "nosniff" and "date" in headers and "server" not in headers, f"headers {headers}")
    return out


class Program:
    """One running program and its ports."""

    def __init__(self, name, command, folder, log_format):
        self.name, self.log_format = name, log_format
        self.log_path = os.path.join(folder, f"{name}.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, env=exporter.environment(command[0]), stdout=log, stderr=log)
        self.good = None  # callable: asks what has to be answered

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            expect(self.process.poll() is None, lambda: f"{self.name} ended with {self.process.returncode}\n{self.log()[-2000:]}")
            try:
                self.good()
                if "serving" in self.log():  # its last word: all its ports are open
                    return
            except (OSError, Failed):  # it listens for a moment to find out whether it can
                pass
            expect(time.monotonic() < deadline, lambda: f"{self.name} is not ready\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def alive(self):
        expect(self.process.poll() is None, lambda: f"{self.name} ended with {self.process.returncode}\n{self.log()[-3000:]}")
        start = time.monotonic()
        self.good()
        took = time.monotonic() - start
        expect(took < BUDGET, f"a scrape of {self.name} took {took:.1f} s")

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="surrogateescape") as f:
            return f.read()

    def holds(self):
        """(descriptors, threads)"""
        at = f"/proc/{self.process.pid}"
        return len(os.listdir(f"{at}/fd")), len(os.listdir(f"{at}/task"))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


@dataclasses.dataclass
class Port:
    program: Program
    address: object
    tls: object = None


def client_context(top, name=None):
    context = ssl.create_default_context(cafile=f"{top}/ca.pem")
    if name:
        context.load_cert_chain(f"{top}/{name}.pem", f"{top}/{name}.key")
    return context


def free_ports(count):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in held:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in held]


@contextlib.contextmanager
def target_programs():
    """The ports of the table's column `port`."""
    with tempfile.TemporaryDirectory(prefix="roce-attack-") as top, contextlib.ExitStack() as stack:
        for ca in ("ca", "other-ca"):
            certificate(top, ca)
        certificate(top, "server", "ca", ["-addext", "subjectAltName=IP:127.0.0.1"])
        certificate(top, "client", "ca")
        certificate(top, "stranger", "other-ca")

        def write(name, text):
            path = os.path.join(top, name)
            with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(text)
            return path
        tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
        users = write("users.yml", tls + f"basic_auth_users:\n  alice: {HASH}\n")
        peers = write("peers.yml", tls + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n")
        write("token", TOKEN + "\n")
        ports = dict(zip(("exporter", "guarded", "prober", "exchange"), free_ports(4)))
        config = write("prober.yml", f"web: {{listen_addresses: ['127.0.0.1:{ports['prober']}']}}\nnode_name: node1\n"
                       f"exchange:\n  bearer_token_file: {top}/token\n  listen_addresses: ['127.0.0.1:{ports['exchange']}']\n  web_config_file: {peers}\n"
                       f"control_socket: {top}/prober.sock\n")
        binary = exporter.binary()
        prober = os.path.join(os.path.dirname(binary), "roce_prober")
        expect(os.path.exists(prober), f"{prober} is not built")

        def begin(*args):
            program = Program(*args)
            stack.callback(program.stop)
            return program
        programs = {
            "exporter": begin("exporter", [binary, *SOURCE, f"--web.listen-address=127.0.0.1:{ports['exporter']}", f"--control.socket={top}/exporter.sock"],
                              top, "logfmt"),
            "guarded": begin("guarded", [binary, *SOURCE, f"--web.listen-address=127.0.0.1:{ports['guarded']}", f"--web.config.file={users}",
                                         "--control.socket=", "--web.enable-lifecycle", "--log.level=debug", "--log.format=json"], top, "json"),
            "prober": begin("prober", [prober, f"--config.file={config}", "--path.sysfs=" + SOURCE[0].partition("=")[2]], top, "logfmt")}
        no_certificate = client_context(top)
        reach = {"exporter": Port(programs["exporter"], ("127.0.0.1", ports["exporter"])),
                 "exporter.sock": Port(programs["exporter"], f"{top}/exporter.sock"),
                 "guarded": Port(programs["guarded"], ("127.0.0.1", ports["guarded"]), no_certificate),
                 "guarded/raw": Port(programs["guarded"], ("127.0.0.1", ports["guarded"])),
                 "prober": Port(programs["prober"], ("127.0.0.1", ports["prober"])),
                 "prober.sock": Port(programs["prober"], f"{top}/prober.sock"),
                 "exchange": Port(programs["prober"], ("127.0.0.1", ports["exchange"]), no_certificate),
                 "exchange/client": Port(programs["prober"], ("127.0.0.1", ports["exchange"]), client_context(top, "client")),
                 "exchange/stranger": Port(programs["prober"], ("127.0.0.1", ports["exchange"]), client_context(top, "stranger")),
                 "exchange/raw": Port(programs["prober"], ("127.0.0.1", ports["exchange"]))}

        def scrape(name, metric):
            def run():
                port = reach[name]
                data = talk(port, expand("GET /metrics{H}{A}Connection: close\r\n\r\n", 0))
                got = answers_in(data)
                expect(len(got) == 1 and got[0][0] == 200 and metric in got[0][2], lambda: f"a good scrape of {name}: {data[:400]!r}")
            return run
        programs["exporter"].good = scrape("exporter", b"\nroce_port_state{")
        programs["guarded"].good = scrape("guarded", b"\nroce_port_state{")
        programs["prober"].good = scrape("prober", b"\nroce_prober_build_info{")
        for program in programs.values():
            program.wait_ready()
        yield reach, programs


def talk(port, data, end=True):
    try:
        wire = Wire(port.address, port.tls)
    except ssl.SSLError:
        return b""
    try:
        return wire.exchange(data, end)
    finally:
        wire.close()




def statuses(port_name, data, head=False):
    """What the column `answers` says of these bytes, and the last answer of HTTP."""
    if not data:
        return "closed", None
    if port_name.endswith("/raw") and data[0] == 0x15:
        return f"alert {data[6]}", None
    if port_name == "exporter.sock":
        return data.split(b"\n", 1)[0].split(b" ", 1)[0].decode("ascii", "replace"), (0, {}, data)
    if port_name == "prober.sock":
        found = re.fullmatch(rb"HTTP/1\.1 (\d\d\d) (?:OK|Error)\r\nContent-Type: [^\r]*\r\nContent-Length: (\d+)\r\nConnection: close\r\n\r\n(.*)", data, re.S)
        expect(found and len(found.group(3)) == int(found.group(2)), f"no answer of the socket: {data[:300]!r}")
        return found.group(1).decode(), (int(found.group(1)), {}, found.group(3))
    got = answers_in(data, head)
    for _, headers, body in got:
        if headers.get("content-type") == TEXT and not head:
            Page(body.decode("utf-8"))
    return " ".join(str(s) for s, _, _ in got), got[-1]


def judge(attack, data, head=False):
    expect(MARK not in data.lower() and b"root:" not in data, lambda: f"the answer repeats the request or shows a file: {data[:600]!r}")
    got, last = statuses(attack.port, data, head)
    expect(re.fullmatch(attack.wanted, got), lambda: f"answered {got[:200]}, not {attack.wanted}: {data[:300]!r}")
    for wanted in attack.shown:
        name, _, pattern = wanted.partition(": ")
        _, headers, body = last
        if name.startswith("!"):
            expect(name[1:] not in headers, f"{name[1:]}: {headers.get(name[1:])}")
            continue
        found = body.decode("utf-8", "replace").strip() if name == "body" else headers.get(name)
        expect(found is not None and re.fullmatch(pattern, found, re.S), lambda: f"{name} is {str(found)[:300]!r}, not {pattern}")


def lone(attack, reach):
    """One input after which the client's side ends."""
    port = reach[attack.port]
    number = port.address[1] if isinstance(port.address, tuple) else 0
    judge(attack, talk(port, expand(attack.sent, number)), attack.sent.startswith("HEAD"))
    port.program.alive()


class Left:
    """A connection whose client does not end it."""

    def __init__(self, attack, port, data, slowly):
        self.attack, self.wire, self.rest, self.got = attack, Wire(port.address, port.tls), data, b""
        head = data.find(b"\r\n\r\n")
        at_once = len(data) if not slowly else head + 4 if head >= 0 else 0
        self.wire.socket.sendall(data[:at_once])
        self.rest = data[at_once:]
        self.wire.socket.setblocking(False)

    def go_on(self):
        """Sends another byte."""
        if self.rest:
            try:
                self.rest = self.rest[self.wire.socket.send(self.rest[:1]):]
            except OSError:
                self.rest = b""

    def ended(self):
        try:
            part = self.wire.socket.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        # What TLS says at its end is no answer.
        self.got += part if not self.wire.tls else b""
        return not part


def left_alone(attacks, reach, programs):
    """All slow and silent clients at once: good scrapes are answered beside them, and the programs end them."""
    left = []
    try:
        for attack in attacks:
            count, slowly, sent = re.fullmatch(r"@(\d+)(~?) (.*)", attack.sent, re.S).groups()
            left += [Left(attack, reach[attack.port], expand(sent, 0), bool(slowly)) for _ in range(int(count))]
        going, deadline = set(left), time.monotonic() + PATIENCE
        while going:
            for program in programs.values():
                program.alive()
            for _ in range(5):
                going = {l for l in going if not l.ended()}
                for l in going:
                    l.go_on()
                time.sleep(0.1)
            expect(time.monotonic() < deadline, lambda: f"not ended in {PATIENCE} s: {sorted({l.attack.id for l in going})}")
        for l in left:
            try:
                judge(l.attack, l.got)
            except Failed as e:
                raise Failed(f"{l.attack.id}: {e}") from None
    finally:
        for l in left:
            l.wire.close()
    return len(left)


def log_is_clean(program, before):
    """Few lines, each whole and of the program's own making."""
    new = program.log()[len(before):].splitlines()
    expect(len(new) <= (DEBUG_LINES if program.log_format == "json" else LOG_LINES), lambda: f"{program.name} logged {len(new)} lines:\n" + "\n".join(new[:70]))
    for line in new:
        expect(all(c.isprintable() for c in line), f"{program.name} logged {line!r}")
        message = json.loads(line)["msg"] if program.log_format == "json" else None
        if message in CLIENT_MESSAGES:
            expect(json.loads(line)["level"] == "debug", f"{program.name} logged {line}")
        else:
            expect(MARK.decode() not in line and (message or re.match(r"ts=\S+ level=", line)), f"{program.name} logged {line!r}")
    return len(new)


def attacks():
    """Every line of the table, in order."""
    with target_programs() as (reach, programs):
        for path in ("/", "/health", "/nothing"):  # what is made at the first request
            for name in ("exporter", "guarded", "prober", "exchange"):
                talk(reach[name], expand(f"GET {path}{{H}}{{A}}Connection: close\r\n\r\n", 0))
        talk(reach["exporter.sock"], b"check\n")
        before = {p: (p.holds(), p.log()) for p in programs.values()}
        start, hashed = time.monotonic(), password_checks(reach["guarded"])
        listed = table()
        failures = []
        for attack in listed:
            if attack.sent.startswith("@"):
                continue
            try:
                lone(attack, reach)
            except Failed as e:
                failures.append(f"{attack.id}: {e}")
                expect(reach[attack.port].program.process.poll() is None and len(failures) < 10, lambda: "\n".join(failures))
        expect(not failures, lambda: "\n".join(failures))
        hashed = password_checks(reach["guarded"]) - hashed
        most = GUESSES_HASHED + 0.5 * (time.monotonic() - start)
        expect(hashed <= most, f"{hashed} passwords were hashed, at most {most:.0f} may be")
        slow = left_alone([a for a in listed if a.sent.startswith("@")], reach, programs)
        lines = []
        for program, ((descriptors, threads), log) in before.items():
            deadline = time.monotonic() + PATIENCE
            while program.holds()[0] > descriptors or program.holds()[1] > threads:
                expect(time.monotonic() < deadline, f"{program.name} holds {program.holds()} descriptors and threads, before it were {(descriptors, threads)}")
                time.sleep(0.1)
            lines.append(log_is_clean(program, log))
        for program in programs.values():
            code = program.stop()
            expect(code == 0, lambda: f"{program.name}: exit {code} after SIGTERM\n{program.log()[-3000:]}")
        return f"{len(listed)} inputs, {slow} slow clients; {lines} lines of log"


def password_checks(port):
    data = talk(port, expand("GET /metrics{H}{A}Connection: close\r\n\r\n", 0))
    return int(re.search(rb"^roce_web_password_checks_total (\d+)", data, re.M).group(1))


def rows():
    return [Row("e2e-attacks", "hostile inputs to all ports: the documented answer, and nothing else happens", attacks)]
