# SPDX-License-Identifier: Apache-2.0
"""The serving program from outside: HTTP, limits, signals, start failures, and a real Prometheus that scrapes it."""
import concurrent.futures
import glob
import gzip
import io
import json
import math
import os
import re
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import builds
import cases
import exporter
import trees
from exporter import Server, call
from harness import BUILD, ROOT, Failed, Row, expect
from page import LABEL, VOLATILE, Page, Pattern

TREE = os.path.join(ROOT, "tests", "cases", "PE-01-text-in-counter-files")
SOURCE = [f"--path.sysfs={TREE}/sys", f"--path.procfs={TREE}/proc"]
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def server(*args, **more):
    return Server([*SOURCE, *args], **more)


def routes():
    with server() as s:
        for path in ("/", "/metrics", "/-/healthy", "/-/ready"):
            expect(s.get(path).status == 200, f"GET {path}: {s.get(path).status}")
        for path in ("/metricsfoo", "/metrics/", "/metrics.txt", "/debug", "/debug/pprof/", "/config", "/../etc/passwd", "/%2e%2e/etc/passwd", "/..%2fetc/passwd",
                     "//metrics", "/favicon.ico", "/metrics%00", "/etc/passwd", "/-/", "/-/quit", "/index.html"):
            answer = s.get(path)
            expect(answer.status in (400, 404), f"GET {path}: {answer.status}")
            expect(b"root:" not in answer.body, f"GET {path} serves a file")


def packaging_run():
    """The line that packaging/run prints is a URL that answers with metrics, whatever the address, the path, TLS and
    users."""
    with tempfile.TemporaryDirectory(prefix="roce-run-") as folder:
        def write(name, text):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
            return os.path.join(folder, name)
        config = write("config.yml", "web:\n  telemetry_path: /from/file\n")
        certificate(folder, "server", extra=["-addext", "subjectAltName=IP:127.0.0.1,IP:::1"])
        tls = "tls_server_config: {cert_file: server.pem, key_file: server.key%s}\n"
        users = f"basic_auth_users:\n  alice: {HASH}\n"
        for args, want, status in (
                (["--web.listen-address=127.0.0.2:0"], r"http://127\.0\.0\.2:\d+/metrics", 200),
                (["--web.listen-address=[::1]:0", "--web.telemetry-path=/m"], r"http://\[::1\]:\d+/m", 200),
                (["--web.listen-address=127.0.0.3:0", f"--config.file={config}"], r"http://127\.0\.0\.3:\d+/from/file", 200),
                (["--web.listen-address=127.0.0.1:0", f"--config.file={config}", f"--web.config.file={write('tls.yml', tls % '')}"],
                 r"https://127\.0\.0\.1:\d+/from/file", 200),
                (["--web.listen-address=127.0.0.1:0", f"--web.config.file={write('users.yml', users)}"], r"http://127\.0\.0\.1:\d+/metrics", 401),
                (["--web.listen-address=[::1]:0", f"--web.config.file={write('both.yml', tls % '' + users)}"], r"https://\[::1\]:\d+/metrics", 401),
                (["--web.listen-address=127.0.0.1:0",
                  f"--web.config.file={write('client.yml', tls % ', client_auth_type: RequireAndVerifyClientCert, client_ca_file: server.pem')}"],
                 r"https://127\.0\.0\.1:\d+/metrics", 0)):
            command = [os.path.join(ROOT, "packaging", "run"), *SOURCE, *args]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True) as run:
                try:
                    timer = threading.Timer(300, lambda: os.killpg(run.pid, signal.SIGKILL))
                    timer.start()
                    line = run.stdout.readline()
                    found = re.fullmatch(f"roce_exporter serves ({want})\n", line)
                    expect(found, f"{args}: {line!r}")
                    got, body = curl(found.group(1), "--cacert", f"{folder}/server.pem")
                    expect(got == status, f"{found.group(1)}: {got}")
                    expect(status != 200 or "roce_exporter_build_info" in body, f"{found.group(1)} gives no metrics")
                finally:
                    timer.cancel()
                    os.killpg(run.pid, signal.SIGTERM)


def methods():
    with server() as s:
        head, get = s.get("/metrics", "HEAD"), s.get("/metrics")
        expect(head.status == 200 and head.body == b"", f"HEAD: {head.status}, {len(head.body)} bytes of body")
        expect(head.headers.get("content-type") == get.headers.get("content-type"), "HEAD has another content type than GET")
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            answer = s.get("/metrics", method, headers={"Content-Length": "0"})
            expect(answer.status == 405, f"{method} /metrics: {answer.status}")
            expect("GET" in answer.headers.get("allow", ""), f"{method}: Allow is {answer.headers.get('allow')}")
        for method in ("BREW", "TRACE", "CONNECT", "OPTIONS"):
            status = s.get("/metrics", method, headers={"Content-Length": "0"}).status
            expect(400 <= status < 600 and status != 404, f"{method} /metrics: {status}")
        expect(s.get("/-/reload", "POST", headers={"Content-Length": "0"}).status in (403, 404, 405), "reload without --web.enable-lifecycle")
        expect(s.get("/-/healthy").status == 200, "alive after odd methods")


def content_type():
    with server() as s:
        answer = s.get("/metrics")
        expect(answer.headers.get("content-type") == TEXT, f"content type {answer.headers.get('content-type')!r}")
        for accept in ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "*/*", "application/json"):
            expect(s.get("/metrics", headers={"Accept": accept}).headers.get("content-type") == TEXT, f"with Accept: {accept}")
        missing = s.get("/nothing")
        expect(missing.status == 404 and missing.headers.get("content-type", "").startswith("text/plain"), f"404 as {missing.headers.get('content-type')}")


def compression():
    with server() as s:
        plain = Page(s.get("/metrics").body.decode()).stable_text()
        for accept in ("gzip", "gzip, deflate", "deflate, gzip;q=1.0, *;q=0.5", "GZIP", "gzip;q=0.5", "*", "x, gzip ; q=0.001"):
            answer = s.get("/metrics", headers={"Accept-Encoding": accept})
            expect(answer.headers.get("content-encoding") == "gzip", f"Accept-Encoding: {accept}: {answer.headers.get('content-encoding')}")
            names = set(l.split("{")[0] for l in gzip.decompress(answer.body).decode().split("\n"))
            expect("roce_port_state" in names, f"Accept-Encoding: {accept}: body")
            expect("accept-encoding" in answer.headers.get("vary", "").lower(), "Vary does not name Accept-Encoding")
        for accept in (None, "identity", "gzip;q=0", "gzip;q=0, identity", "gzip; q=0.0", "gzip;q=0.000, *;q=0", "deflate", "br", "notgzip", "gzipped", ""):
            answer = s.get("/metrics", headers={"Accept-Encoding": accept} if accept is not None else {})
            expect("content-encoding" not in answer.headers and answer.body.startswith(b"#"), f"Accept-Encoding: {accept}: {answer.headers.get('content-encoding')}")
        expect(plain.count("\n") > 20, "the page is empty")
        done = subprocess.run(["curl", "-sS", "--compressed", f"http://127.0.0.1:{s.port}/metrics"], capture_output=True, text=True, check=True)
        Page(done.stdout)


