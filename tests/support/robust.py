# SPDX-License-Identifier: Apache-2.0
"""What a program meets in its life on a host: kills, stops, full disks, clocks that jump, no descriptors, no memory, crowds.
After each of it a good scrape is answered, and nothing is left behind."""
import calendar
import collections
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import attacks
import cases
import exporter
import trees
from exporter import Server, call
from harness import Failed, Row, expect
from page import Page, Pattern

DEVICES = 4
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@contextlib.contextmanager
def made_host(devices=DEVICES, rules=""):
    """A made tree with folders for state and socket: its path, the flags that show it, and what makes its files slow."""
    with tempfile.TemporaryDirectory(prefix="roce-robust-") as top:
        trees.make(top, devices)
        for folder in ("state", "run"):
            os.makedirs(os.path.join(top, folder))
        with open(os.path.join(top, "rules"), "w", encoding="utf-8") as f:
            f.write(rules)
        yield top, [f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc", f"--state.dir={top}/state", f"--control.socket={top}/run/control.sock"]


def slow(top):
    return {"preload": cases.fault_library(), "extra_env": {"FAULT_FS_RULES": f"{top}/rules", "FAULT_FS_ROOT": top}}


SLOW = "mlx5_0/ports/1/counters/port_rcv_data\tDELAY\t1500\n"


def holds(server):
    """(descriptors, threads, resident KiB)"""
    at = f"/proc/{server.process.pid}"
    with open(f"{at}/status", encoding="utf-8") as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
    return len(os.listdir(f"{at}/fd")), len(os.listdir(f"{at}/task")), resident


def fresh(server, **more):
    time.sleep(exporter.SHARED_SECONDS + 0.1)
    return server.page(**more)


def all_well(server, within=5, devices=DEVICES):
    """A good page in time, on which every device and every collector that succeeded before is."""
    start = time.monotonic()
    page = fresh(server)
    expect(time.monotonic() - start < within + exporter.SHARED_SECONDS + 0.1, f"a good scrape took {time.monotonic() - start:.1f} s")
    expect(len(page.find(Pattern("roce_port_state"))) == devices, "a device is missing")
    return page


def failing(page):
    return {(s.labels["collector"], s.labels.get("device", "")) for s in page.find(Pattern("roce_collector_success")) if s.value != "1"}


def back_to(server, before, seconds=15):
    """Descriptors and threads come back to what they were."""
    deadline = time.monotonic() + seconds
    while True:
        now = holds(server)
        if now[0] <= before[0] and now[1] <= before[1]:
            return
        expect(time.monotonic() < deadline, f"descriptors and threads were {before[:2]}, are {now[:2]}")
        time.sleep(0.2)


# ---- rows ----

def killed():
    """Killed in the middle of scrapes, ten times: each start serves, takes over what the last one left, knows since
    when findings are there, and leaves nothing more behind than one run does."""
    with made_host() as (top, flags):
        trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
        profile = os.path.join(top, "profile.yml")
        with open(profile, "w", encoding="utf-8") as f:
            f.write("devices:\n  - {device: mlx5_0, role: storage}\n")
        flags.append(f"--profile.file={profile}")
        since, left = set(), None
        for turn in range(10):
            server = Server(flags)
            with contextlib.suppress(Failed):  # that it ended by a signal
                with server as s:
                    since |= {f["since"] for f in json.loads(s.get("/health").body)["findings"] if f["id"] == "port-down"}
                    code, out, err = call("check", f"--control.socket={top}/run/control.sock", "--format=json")
                    expect(code == 2 and json.loads(out)["status"] == "critical", f"check: {code} {out} {err}")
                    if turn == 0:
                        deadline = time.monotonic() + 10
                        while not os.path.exists(f"{top}/state/findings.json") and time.monotonic() < deadline:
                            time.sleep(0.05)
                    with socket.create_connection(("127.0.0.1", s.port), 5) as c:
                        c.sendall(GET)
                        s.kill()
                    raise Failed("killed")
            now = sorted(os.path.relpath(os.path.join(d, f), top) for folder in ("state", "run") for d, _, files in os.walk(f"{top}/{folder}") for f in files)
            left = left or now
            expect(set(now) <= {*left, "state/findings.json.new"}, f"left behind: {now}, after the first run {left}")
        expect(len(since) == 1, f"since when the port is down, by each run: {sorted(since)}")
        with Server(flags) as s:
            all_well(s)


def stopped():
    """SIGSTOP for three seconds while clients wait, then SIGCONT: they are answered, ages are right, nothing has piled up."""
    with made_host() as (_, flags), Server(flags) as s:
        all_well(s)
        before = holds(s)
        s.process.send_signal(signal.SIGSTOP)
        waiting = [socket.create_connection(("127.0.0.1", s.port), 20) for _ in range(30)]
        for c in waiting:
            c.sendall(GET)
        time.sleep(3)
        s.process.send_signal(signal.SIGCONT)
        for c in waiting:
            answer = b""
            while part := c.recv(65536):
                answer += part
            c.close()
            expect(attacks.answers_in(answer)[0][0] == 200, answer[:200])
        page = all_well(s)
        expect(not failing(page), f"{failing(page)}")
        back_to(s, before)


# What the file holds, and how often that is told: it is for a file that is no list, not for an entry that is none.
BROKEN = {"empty": (b"", 1), "cut": (b'{"version":1,"findi', 1), "binary": (bytes(range(256)) * 40, 1), "deep": (b"[" * 200_000, 1),
          "other": (b'{"findings":{"a":[1,2]}}', 1), "list": (b"[1,2,3]", 1), "large": (b'{"findings":["' + b"x" * 5_000_000 + b'"]}', 1),
          "entries": (b'{"findings":[1,null,[],{"id":{},"object":7,"since":false},{"since":99999999999999999999999}],"active_ports":[1,{}],"boot":[]}', 0),
          "time": (b'{"findings":[{"id":"port-down","object":"mlx5_0/1","since":"when it was too late"}]}', 0)}


def broken_state():
    """State files of all kinds that are none: said once, and the program serves, keeps new findings and goes on."""
    with made_host() as (top, flags):
        trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
        profile = os.path.join(top, "profile.yml")
        with open(profile, "w", encoding="utf-8") as f:
            f.write("devices:\n  - {device: mlx5_0, role: storage}\n")
        path = f"{top}/state/findings.json"
        for name, (data, told) in BROKEN.items():
            with open(path, "wb") as f:
                f.write(data)
            with Server([*flags, f"--profile.file={profile}"]) as s:
                all_well(s)
                said = [line for line in s.log().splitlines() if "findings of earlier runs" in line]
                expect(len(said) == told, f"{name}: {s.log()[:600]}")
                finding = json.loads(s.get("/health").body)["findings"][0]
                expect(finding["object"] == "mlx5_0/1" and abs(calendar.timegm(time.strptime(finding["since"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()) < 60, f"{name}: {finding}")
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline:
                    with open(path, "rb") as f:
                        if b"port-down" in f.read(100_000) and os.path.getsize(path) < 100_000:
                            break
                    time.sleep(0.05)
                else:
                    raise Failed(f"{name}: the file is not written anew")
        # A folder in its place cannot be replaced: told, and no harm.
        os.remove(path)
        os.makedirs(f"{path}/x")
        with Server([*flags, f"--profile.file={profile}"]) as s:
            all_well(s)
            expect(len(s.log().splitlines()) < 8, s.log()[:1000])


def full_disk():
    """A disk that is really full, under state and log: it serves, and writes again once there is room."""
    with made_host() as (top, flags):
        state = f"{top}/state"
        command = ["unshare", "--mount", "sh", "-euc", f'mount -t tmpfs -o size=64k tmpfs "{state}"; exec "$@"', "sh"]
        trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
        profile = os.path.join(top, "profile.yml")
        with open(profile, "w", encoding="utf-8") as f:
            f.write("devices:\n  - {device: mlx5_0, role: storage}\n")
        with Server([*flags, f"--profile.file={profile}"], prefix=command) as s:
            inside = f"/proc/{s.process.pid}/root{state}"  # this row's own mount is that of the server alone
            with open(f"{inside}/ballast", "wb", buffering=0) as f, contextlib.suppress(OSError):
                while f.write(b"x" * 4096):
                    pass
            for state_text in ("4: ACTIVE", "1: DOWN") * 2:
                trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", state_text)
                all_well(s)
                json.loads(s.get("/health").body)
            said = [line for line in s.log().splitlines() if "findings cannot be kept" in line]
            expect(len(said) == 1, s.log()[:1500])
            os.remove(f"{inside}/ballast")
            trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
            all_well(s)
            s.get("/health")
            trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
            all_well(s)
            s.get("/health")
            deadline = time.monotonic() + 15
            while not os.path.exists(f"{inside}/findings.json"):
                expect(time.monotonic() < deadline, "nothing is kept though there is room again")
                time.sleep(0.1)
        # A log that nobody can write.
        with open("/dev/full", "wb") as full:
            server = Server([*flags, "--log.level=debug"])
            server.log_file.close()
            server.log_file = full
            server.log = lambda: ""
            with server as s:
                all_well(s)


def clock_steps():
    """The wall clock steps a day ahead and two back: pages are made and shared as before, no age is negative or long, no
    finding is from the future."""
    with made_host() as (top, flags):
        trees.write(f"{top}/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
        offset = os.path.join(top, "offset")
        profile = os.path.join(top, "profile.yml")
        with open(profile, "w", encoding="utf-8") as f:
            f.write("devices:\n  - {device: mlx5_0, role: storage}\n")

        def step(seconds):
            with open(f"{offset}.new", "w", encoding="utf-8") as f:
                f.write(str(seconds))
            os.replace(f"{offset}.new", offset)
        step(0)
        more = slow(top)
        more["extra_env"]["FAULT_FS_CLOCK"] = offset
        with Server([*flags, f"--profile.file={profile}"], **more) as s:
            names = {str(x).rsplit(" ", 1)[0] for x in all_well(s).series}
            since = json.loads(s.get("/health").body)["findings"][0]["since"]
            for seconds in (86400, -86400, 0, -30, 315360000):
                step(seconds)
                # That the clock really stepped is seen in what is dated by it.
                date = s.get("/-/healthy").headers["date"]
                said = calendar.timegm(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT"))
                expect(abs(said - time.time() - seconds) < 30, f"{seconds}: the program's date is {date}")
                page = all_well(s)
                now = {str(x).rsplit(" ", 1)[0] for x in page.series}
                expect(now >= names, f"{seconds}: lost {sorted(names - now)[:5]}")
                bad = [str(x) for x in page.series if x.name.endswith(("_age_seconds", "_duration_seconds", "_in_flight_seconds")) and not 0 <= float(x.value) < 300]
                expect(not bad, f"{seconds}: {bad[:5]}")
                expect(not failing(page), f"{seconds}: {failing(page)}")
                finding = json.loads(s.get("/health").body)["findings"][0]
                expect(finding["id"] == "port-down" and finding["since"] == since, f"{seconds}: {finding['since']}, before {since}")


def no_descriptors():
    """All descriptors taken by clients: scrapes that come through say which sources failed, and all is well when the
    clients go."""
    with made_host() as (_, flags), Server(flags, prefix=["prlimit", "--nofile=96:96"]) as s:
        before = failing(all_well(s))
        held = holds(s)
        clients = []
        for _ in range(200):
            with contextlib.suppress(OSError):
                c = socket.socket()
                c.settimeout(2)
                clients.append(c)
                c.connect(("127.0.0.1", s.port))
                c.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        time.sleep(1)
        expect(holds(s)[0] > 80, f"{holds(s)[0]} descriptors: they are not short")
        expect(s.process.poll() is None, "the program ended")
        for c in clients:
            c.close()
        back_to(s, held)
        expect(failing(all_well(s)) == before, "a source still fails")
        expect(len(s.log().splitlines()) < 60, f"{len(s.log().splitlines())} lines of log: {s.log()[:1500]}")


def burst(port, count, request, patience=60):
    """So many connections at once: [(status or 'closed', seconds from its connection to the first byte of its answer)]."""
    selector = selectors.DefaultSelector()
    live, done = {}, []
    for _ in range(count):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", port))
        live[s] = [time.monotonic(), b"", 0.0]
        selector.register(s, selectors.EVENT_WRITE)
    deadline = time.monotonic() + patience
    while live:
        expect(time.monotonic() < deadline, f"{len(live)} of {count} neither answered nor closed in {patience} s")
        for key, events in selector.select(1):
            s = key.fileobj
            one = live[s]
            try:
                if events & selectors.EVENT_WRITE:
                    s.send(request)
                    selector.modify(s, selectors.EVENT_READ)
                    continue
                data = s.recv(1 << 20)
            except OSError:
                data = b""
            if data and not one[1]:
                one[1:] = [data[:16], time.monotonic() - one[0]]
            if not data:
                done.append((one[1][9:12].decode() or "closed", one[2]))
                selector.unregister(s)
                s.close()
                del live[s]
    return done


@contextlib.contextmanager
def first_in_line():
    """This process and what it starts go before the others of this machine, whose work is not what is measured."""
    was = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, was)


def thousand():
    """A thousand scrapes at once of a host that takes 1.5 s to read: those for which there is no room are refused at once,
    and memory stays."""
    with made_host(16, SLOW) as (top, flags), first_in_line(), Server(flags, **slow(top)) as s:
        for _ in range(3):
            fresh(s)
        before = holds(s)
        worst = []
        for _ in range(5):
            answers = burst(s.port, 1000, GET)
            count = collections.Counter(status for status, _ in answers)
            expect(set(count) == {"200", "503"} and count["503"] >= 500, f"{count}")
            worst.append(max(seconds for status, seconds in answers if status == "503"))
            grown = holds(s)[2] - before[2]
            expect(grown <= 16 << 10, f"{grown} KiB more memory")
            if worst[-1] < 1:  # else the machine is busy, the client with it
                break
            time.sleep(exporter.SHARED_SECONDS + 0.1)
        expect(min(worst) < 1, f"a refusal took {min(worst):.2f} s")
        all_well(s, devices=16)
        back_to(s, before)
        return f"{count['503']} refused within {min(worst):.2f} s, {count['200']} pages, {grown} KiB more"


def slow_clients():
    """64 clients that are silent, stop in the middle, dribble, or do not read their page: a good scrape within 5 s."""
    with made_host(16) as (_, flags), Server(flags) as s:
        all_well(s, devices=16)
        before = holds(s)
        clients = []
        for i in range(64):
            c = socket.socket()
            if i % 4 == 3:
                c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            c.connect(("127.0.0.1", s.port))
            clients.append(c)
            if i % 4 == 1:
                c.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            elif i % 4 == 3:
                c.sendall(GET)
        slowest = 0.0
        for turn in range(4):
            for i, c in enumerate(clients):
                if i % 4 == 2:
                    with contextlib.suppress(OSError):
                        c.sendall(b"GET /metrics HTTP/1.1\r\nX-Long: "[turn * 4:turn * 4 + 4])
            start = time.monotonic()
            s.page(timeout=15)
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(1)
        expect(slowest < 5, f"a good scrape took {slowest:.1f} s beside 64 slow clients")
        for c in clients:
            c.close()
        back_to(s, before, 30)
        return f"slowest good scrape {slowest:.2f} s"


# What scanners of ports and services send first.
PROBES = (b"", b"\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n", b"OPTIONS / HTTP/1.0\r\n\r\n", b"OPTIONS / RTSP/1.0\r\n\r\n", b"HELP\r\n", b"\x80\x00\x00\x28\x72\xfe\x1d\x13\x00",
          b"\x16\x03\x00\x00\x53\x01\x00\x00\x4f\x03\x00?G\xd7\xf7", b"EHLO scan\r\n", b"\x00\x00\x00\xa4\xffSMBr", b"SSH-2.0-scan\r\n", b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01",
          b"stats\r\n", b"*1\r\n$4\r\nPING\r\n", b"\x03\x00\x00\x0b\x06\xe0\x00\x00\x00\x00\x00", b"l\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00")


def scanned():
    """A port scan of both programs: connections that end at once, by FIN and by RST, and what scanners say first."""
    with made_host() as (top, flags), Server(flags) as s:
        all_well(s)
        prober_port = exporter.free_port()
        prober = os.path.join(os.path.dirname(exporter.binary()), "roce_prober")
        log = os.path.join(top, "prober.log")
        with open(log, "wb") as f:
            process = subprocess.Popen([prober, f"--web.listen-address=127.0.0.1:{prober_port}", f"--path.sysfs={top}/sys"], stdout=f, stderr=f, env=exporter.environment(prober))
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", prober_port), 2).close()
                    break
                expect(time.monotonic() < deadline and process.poll() is None, "the prober does not listen")
                time.sleep(0.1)
            held = holds(s)
            for port in (s.port, prober_port):
                for turn in range(300):
                    c = socket.create_connection(("127.0.0.1", port), 10)
                    with contextlib.suppress(OSError):
                        c.sendall(PROBES[turn % len(PROBES)])
                    if turn % 2:  # RST
                        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    c.close()
            all_well(s)
            back_to(s, held)
            expect(process.poll() is None, "the prober ended")
            with socket.create_connection(("127.0.0.1", prober_port), 10) as c:
                c.settimeout(20)
                c.sendall(GET)
                answer = b""
                while part := c.recv(65536):
                    answer += part
            expect(b"roce_prober_build_info" in answer, answer[:200])
            with open(log, encoding="utf-8") as f:
                lines = s.log().splitlines() + f.read().splitlines()
            expect(len(lines) < 20, f"{len(lines)} lines of log: {lines[:20]}")
        finally:
            process.terminate()
            process.wait(20)


def little_memory():
    """No memory to be had: answers say so or connections close, and all is well when there is some again."""
    with made_host(64) as (_, flags), Server(flags) as s:
        all_well(s, devices=64)
        before = holds(s)

        def limit(what):
            subprocess.run(["prlimit", f"--pid={s.process.pid}", f"--as={what}"], check=True)
        with open(f"/proc/{s.process.pid}/statm", encoding="utf-8") as f:
            size = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit(f"{size + 65536}:")
        seen = collections.Counter()
        for _ in range(3):
            for status, _ in burst(s.port, 20, GET):
                seen[status] += 1
            time.sleep(exporter.SHARED_SECONDS + 0.1)
        expect(s.process.poll() is None, lambda: f"it ended with {s.process.returncode}\n{s.log()[-1500:]}")
        limit("unlimited:")
        page = all_well(s, devices=64)
        expect(not failing(page), f"{failing(page)}")
        back_to(s, before)
        return f"{dict(seen)}"


def rows():
    return [Row("robust-killed", "kill -9 in the middle of scrapes, started again, ten times", killed, full_only=True),
            Row("robust-stopped", "SIGSTOP while clients wait", stopped),
            Row("robust-state", "state files that are none", broken_state, full_only=True),
            Row("robust-full-disk", "a full disk below state and log", full_disk, full_only=True),
            Row("robust-clock", "the wall clock steps", clock_steps),
            Row("robust-descriptors", "no descriptors left", no_descriptors),
            Row("robust-memory", "no memory left", little_memory, full_only=True),
            Row("robust-slow-clients", "64 slow clients", slow_clients, full_only=True),
            Row("robust-scanned", "port scans", scanned),
            Row("robust-thousand", "1,000 scrapes at once", thousand, full_only=True, alone=True)]