def label_names():
    """Every name and label on pages with everything on, against the format's grammar (Page checks it) and for repeats."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as tree:
        trees.make(tree, 2, 2, twins=True)
        code, out, err = call("print", f"--path.sysfs={tree}/sys", f"--path.procfs={tree}/proc", "--compat.node-infiniband")
        expect(code == 0, err)
        page = Page(out)
        for s in page.series:
            for label in s.labels:
                expect(re.fullmatch(LABEL, label) and not label.startswith("__"), f"label {label}")
        cases.promtool_accepts(out)
    code, out, _ = call("metrics-reference", "--format", "json")
    for m in json.loads(out)["metrics"]:
        expect(re.fullmatch(r"(roce|process)_[a-z0-9_]+", m["name"]), m["name"])
        expect((m["type"] == "counter") == m["name"].endswith("_total"), f"{m['name']} is a {m['type']}")


def exact_integers():
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as tree:
        trees.make(tree, 1)
        port = f"{tree}/sys/class/infiniband/mlx5_0/ports/1"
        for name, value in (("unicast_rcv_packets", 2**53 + 1), ("multicast_rcv_packets", 2**64 - 2)):
            trees.write(f"{port}/counters/{name}", str(value))
        code, out, err = call("print", f"--path.sysfs={tree}/sys", f"--path.procfs={tree}/proc")
        expect(code == 0, err)
        for pattern, value in (("roce_port_receive_unicast_packets_total", 2**53 + 1), ("roce_port_receive_multicast_packets_total", 2**64 - 2)):
            found = Page(out).find(Pattern(pattern))
            expect(len(found) == 1 and found[0].value == str(value), f"{found[0] if found else pattern}, not {value}")


def shared_collection():
    """Twenty scrapes while a read blocks for two seconds: at most two collections, all answered within three seconds."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        trees.make(top, 2)
        rules = os.path.join(top, "rules")
        with open(rules, "w", encoding="utf-8") as f:
            f.write("mlx5_0/ports/1/counters/port_rcv_data\tDELAY\t2000\n")
        with Server([f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc"], preload=cases.fault_library(),
                    extra_env={"FAULT_FS_RULES": rules, "FAULT_FS_ROOT": top}) as s:
            time.sleep(exporter.SHARED_SECONDS + 0.2)
            before = s.page("/metrics?collect[]=rdma_port")
            made_before = [float(x.value) for x in before.series if x.name == "roce_exporter_collections_total"]
            time.sleep(exporter.SHARED_SECONDS + 0.2)
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                answers = list(pool.map(lambda _: s.get("/metrics"), range(20)))
            slow = max(a.seconds for a in answers)
            expect(all(a.status == 200 for a in answers), f"statuses {sorted({a.status for a in answers})}")
            expect(slow < 3, f"slowest answer {slow:.2f} s")
            last = [float(x.value) for x in Page(answers[-1].body.decode()).series if x.name == "roce_exporter_collections_total"]
            expect(made_before and last, "roce_exporter_collections_total is absent")
            expect(1 <= last[0] - made_before[0] <= 2, f"{last[0] - made_before[0]} collections")
            return f"slowest {slow:.2f} s"


def too_many():
    """Above --web.max-requests: 503, and the program goes on."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        trees.make(top, 1)
        rules = os.path.join(top, "rules")
        with open(rules, "w", encoding="utf-8") as f:
            f.write("mlx5_0/ports/1/counters/port_rcv_data\tDELAY\t1500\n")
        with Server([f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc", "--web.max-requests=2"], preload=cases.fault_library(),
                    extra_env={"FAULT_FS_RULES": rules, "FAULT_FS_ROOT": top}) as s:
            time.sleep(exporter.SHARED_SECONDS + 0.2)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                statuses = sorted(a.status for a in pool.map(lambda _: s.get("/metrics"), range(12)))
            expect(200 in statuses and 503 in statuses and set(statuses) == {200, 503}, f"statuses {statuses}")
            time.sleep(exporter.SHARED_SECONDS + 1)
            expect(s.get("/metrics").status == 200, "no page afterwards")


def filters():
    with server() as s:
        page = s.page("/metrics?collect[]=rdma_port")
        expect(page.find(Pattern("roce_port_state")), "the collector asked for is absent")
        expect(not page.find(Pattern("roce_port_receive_bytes_total")), "another collector is there")
        expect(s.get("/metrics?collect%5B%5D=rdma_port&collect[]=port_counters").status == 200, "two collectors, escaped")
        expect(s.get("/metrics?collect[]=no_such").status == 400, f"unknown collector: {s.get('/metrics?collect[]=no_such').status}")


def slow_client():
    """Clients that send half a request or none hold up nobody."""
    with server() as s:
        idle = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(30)]
        for c in idle[:15]:
            c.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        try:
            time.sleep(0.5)
            start = time.monotonic()
            status = s.get("/metrics", timeout=15).status
            took = time.monotonic() - start
            expect(status == 200 and took < 8, f"{status} after {took:.1f} s beside 30 slow clients")
        finally:
            for c in idle:
                c.close()
        expect(s.get("/-/healthy").status == 200, "alive afterwards")
        return f"{took:.2f} s"


def long_request():
    """A path longer than any route, slashes only, with a query (CVE-2025-55763): refused, and the program lives."""
    with server() as s:
        for path in ("/" * 9000 + "?x=1", "/" + "a" * 20000, "/metrics?" + "a=b&" * 6000, "/" * 70000):
            with socket.create_connection(("127.0.0.1", s.port), timeout=15) as c:
                c.sendall(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                try:
                    first = c.recv(64)
                except ConnectionResetError:
                    first = b""
                status = int(first.split()[1]) if first.startswith(b"HTTP/") else 0
                expect(status == 0 or status >= 400 or path.startswith("/metrics"), f"status {status} for {len(path)} bytes")
        with socket.create_connection(("127.0.0.1", s.port), timeout=15) as c:
            c.sendall(b"\x00\xff\x16\x03\x01garbage\r\n\r\n")
            try:
                c.recv(64)
            except ConnectionResetError:
                pass
        expect(s.get("/metrics").status == 200, "no page afterwards")


def terminate_in_flight():
    """SIGTERM while an answer is on its way: the answer is finished, then the program ends with 0."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        trees.make(top, 1)
        rules = os.path.join(top, "rules")
        with open(rules, "w", encoding="utf-8") as f:
            f.write("mlx5_0/ports/1/counters/port_rcv_data\tDELAY\t1200\n")
        with Server([f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc"], preload=cases.fault_library(),
                    extra_env={"FAULT_FS_RULES": rules, "FAULT_FS_ROOT": top}) as s:
            time.sleep(exporter.SHARED_SECONDS + 0.2)
            result = {}

            def scrape():
                try:
                    result["answer"] = s.get("/metrics")
                except OSError as e:
                    result["error"] = e
            thread = threading.Thread(target=scrape)
            thread.start()
            time.sleep(0.4)
            s.process.send_signal(signal.SIGTERM)
            thread.join(20)
            code = s.process.wait(20)
            expect("answer" in result, f"the answer was cut: {result.get('error')}")
            page = Page(result["answer"].body.decode())
            expect(result["answer"].status == 200 and page.find(Pattern("roce_port_state")), "the answer is not a page")
            expect(code == 0, f"exit {code}")


def reload_config():
    """SIGHUP takes a new file; a bad one leaves the old in use and says so."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        config = os.path.join(top, "roce.yml")

        def write(text):
            with open(config, "w", encoding="utf-8") as f:
                f.write(text)

        def successful(s):
            time.sleep(0.5)
            return [x.value for x in s.page().series if x.name == "roce_config_last_reload_successful"]
        write("log:\n  level: info\n")
        with server(f"--config.file={config}", "--web.enable-lifecycle") as s:
            expect(successful(s) == ["1"], "after the start")
            write("log:\n  levle: info\n")
            s.process.send_signal(signal.SIGHUP)
            expect(successful(s) == ["0"], "after a bad file by SIGHUP")
            lines = [l for l in s.log().splitlines() if "levle" in l]
            expect(len(lines) == 1, f"log about the bad key: {lines}")
            write("log:\n  level: warn\n")
            s.process.send_signal(signal.SIGHUP)
            expect(successful(s) == ["1"], "after a good file by SIGHUP")
            write("not: [closed\n")
            status = s.get("/-/reload", "POST", headers={"Content-Length": "0"}).status
            expect(status >= 400, f"POST /-/reload with a bad file: {status}")
            expect(successful(s) == ["0"], "after a bad file by POST")
            write("")
            status = s.get("/-/reload", "POST", headers={"Content-Length": "0"}).status
            expect(status == 200 and successful(s) == ["1"], f"POST /-/reload with a good file: {status}")
            expect(s.get("/-/reload").status == 405, "GET /-/reload")


def one_line(args, needle, code=2):
    got, out, err = call(*args)
    expect(got == code, f"{args}: exit {got}, {err[:300]}")
    expect(len(err.strip().splitlines()) == 1, f"{args}: {err[:600]!r}")
    expect(re.search(needle, err), f"{args}: {err[:300]!r} does not name {needle}")


def bad_flags():
    one_line(["--no-such-flag"], "no-such-flag")
    one_line(["--web.max-requests=many"], "max-requests")
    one_line(["--web.max-requests=-1"], "max-requests")
    one_line(["--web.listen-address=nonsense:port"], "listen-address|nonsense")
    one_line(["--web.listen-address=127.0.0.1:99999"], "99999")
    one_line(["--log.level=loud"], "loud")
    one_line(["--log.format=xml"], "xml")
    one_line(["--collector.no_such"], "no_such")
    one_line(["--collector.rdma.device-include=(["], "device-include")
    one_line(["--web.telemetry-path=metrics"], "telemetry-path")
    one_line(["no-such-command"], "no-such-command")
    one_line(["metrics-reference", "--format", "xml"], "xml")


BAD_YAML = [
    ("unknown key", "colectors:\n  rdma_port: true\n", r":1\b.*colectors"),
    ("unknown key below", "web:\n  listen_adresses: [':1']\n", r":2\b.*listen_adresses"),
    ("wrong type", "web:\n  max_requests: many\n", r":2\b.*max_requests"),
    ("twice", "log:\n  level: info\n  level: warn\n", r":3\b.*level"),
    ("not closed", "web: [a\n", r":\d+"),
    ("tab", "web:\n\tmax_requests: 3\n", r":\d+"),
    ("list at the top", "- a\n- b\n", r":1\b"),
    ("wrong value", "log:\n  level: loud\n", r":2\b.*loud"),
    ("unknown collector", "collectors:\n  no_such: true\n", r":2\b.*no_such"),
    ("not a truth value", "collectors:\n  rdma_port: perhaps\n", r":2\b.*(perhaps|rdma_port)"),
    ("no UTF-8", b"log:\n  level: \xff\xfe\n", r"\S"),
    ("two documents", "log:\n  level: info\n---\nlog:\n  level: warn\n", r":\d+"),
]


def bad_yaml():
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        for what, text, needle in BAD_YAML:
            path = os.path.join(top, "bad.yml")
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
            for args in (["check-config", path], [f"--config.file={path}", *SOURCE]):
                try:
                    one_line(args, re.escape(path) + needle)
                except Failed as e:
                    raise Failed(f"{what}: {e}") from None
        one_line(["check-config", os.path.join(top, "absent.yml")], "absent.yml")
        one_line([f"--config.file={top}/absent.yml"], "absent.yml")
        good = os.path.join(top, "good.yml")
        with open(good, "w", encoding="utf-8") as f:
            f.write("log:\n  level: debug\ncollectors:\n  rdma_port: true\n")
        code, out, err = call("check-config", good)
        expect(code == 0, f"good file: exit {code}: {err}")
    return f"{len(BAD_YAML)} kinds"


def examples():
    """Every example configuration is accepted; the prober's are its own program's business (reference-prober-example)."""
    found = glob.glob(os.path.join(ROOT, "packaging", "config", "*.yml"))
    expect(found, "packaging/config holds no configuration")
    for path in found:
        if os.path.basename(path) in ("roce_prober.yml", "keys.yml"):
            continue
        if os.path.basename(path) == "web.yml":
            with server(f"--web.config.file={path}") as s:
                expect(s.get("/metrics").status == 200, f"{path}: no page")
            continue
        code, out, err = call("check-config", path)
        expect(code == 0, f"{path}: {err}")


def port_in_use():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        one_line([f"--web.listen-address=127.0.0.1:{port}", *SOURCE, "--log.level=error"], str(port))


def unreadable_tree():
    one_line(["--path.sysfs=/no/such/tree", "--web.listen-address=127.0.0.1:0"], "/no/such/tree")
    one_line(["print", "--path.sysfs=/no/such/tree"], "/no/such/tree")
    one_line(["print", "--replay=/no/such/folder"], "/no/such/folder")
    with tempfile.NamedTemporaryFile(prefix="roce-e2e-") as f:
        one_line(["print", f"--path.sysfs={f.name}"], re.escape(f.name))


def no_ipv6():
    port = exporter.free_port()
    s = Server([*SOURCE, f"--web.listen-address=:{port}"], preload=cases.fault_library(), extra_env={"FAULT_FS_NO_IPV6": "1"}, listen=False)
    s.port = port
    with s:
        expect(s.get("/metrics").status == 200, "no page")


def both_families():
    port = exporter.free_port()
    s = Server([*SOURCE, f"--web.listen-address=127.0.0.1:{port}", f"--web.listen-address=[::1]:{port}"], listen=False)
    s.port = port
    with s:
        expect(s.get("/metrics").status == 200, "127.0.0.1")
        if os.path.exists("/proc/net/if_inet6") and "00000000000000000000000000000001" in open("/proc/net/if_inet6", encoding="utf-8").read():
            s.host = "::1"
            expect(s.get("/metrics").status == 200, "::1")


def traced(*extra):
    """System calls of three scrapes of this machine itself."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        log = os.path.join(top, "trace")
        s = Server(list(extra), prefix=["strace", "-f", "-qq", "-o", log, "-e", "trace=execve,ioctl,openat,open,socket"])
        with s:
            for _ in range(3):
                s.page()
                time.sleep(exporter.SHARED_SECONDS + 0.1)
            # strace is the process here: stop the program below it
            children = subprocess.run(["pgrep", "-P", str(s.process.pid)], capture_output=True, text=True, check=False).stdout.split()
            for c in children:
                os.kill(int(c), signal.SIGTERM)
            s.process.wait(20)
        with open(log, encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()


def touches_nothing():
    """No program is started, no block or verbs device opened, no device ioctl made (no rdma tool is needed either)."""
    lines = traced()
    programs = [l for l in lines if " execve(" in l]
    expect(len(programs) == 1, f"programs started: {programs[:5]}")
    bad = [l for l in lines if re.search(r'open(at)?\([^"]*"/dev/(?!null|urandom|random)', l)]
    expect(not bad, f"device files opened: {bad[:5]}")
    # SIOCETHTOOL goes to a socket; which of its commands are sent is in one list of the reader, module memory is not among them.
    ioctls = [l for l in lines if " ioctl(" in l and "ENOTTY" not in l and not re.search(r"TCGETS|FIONREAD|FIONBIO|FIOCLEX|SIOCETHTOOL", l)]
    expect(not ioctls, f"ioctls: {ioctls[:5]}")
    return f"{len(lines)} calls looked at"


def lsmod_same():
    """Ten scrapes of a host load no module and open no netlink family that is not there."""
    def modules():
        try:
            with open("/proc/modules", encoding="utf-8") as f:
                return sorted(l.split()[0] for l in f)
        except OSError:
            return []
    before = modules()
    with Server() as s:
        for _ in range(10):
            page = s.page()
            time.sleep(exporter.SHARED_SECONDS + 0.05)
        log = s.log().splitlines()
    expect(modules() == before, f"modules: {sorted(set(modules()) ^ set(before))}")
    if not os.path.isdir("/sys/class/infiniband"):
        expect([x.value for x in page.series if x.name == "roce_rdma_devices"] == ["0"], "roce_rdma_devices is not 0 here")
        said = [l for l in log if re.search(r"(?i)rdma", l) and re.search(r"no |without|absent|not ", l, re.I)]
        expect(len(said) == 1, f"the log says {len(said)} times that there is no RDMA: {log}")


class Prometheus:
    """A real Prometheus on loopback. `data`: a folder with what it knows already; else it begins with nothing."""

    def __init__(self, targets, interval="1s", timeout="1s", flags=(), config=None, data=None):
        self.flags, self.data = flags, data
        self.config = config or {"global": {"scrape_interval": interval, "scrape_timeout": timeout},
                                 "scrape_configs": [{"job_name": "roce", "static_configs": [{"targets": targets}]}]}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="roce-prometheus-")
        self.port = exporter.free_port()
        with open(os.path.join(self.folder.name, "prometheus.yml"), "w", encoding="utf-8") as f:
            json.dump(self.config, f)
        self.log = open(os.path.join(self.folder.name, "log"), "w+", encoding="utf-8")
        self.start()
        return self

    def start(self):
        self.process = subprocess.Popen(["prometheus", f"--config.file={self.folder.name}/prometheus.yml", f"--storage.tsdb.path={self.data or self.folder.name + '/data'}",
                                         f"--web.listen-address=127.0.0.1:{self.port}", *self.flags], stdout=self.log, stderr=self.log)
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.1)
        raise Failed("prometheus does not get ready")

    def query(self, text):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": text}), timeout=20) as answer:
            data = json.load(answer)
        expect(data["status"] == "success", str(data))
        return data["data"]["result"]

    def one(self, text):
        result = self.query(text)
        expect(len(result) == 1, f"{text}: {result}")
        return float(result[0]["value"][1])

    def target_errors(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/targets", timeout=20) as answer:
            return [(t["health"], t["lastError"]) for t in json.load(answer)["data"]["activeTargets"]]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self.folder.cleanup()


def prometheus(seconds):
    """A real Prometheus scrapes two exporters on moving trees: every scrape works, values arrive, memory stays."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        for n in ("a", "b"):
            trees.make(os.path.join(top, n), 8)
        servers = [Server([f"--path.sysfs={top}/{n}/sys", f"--path.procfs={top}/{n}/proc"]) for n in ("a", "b")]
        with servers[0], servers[1], Prometheus([f"127.0.0.1:{s.port}" for s in servers], interval="1200ms") as p:
            moved = f"{top}/a/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
            start, n, marked = time.monotonic(), 0, None
            while time.monotonic() - start < seconds:
                n += 1
                trees.write(moved, str(2_000_000 + 1000 * n))
                time.sleep(1)
                if marked is None and time.monotonic() - start > min(8, seconds / 2):
                    marked = [s.stat() for s in servers]
            time.sleep(3)
            window = f"{int(seconds)}s"
            expect(p.one(f"min(min_over_time(up[{window}]))") == 1, f"a scrape failed: {p.target_errors()}")
            scrapes = p.one(f"sum(count_over_time(up[{window}]))")
            expect(scrapes >= 2 * (seconds / 1.2) * 0.8, f"{scrapes} scrapes only")
            value = p.one('roce_port_receive_bytes_total{instance="127.0.0.1:%d",device="mlx5_0"}' % servers[0].port)
            expect(value == 4 * (2_000_000 + 1000 * n), f"value {value} after {n} steps")
            expect(len(p.query('roce_port_state{port="1"} == 4')) == 16, "16 active ports")
            late = p.one(f"max(max_over_time(scrape_duration_seconds[{window}]))")
            for s, (_, rss, threads) in zip(servers, marked):
                _, rss_now, threads_now = s.stat()
                expect(rss_now <= rss * 1.2 + 2_000_000, f"resident {rss} then {rss_now}")
                expect(threads_now <= threads + 2, f"threads {threads} then {threads_now}")
            return f"{scrapes:.0f} scrapes, slowest {late * 1000:.0f} ms"


def identities():
    """From an address that is not loopback the start page and /health tell no name of a peer, process or host."""
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    address = next((a for a in listed if "." in a and not a.startswith("127.")), None)
    expect(address, "this machine has no address beside loopback")
    tree = os.path.join(ROOT, "tests", "cases", "SY-08-hide-identity")
    with Server([f"--path.sysfs={tree}/sys", f"--path.procfs={tree}/proc"], address=address) as s:
        names = [socket.gethostname(), "53a7", "MT_0000000838", "host17"]
        for path in ("/", "/health"):
            body = s.get(path).body.decode()
            found = [n for n in names if n and re.search(rf"\b{re.escape(n)}\b", body)]
            expect(not found, f"{path} tells {found}")
        expect(s.get("/debug").status == 404, "/debug")


def status_page():
    """The status page shows what scrapes collect, lets nothing else in, and changes as the host does."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        trees.make(top, 2)
        with Server([f"--path.sysfs={top}/sys", f"--path.procfs={top}/proc"]) as s:
            s.get("/metrics")
            collections = re.compile(r"^roce_exporter_collections_total (\d+)", re.M)
            before = int(collections.search(s.get("/metrics").body.decode()).group(1))
            time.sleep(1.2)
            for _ in range(20):
                page = s.get("/")
            policy = page.headers.get("content-security-policy", "")
            expect("unsafe" not in policy and "default-src 'none'" in policy and policy.count("'sha256-") == 2, f"policy {policy!r}")
            body = page.body.decode()
            for part in ('id="verdict"', 'id="links"', 'id="topology"', "mlx5_1/1", "<title>"):
                expect(part in body, f"the page has no {part}")
            after = int(collections.search(s.get("/metrics").body.decode()).group(1))
            expect(after <= before + 1, f"20 pages cost {after - before - 1} collections")
            trees.write(f"{top}/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN")
            time.sleep(1.2)
            s.get("/metrics")
            expect(">down<" in s.get("/").body.decode(), "the page does not follow the host")


def values_of(text):
    """All series of a page but those whose values differ from run to run."""
    return [(s.name, tuple(sorted(s.labels.items())), s.value) for s in Page(text).series if not re.match("roce_exporter_|roce_config_", s.name) and not VOLATILE.match(s.name)]


# What a recording replaces: values of these labels are only compared by how many there are.
NAMED = {"mount", "server", "export", "address", "transports_of", "operations_of", "traddr", "host_traddr", "src_addr", "nqn", "hostnqn", "serial",
         "node_desc", "node_guid", "sys_image_guid", "target", "switch_id", "subsystem_nqn", "comm", "unit", "cgroup", "container", "pod_uid"}


def anonymous(values):
    # Owners without a number are users in the kernel, which keep their names.
    return sorted((name, tuple((k, "" if k in NAMED or k == "owner" and dict(labels).get("pid") else v) for k, v in labels), value) for name, labels, value in values)


def capture_cases():
    """A recording of a recording gives the same page: for every case, as a folder and as a tar file."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        parts = [glob.glob(f"{ROOT}/tests/cases/{where}{part}") for where in ("*/", "*/t0/") for part in ("sys", "proc", "rdma", "netdev")]
        for root in sorted({os.path.dirname(part) for part in sum(parts, [])}):
            name = os.path.relpath(root, f"{ROOT}/tests/cases").replace("/", "-")
            # Of what was damaged a recording tells that it failed, and no longer how.
            if os.path.exists(f"{root}/faults.tsv") or name == "MS-15-recorded-files-that-are-damaged":
                continue
            code, plain, err = call("print", "--collector.process_cgroups", f"--replay={root}")
            expect(code == 0, err)
            tar = f"{top}/{name}.tar"
            code, out, err = call("capture", tar, f"--replay={root}")
            expect(code == 0 and f"{tar}: " in out, f"{name}: {code} {err}")
            code, again, err = call("print", "--collector.process_cgroups", f"--replay={tar}")
            expect(code == 0, f"{name}: {err}")
            want, got = anonymous(values_of(plain)), anonymous(values_of(again))
            missing, more = [w for w in want if w not in got], [g for g in got if g not in want]
            expect(not missing and not more, f"{name}: not in the recording's page: {missing[:4]}, only there: {more[:4]}")
            count += 1
    expect(count >= 40, f"only {count} cases")
    return f"{count} cases"


def capture_unreadable():
    """What could not be read is told by the replay as by the host: it is not taken for what the host does not have."""
    library = cases.fault_library()
    faults = {"mlx5_0/ports/1/rate": "EIO", "mlx5_0/ports/1/counters/port_rcv_errors": "EIO",
              "mlx5_1/ports/1/counters/port_xmit_wait": "EINVAL", "mlx5_1/ports/1/counters/port_rcv_errors": "OPEN+EACCES", "mlx5_1/ports/1/gids": "EIO",
              "mlx5_1/ports/1/hw_counters": "OPEN+EACCES", "mlx5_1/ports/1/hw_counters/lifespan": "OPEN+EACCES",
              "debugfs": "OPEN+EACCES", "proc/77/status": "OPEN+EACCES", "proc/78/limits": "OPEN+EACCES"}
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        trees.make(f"{top}/tree", 2)
        for pid in (77, 78):
            trees.write(f"{top}/tree/proc/{pid}/limits", "Max locked memory  65536  65536  bytes")
            trees.write(f"{top}/tree/proc/{pid}/status", "VmPin:\t64 kB")
        trees.write(f"{top}/tree/debugfs/mlx5/0000:3b:00.0/cc_params/rp_max_rate", "5")
        trees.write(f"{top}/faults", "".join(f"{path}\t{effect}\t-\n" for path, effect in faults.items()))
        env = exporter.environment(exporter.binary(), library, {"FAULT_FS_RULES": f"{top}/faults", "FAULT_FS_ROOT": f"{top}/tree"})
        pages = [call("print", f"--replay={top}/tree", env=env)]
        for target in ("host.tar", "folder"):
            code, _, err = call("capture", f"{top}/{target}", f"--replay={top}/tree", env=env)
            expect(code == 0, err)
            pages.append(call("print", f"--replay={top}/{target}"))
        want = anonymous(values_of(pages[0][1]))
        text = pages[0][1]
        expect('roce_collector_failure{collector="rdma_port"' in text and 'counter="port_rcv_errors",state="failing"' in text, "the faults do not show")
        expect('counter="port_rcv_errors",state="denied"' in text and "roce_process_permission_errors 2" in text, "what is denied does not show")
        for code, out, err in pages[1:]:
            expect(code == 0, err)
            got = anonymous(values_of(out))
            expect(got == want, f"only on the host: {[w for w in want if w not in got][:4]}, only in the replay: {[g for g in got if g not in want][:4]}")


def capture_excluded():
    """Of a device that the flags leave out no file is opened or recorded: neither its own, nor its sensor's, nor its netdev's."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        tree = f"{top}/tree"
        trees.make(tree, 2)
        function = os.path.realpath(f"{tree}/sys/class/infiniband/mlx5_1/device")
        trees.write(f"{function}/hwmon/hwmon3/name", "mlx5")
        trees.write(f"{function}/hwmon/hwmon3/temp1_input", "45000")
        os.makedirs(f"{tree}/sys/class/hwmon")
        os.symlink(f"{function}/hwmon/hwmon3".replace(f"{tree}/sys", "../..", 1), f"{tree}/sys/class/hwmon/hwmon3")
        trees.write(f"{top}/rules", "")
        env = exporter.environment(exporter.binary(), cases.fault_library(),
                                   {"FAULT_FS_RULES": f"{top}/rules", "FAULT_FS_ROOT": tree, "FAULT_FS_OPENS": f"{top}/opens"})

        def recorded(*flags):
            """(files opened of the function, names of it in the recording)"""
            trees.write(f"{top}/opens", "")
            out = f"{top}/{len(flags)}"
            code, _, err = call("capture", out, f"--replay={tree}", *flags, env=env)
            expect(code == 0, err)
            with open(f"{top}/opens", encoding="utf-8") as f:
                opened = [l.strip() for l in f if re.search(r"mlx5_1\b|eth1\b|hwmon3", l) and not os.path.isdir(l.strip())]
            kept = [os.path.join(folder, name) for folder, folders, names in os.walk(out) for name in folders + names]
            return opened, [p for p in kept if re.search(r"mlx5_1\b|eth1\b|hwmon3", os.path.relpath(p, out))]
        opened, kept = recorded()
        expect(len(opened) > 20 and any("temp1_input" in p for p in opened) and kept, f"nothing of it is recorded at all: {opened} {kept}")
        opened, kept = recorded("--collector.rdma.device-exclude=^mlx5_1$", "--collector.netdev.device-exclude=^eth1$")
        expect(not opened and not kept, f"opened: {opened[:5]}, recorded: {kept[:5]}")


def capture_names():
    """No name of a host or its peers gets into a recording, and the same name always becomes the same."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        source = f"{top}/source"
        for path, text in {
                "proc/sys/kernel/hostname": "gpu17.acme.example", "sys/class/infiniband/mlx5_0/node_desc": "gpu17 mlx5_0",
                "sys/class/infiniband/mlx5_0/node_guid": "0c42:a103:0012:3456", "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
                "sys/class/infiniband/mlx5_0/ports/1/gids/0": "0000:0000:0000:0000:0000:ffff:c612:0a07",
                "sys/class/nvme-subsystem/nvme-subsys0/subsysnqn": "nqn.2024-01.com.acme:pool",
                "sys/class/nvme-subsystem/nvme-subsys0/serial": "S5XXSERIAL",
                "sys/class/nvme-subsystem/nvme-subsys0/nvme0/address": "traddr=198.18.10.9,trsvcid=4420,host_traddr=198.18.10.7",
                "sys/class/nvme-subsystem/nvme-subsys0/nvme0/dhchap_secret": "DHHC-1:00:SECRET:", "sys/class/nvme-subsystem/nvme-subsys0/nvme0/state": "live",
                "sys/class/nvme-subsystem/nvme-subsys0/nvme0/transport": "rdma", "proc/1/comm": "acme-daemon", "proc/cmdline": "root=SECRET",
                "proc/77/comm": "acme-trainer", "proc/77/cmdline": "train --password=SECRET", "proc/77/environ": "TOKEN=SECRET",
                "proc/77/status": "Name:\tacme-trainer\nUid:\t4711\t4711\t4711\t4711\nGroups:\t4712\nVmPin:\t64 kB", "proc/77/limits": "Max locked memory  65536  65536  bytes",
                "proc/77/cgroup": "4:memory:/acme\n0::/acme.slice/gpu17@alice.service", "sys/fs/cgroup/acme.slice/rdma.max": "mlx5_0 hca_handle=9",
                "sys/fs/cgroup/acme.slice/gpu17@alice.service/rdma.current": "mlx5_0 hca_handle=5", "sys/fs/cgroup/acme.slice/gpu17@alice.service/rdma.max": "mlx5_0 hca_handle=9",
                "sys/fs/cgroup/acme.slice/payroll.service/rdma.current": "mlx5_0 hca_handle=1",
                "rdma/resource_ctx.json": '[{"ifindex":0,"ifname":"mlx5_0","ctxn":1,"pid":77,"comm":"acme-trainer"}]',
                "rdma/resource_qp.json": '[{"ifindex":0,"ifname":"mlx5_0","port":1,"lqpn":8,"type":"RC","state":"RTS","pid":77,"comm":"acme-trainer"}]'}.items():
            trees.write(f"{source}/{path}", text)
        for target in (f"{top}/out", f"{top}/out.tar"):
            code, _, err = call("capture", target, f"--replay={source}")
            expect(code == 0, err)
        packed = open(f"{top}/out.tar", "rb").read()
        written = {os.path.relpath(os.path.join(folder, name), f"{top}/out"): open(os.path.join(folder, name), "rb").read()
                   for folder, _, names in os.walk(f"{top}/out") for name in names}
        for secret in (b"gpu17", b"acme", b"a103", b"c612:0a07", b"S5XX", b"198.18.10.", b"SECRET", b"DHHC", b"alice", b"payroll", b"trainer", b"4711", b"4712"):
            expect(secret not in packed, f"the tar file holds {secret}")
            for path, text in written.items():
                expect(secret not in text and secret.decode() not in path, f"{path} holds {secret}")
        address = written["sys/class/nvme-subsystem/nvme-subsys0/nvme0/address"].decode()
        host = re.search(r"host_traddr=([\d.]+)", address).group(1)
        gid = "".join(f"{int(n):02x}" for n in host.split("."))
        expect(written["sys/class/infiniband/mlx5_0/ports/1/gids/0"].decode().strip().replace(":", "").endswith(gid), f"GID and address {host} differ")
        code, out, err = call("print", "--collector.process_cgroups", f"--replay={top}/out.tar")
        expect(code == 0, err)
        page = Page(out)
        for family in ("roce_process_info", "roce_process_cgroup_info", "roce_owner_qps"):
            comm = page.find(Pattern(f'{family}{{pid="77"}}'))[0].labels.get("owner" if "owner" in family else "comm")
            expect(re.fullmatch(r"process-\d+", comm), f"{family}: {comm}")
        cgroup = page.find(Pattern("roce_cgroup_rdma_used"))[0].labels["cgroup"]
        expect(page.find(Pattern("roce_process_cgroup_info"))[0].labels["cgroup"] == cgroup and re.fullmatch(r"/cgroup-\d+\.slice/cgroup-\d+\.service", cgroup), cgroup)
        expect(page.find(Pattern("roce_process_pinned_bytes"))[0].value == "65536", "memory that is pinned")
        code, out, err = call("capture", f"{top}/out", f"--replay={source}")
        expect(code == 2 and err.count("\n") == 1 and "out" in err, f"into a folder that is not empty: {code} {err!r}")
        code, out, err = call("capture", f"{top}/none/x.tar", f"--replay={source}")
        expect(code == 2 and err.count("\n") == 1, f"into no folder: {code} {err!r}")
        os.makedirs(f"{top}/nothing/sys")
        code, out, err = call("capture", f"{top}/nothing.tar", f"--replay={top}/nothing")
        expect(code == 2 and err.count("\n") == 1 and "nothing was found" in err, f"of nothing: {code} {err!r}")


def capture_devices():
    """A device whose name holds an address is the same one in every file of a recording, and in all that hangs on it."""
    source = f"{ROOT}/tests/cases/KR-30-storage-link/t0"
    bridge = "br-0c42a1123456"
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        for folder, _, names in os.walk(source):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    text = f.read()
                path = os.path.relpath(os.path.join(folder, name), source)
                trees.write(f"{top}/tree/{re.sub(r'eth0(?=/)', bridge, path)}", re.sub(r"\beth0\b", bridge, text).rstrip("\n"))
        # A network device of Hyper-V sits below a UUID that holds its MAC address twice.
        uuid = "000d3af9-f7f7-000d-3af9-f7f7000d3af9"
        trees.write(f"{top}/tree/sys/devices/VMBUS:00/{uuid}/net/eth9/operstate", "up")
        os.symlink(f"../../devices/VMBUS:00/{uuid}/net/eth9", f"{top}/tree/sys/class/net/eth9")
        code, plain, err = call("print", f"--replay={top}/tree")
        expect(code == 0, err)
        expect(plain.count(bridge) >= 4 and re.search(rf'roce_nvme_controller_link_info\{{.*"{bridge}"', plain), f"nothing hangs on {bridge}")
        code, _, err = call("capture", f"{top}/out", f"--replay={top}/tree")
        expect(code == 0, err)
        code, again, err = call("print", f"--replay={top}/out")
        expect(code == 0, err)
        stand_in, = [n for n in os.listdir(f"{top}/out/sys/class/net") if n.startswith("br-")]
        want, got = anonymous(values_of(plain.replace(bridge, stand_in))), anonymous(values_of(again))
        expect(want == got, f"not in the recording's page: {[w for w in want if w not in got][:4]}, only there: {[g for g in got if g not in want][:4]}")
        left = subprocess.run(["grep", "-rlE", "0c42a1123456|0d3af9", f"{top}/out"], capture_output=True, text=True, check=False).stdout
        named = [p for p in glob.glob(f"{top}/out/**", recursive=True) if re.search("0c42a1123456|0d3af9", p + (os.readlink(p) if os.path.islink(p) else ""))]
        expect(not left and not named, f"the recording tells the address: {left} {named}")


def capture_host():
    """A recording of this host: it can be replayed, and tells neither its name nor its addresses."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        code, out, err = call("capture", f"{top}/host.tar")
        expect(code == 0, err)
        code, out, err = call("print", f"--replay={top}/host.tar")
        expect(code == 0, err)
        expect("roce_rdma_devices" in Page(out).text, "no page of the recording")
        packed = open(f"{top}/host.tar", "rb").read()
        listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
        for name in [socket.gethostname(), *listed]:
            expect(len(name) < 6 or name.encode() not in packed, f"the recording holds {name}")


def bad_recordings():
    """A tar file that is broken, or wants out of its folder, is refused in one line, and leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        env = exporter.environment(exporter.binary(), extra={"TMPDIR": f"{top}/tmp"})
        os.mkdir(f"{top}/tmp")
        cases_of = {"text": b"hello", "empty": b"", "cut": None, "up": ("../x", None), "absolute": ("/tmp/x", None), "link": ("sys/l", "/etc"), "climb": ("l", "../../..")}
        for name, what in cases_of.items():
            path = f"{top}/{name}.tar"
            if isinstance(what, tuple):
                with tarfile.open(path, "w") as tar:
                    entry = tarfile.TarInfo(what[0])
                    if what[1]:
                        entry.type, entry.linkname = tarfile.SYMTYPE, what[1]
                    tar.addfile(entry)
            elif what is None:
                with tarfile.open(path, "w") as tar:
                    entry = tarfile.TarInfo("sys/a")
                    entry.size = 5000
                    tar.addfile(entry, io.BytesIO(b"x" * 5000))
                os.truncate(path, 2048)
            else:
                with open(path, "wb") as f:
                    f.write(what)
            code, out, err = call("print", f"--replay={path}", env=env)
            expect(code == 2 and not out and err.count("\n") == 1 and f"{name}.tar" in err, f"{name}: {code} {err!r}")
            expect(not os.listdir(f"{top}/tmp"), f"{name} leaves {os.listdir(f'{top}/tmp')}")


def odd_letters():
    """A network device by a name that is not ASCII is recorded as any other, and read from what other tools packed."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        for path, text in {"sys/class/net/eth\u00e9/mtu": "1500", "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE"}.items():
            trees.write(f"{top}/source/{path}", text)
        for name, form in {"pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}.items():
            with tarfile.open(f"{top}/{name}.tar", "w", format=form) as tar:
                tar.add(f"{top}/source", ".")
        code, out, err = call("capture", f"{top}/ours.tar", f"--replay={top}/pax.tar")
        expect(code == 0, f"capture: {err}")
        pages = {}
        for name in ("source", "pax.tar", "gnu.tar", "ours.tar"):
            code, pages[name], err = call("print", f"--replay={top}/{name}")
            expect(code == 0, f"{name}: {err}")
        with tarfile.open(f"{top}/ours.tar", errors="surrogateescape") as tar:
            expect("sys/class/net/eth\u00e9/mtu" in tar.getnames(), f"recorded: {tar.getnames()}")
        want = values_of(pages["source"])
        for name, page in pages.items():
            expect(values_of(page) == want, f"{name} gives another page")


def nothing_left():
    """A recording that is read goes with the program, however that ends: by a signal half way, or by a closed pipe."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        env = exporter.environment(exporter.binary(), extra={"TMPDIR": f"{top}/tmp"})
        os.mkdir(f"{top}/tmp")
        with tarfile.open(f"{top}/many.tar.gz", "w:gz", compresslevel=1) as tar:
            for i in range(40000):
                tar.addfile(tarfile.TarInfo(f"sys/class/infiniband/{i}"))
        for command in ("print", "check", "capture"):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                args = [command, *([f"{top}/out.tar"] if command == "capture" else []), f"--replay={top}/many.tar.gz"]
                # Under nohup(1) a program ignores SIGHUP, and so do those that it begins.
                with subprocess.Popen([exporter.binary(), *args], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL)) as process:
                    deadline = time.monotonic() + 20
                    while not os.listdir(f"{top}/tmp") and process.poll() is None and time.monotonic() < deadline:
                        time.sleep(0.005)
                    process.send_signal(number)
                    process.wait(timeout=20)
                    expect(process.returncode == -number, f"{command}: {number.name}: {process.returncode} {process.stderr.read()}")
                left = os.listdir(f"{top}/tmp")
                expect(not left, f"{command}: {number.name} leaves {left}")
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([exporter.binary(), "print", "--demo"], env=env, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(writing)
        expect(done.returncode == 2 and not done.stderr, f"a closed pipe: {done.returncode} {done.stderr}")
        expect(not os.listdir(f"{top}/tmp"), f"a closed pipe leaves {os.listdir(f'{top}/tmp')}")


def demo():
    """One command shows a host that lives: ports, storage, traffic; it goes with the program, and is what its source makes."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        subprocess.run([f"{ROOT}/packaging/demo/made-up", f"{top}/made-up.tar.gz"], check=True)
        with tarfile.open(f"{top}/made-up.tar.gz") as fresh, tarfile.open(f"{ROOT}/packaging/demo/made-up.tar.gz") as shipped:
            contents = [{m.name: (m.linkname, t.extractfile(m).read() if m.isfile() else None) for m in t.getmembers()} for t in (fresh, shipped)]
            expect(contents[0] == contents[1], "packaging/demo/made-up.tar.gz is not what packaging/demo/made-up makes")
        os.mkdir(f"{top}/tmp")
        for flag, ports, notice, names in (("--demo", 3, "a recorded virtual machine (Soft-RoCE", ("rxe0/1", "mlx5_1/1", "nvme0")),
                                           ("--demo=made-up", 4, "an invented host", ("mlx5_3/1", "nvme7"))):
            lives(flag, ports, notice, names, f"{top}/tmp")
        code, out, err = call("print", "--demo=no-rdma", env=exporter.environment(exporter.binary(), extra={"TMPDIR": f"{top}/tmp"}))
        expect(code == 0 and "\nroce_rdma_devices 0\n" in out and not os.listdir(f"{top}/tmp"), f"print --demo=no-rdma: {code} {err}")
    one_line(["--demo", "--replay=/"], "replay")
    one_line(["--demo", "--path.sysfs=/sys"], "path.sysfs")
    one_line(["--demo=labs"], "no-rdma")


def lives(flag, ports, notice, names, scratch):
    env = {"TMPDIR": scratch}
    with Server([flag], extra_env=env) as s:
        first = Page(s.get("/metrics").body.decode())
        expect(len(first.find(Pattern("roce_port_state"))) == ports, f"{flag}: {ports} ports")
        body = s.get("/").body.decode()
        expect(all(word in body for word in (notice, *names)), f"{flag}: the status page does not show it")
        time.sleep(3)
        second = Page(s.get("/metrics").body.decode())
        # Soft-RoCE counts packets alone.
        received = [{x.labels["device"]: float(x.value) for family in ("packets", "bytes") for x in page.find(Pattern(f"roce_port_receive_{family}_total"))}
                    for page in (first, second)]
        grown = {device: received[1][device] - received[0][device] for device in received[0]}
        expect(len(grown) == ports and all(g > 0 for g in grown.values()), f"{flag}: traffic {grown}")
        health = json.loads(s.get("/health").body)
        expect(health["status"] == "ok", f"{flag} begins {health['status']}: {[f['id'] for f in health['findings']]}")
    expect(not os.listdir(scratch), f"{flag} leaves {os.listdir(scratch)}")
    code, out, err = call("print", flag, env=exporter.environment(exporter.binary(), extra=env))
    expect(code == 0 and "roce_nvme_controller_state" in out and not os.listdir(scratch), f"print {flag}: {code} {err}")


def native_histograms(flags):
    """A real Prometheus reads our histograms: as protobuf with its feature flag, as text without; the answers agree."""
    preset = exporter.preset_of(exporter.binary())
    builds.build(preset, "native_page")
    with subprocess.Popen([os.path.join(BUILD, preset, "bin", "native_page")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as page:
        try:
            target = page.stdout.readline().strip().removeprefix("http://")
            with Prometheus([target], flags=flags) as p:
                for _ in range(120):
                    if p.query("test_sent_total > 4000"):
                        break
                    time.sleep(0.25)
                expect(all(e == ("up", "") for e in p.target_errors()), str(p.target_errors()))
                expect(p.one('test_state') == -1.5, "a gauge")
                sent = p.one('test_sent_total{peer="busy \\"1\\""}')
                if flags:
                    series, suffix = 'test_rtt_seconds{peer="busy"}', ""
                    expect(not p.query('test_rtt_seconds_bucket'), "classic buckets came beside the native ones")
                    expect(p.one('histogram_count(test_rtt_seconds{peer="quiet"})') == 0, "an empty histogram")
                    count, total = p.one(f"histogram_count({series})"), p.one(f"histogram_sum({series})")
                else:
                    suffix = "_bucket"
                    expect(len(p.query('test_rtt_seconds_bucket{peer="busy"}')) == 31, "classic buckets")
                    count, total = p.one('test_rtt_seconds_count{peer="busy"}'), p.one('test_rtt_seconds_sum{peer="busy"}')
                median = p.one(f'histogram_quantile(0.5, test_rtt_seconds{suffix}{{peer="busy"}})')
                expect(abs(count - sent) <= 1000, f"{count} counted, {sent} sent")
                expect(abs(total / count - 4.8e-6 * math.exp(0.3 ** 2 / 2)) < 0.2e-6, f"mean {total / count}")
                wide = 0.05 if flags else 0.25
                expect(abs(median / 4.8e-6 - 1) < wide, f"median {median}")
                return f"median {median * 1e6:.2f} us of {int(count)}"
        finally:
            page.stdin.close()


def certificate(folder, name, issuer=None, extra=()):
    """NAME.pem and NAME.key in the folder, by the issuer's or its own key."""
    path = os.path.join(folder, name)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
               "-subj", f"/CN={name}", "-keyout", f"{path}.key", "-out", f"{path}.pem", *extra]
    if issuer:
        command += ["-CA", f"{folder}/{issuer}.pem", "-CAkey", f"{folder}/{issuer}.key", "-addext", "basicConstraints=critical,CA:FALSE"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stderr)


def curl(url, *args):
    """(HTTP status, 0 where no answer came; body), the server's certificate checked."""
    done = subprocess.run(["curl", "-sS", "--max-time", "20", "-w", "\n%{http_code}", *args, url], capture_output=True, text=True, check=False)
    body, _, status = done.stdout.rpartition("\n")
    return (int(status) if done.returncode == 0 else 0), body


# bcrypt of "secret"
HASH = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"


def web_config():
    """--web.config.file: TLS, client certificates and users, refused and let in; files that change; guesses that cost nothing."""
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        for ca in ("ca", "other-ca"):
            certificate(top, ca)
        certificate(top, "server", "ca", ["-addext", "subjectAltName=IP:127.0.0.1"])
        certificate(top, "client", "ca")
        certificate(top, "stranger", "other-ca")
        config = os.path.join(top, "web.yml")

        def write(text):
            with open(config + ".new", "w", encoding="utf-8") as f:
                f.write(text)
            os.rename(config + ".new", config)

        tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
        mutual = tls + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
        users = f"basic_auth_users:\n  alice: {HASH}\n"
        write(mutual + users)
        s = server(f"--web.config.file={config}", wait=False)
        with s:
            url = f"https://127.0.0.1:{s.port}"
            trust = ["--cacert", f"{top}/ca.pem"]
            client = [*trust, "--cert", f"{top}/client.pem", "--key", f"{top}/client.key"]
            alice = ["-u", "alice:secret"]
            for _ in range(200):
                if curl(f"{url}/-/ready", *client, *alice)[0] == 200:
                    break
                time.sleep(0.1)
            expect(curl(f"{url}/metrics", *client, *alice)[0] == 200, "certificate and password")
            for what, args, wanted in (
                    ("no certificate", [*trust, *alice], 0),
                    ("another CA's certificate", [*trust, "--cert", f"{top}/stranger.pem", "--key", f"{top}/stranger.key", *alice], 0),
                    ("no user", client, 401), ("a wrong password", [*client, "-u", "alice:wrong"], 401),
                    ("an unknown user", [*client, "-u", "bob:secret"], 401),
                    ("TLS 1.1", [*client, *alice, "--tls-max", "1.1", "--ciphers", "DEFAULT:@SECLEVEL=0"], 0),
                    ("TLS 1.2", [*client, *alice, "--tls-max", "1.2"], 200), ("HTTP/2 offered", [*client, *alice, "--http2"], 200)):
                for path in ("/metrics", "/", "/-/healthy"):
                    got = curl(url + path, *args)[0]
                    expect(got == wanted, f"{what}, {path}: {got}, not {wanted}")
            expect(curl(f"http://127.0.0.1:{s.port}/metrics")[0] == 0, "plain HTTP on the TLS port is answered")

            def value(name):
                page = Page(curl(f"{url}/metrics", *client, *alice)[1])
                return {tuple(sorted(x.labels.items())): float(x.value) for x in page.series if x.name == name}

            # 200 wrong passwords: few are hashed, and the right one is answered all the while.
            before = value("roce_web_password_checks_total")[()]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                statuses = list(pool.map(lambda i: curl(f"{url}/metrics", *client, "-u", f"alice:guess{i}")[0], range(200)))
            expect(set(statuses) <= {401, 429}, f"statuses {sorted(set(statuses))}")
            expect(statuses.count(429) > 0, "no guess was turned away unhashed")
            hashed = value("roce_web_password_checks_total")[()] - before
            expect(hashed == statuses.count(401), f"{hashed} hashed, {statuses.count(401)} answered")
            refused = value("roce_web_requests_refused_total")
            expect(refused[(("reason", "rate"),)] == statuses.count(429), str(refused))

            # A new certificate, a bad file, other users.
            certificate(top, "server", "other-ca", ["-addext", "subjectAltName=IP:127.0.0.1"])
            time.sleep(1.2)
            client[1] = f"{top}/other-ca.pem"
            expect(curl(f"{url}/metrics", *client, *alice)[0] == 200, "the new certificate is not served")
            write(mutual + "basic_auth_users:\n  alice: secret\n")
            time.sleep(1.2)
            expect(value("roce_web_config_last_reload_successful") == {(): 0}, "a bad file counts as good")
            lines = [l for l in s.log().splitlines() if f"{config}:7" in l]
            expect(len(lines) == 1, f"log about the bad file: {lines}")
            expect("secret" not in s.log(), "the log tells the password")
            write(mutual + users.replace("alice", "bob"))
            time.sleep(1.2)
            expect(curl(f"{url}/metrics", *client, *alice)[0] == 401, "a user that is gone gets in")
            alice[1] = "bob:secret"
            expect(value("roce_web_config_last_reload_successful") == {(): 1}, "a good file counts as bad")
            return f"{int(hashed)} of 200 guesses hashed"


BAD_WEB = [
    ("unknown key", "tls_server:\n  a: 1\n", r":1: key `tls_server`"),
    ("no such certificate", "tls_server_config:\n  cert_file: absent.pem\n  key_file: absent.key\n", r":2: key `tls_server_config.cert_file`.*absent.pem"),
    ("no bcrypt", "basic_auth_users:\n  alice: hunter2\n", r":2: key `basic_auth_users.alice`"),
    ("TLS 1.0", "tls_server_config:\n  min_version: TLS10\n", r":2: .*TLS10"),
    ("no YAML", "a: [\n", r":\d+: "),
]


def bad_web_config():
    with tempfile.TemporaryDirectory(prefix="roce-e2e-") as top:
        path = os.path.join(top, "web.yml")
        for what, text, needle in BAD_WEB:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            try:
                one_line([f"--web.config.file={path}", *SOURCE, "--web.listen-address=127.0.0.1:0"], re.escape(path) + needle)
            except Failed as e:
                raise Failed(f"{what}: {e}") from None
    return f"{len(BAD_WEB)} kinds"


def rows():
    return [
        Row("SY-04-routes", "only the documented routes, no files", routes),
        Row("SY-04-identities", "the start page tells no identities to other hosts", identities),
        Row("e2e-status-page", "the status page costs no collection and follows the host", status_page),
        Row("e2e-capture-cases", "a recording of each case gives the case's page", capture_cases),
        Row("e2e-capture-unreadable", "what could not be read stays so in a recording", capture_unreadable),
        Row("e2e-capture-excluded", "of devices that are left out no file is opened or recorded", capture_excluded),
        Row("e2e-capture-names", "names and secrets stay out of recordings", capture_names),
        Row("e2e-capture-devices", "devices whose names and paths hold addresses", capture_devices),
        Row("e2e-capture-host", "a recording of this host", capture_host),
        Row("e2e-bad-recordings", "tar files that are broken or want out", bad_recordings),
        Row("e2e-recording-letters", "names that are not ASCII in recordings", odd_letters),
        Row("e2e-recording-ends", "nothing of a recording outlives the program", nothing_left),
        Row("e2e-demo", "the demonstration lives", demo),
        Row("e2e-packaging-run", "packaging/run prints the URL that answers", packaging_run, alone=True),
        Row("e2e-methods", "HEAD, 405 with Allow, odd methods", methods),
        Row("US-06-content-type", "content type", content_type),
        Row("US-08-gzip", "gzip only where it is asked for", compression),
        Row("PE-24-label-names", "names and labels", label_names),
        Row("e2e-exact", "integers to 2^64-2 without rounding", exact_integers),
        Row("e2e-collect", "collect[] filters", filters),
        Row("SC-05-shared", "20 scrapes share a slow collection", shared_collection),
        Row("e2e-max-requests", "503 above the limit", too_many),
        Row("e2e-slow-clients", "slow clients hold up nobody", slow_client),
        Row("SY-01-long-request", "long and broken requests", long_request),
        Row("e2e-sigterm", "SIGTERM finishes the answer in flight", terminate_in_flight),
        Row("e2e-reload", "SIGHUP and POST reload, a bad file keeps the old", reload_config),
        Row("e2e-bad-flags", "bad flags: one line, exit 2", bad_flags),
        Row("e2e-bad-yaml", "bad configuration: one line, exit 2", bad_yaml),
        Row("e2e-examples", "the shipped configuration is accepted", examples),
        Row("e2e-histograms-native", "Prometheus reads native histograms by protobuf", lambda: native_histograms(["--enable-feature=native-histograms"])),
        Row("e2e-histograms-classic", "Prometheus reads the same histograms as text", lambda: native_histograms([])),
        Row("e2e-web-config", "TLS, client certificates, users, reload, guesses", web_config),
        Row("e2e-bad-web-config", "bad web configuration: one line, exit 2", bad_web_config),
        Row("e2e-port-in-use", "port in use: one line, exit 2", port_in_use),
        Row("e2e-unreadable", "unreadable tree: one line, exit 2", unreadable_tree),
        Row("e2e-no-ipv6", "starts without IPv6", no_ipv6),
        Row("e2e-both-families", "several addresses", both_families),
        Row("HF-10-MS-08-touches-nothing", "no program, device file or device ioctl", touches_nothing),
        Row("e2e-lsmod", "scrapes of this host load no module", lsmod_same),
        Row("e2e-prometheus", "Prometheus scrapes two exporters for 20 s", lambda: prometheus(20), alone=True),
    ]
