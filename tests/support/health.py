# SPDX-License-Identifier: Apache-2.0
"""`check` from outside: exit codes, the control socket, profiles, and what schedulers and monitors make of it."""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

import cases
import exporter
import golden
import trees
from exporter import Server, call
from harness import ROOT, Row, expect

INTEGRATIONS = os.path.join(ROOT, "packaging", "integrations")
STORAGE_DOWN = "devices:\n  - {device: mlx5_0, role: storage}\n"


class Host:
    """A made tree with `n` devices, a folder for the socket and the state, and a profile."""

    def __init__(self, n=1):
        self.n = n

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="roce-health-")
        trees.make(self.top, self.n)
        for d in ("run", "state"):
            os.makedirs(self.path(d))
        self.source = [f"--path.sysfs={self.top}/sys", f"--path.procfs={self.top}/proc"]
        for i in range(self.n):
            gid = self.port(i) + "/gids/0"
            trees.write(gid, "0000:0000:0000:0000:0000:ffff:c000:02%02x" % (i + 1))
            trees.write(self.port(i) + "/gid_attrs/types/0", "RoCE v2")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def path(self, name):
        return os.path.join(self.top, name)

    def port(self, i=0):
        return os.path.join(self.top, "sys", "class", "infiniband", f"mlx5_{i}", "ports", "1")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def down(self, i=0, down=True):
        trees.write(self.port(i) + "/state", "1: DOWN" if down else "4: ACTIVE")

    def socket(self):
        return self.path("run/control.sock")

    def server(self, *more):
        return Server([*self.source, f"--control.socket={self.socket()}", f"--state.dir={self.path('state')}", *more])

    def check(self, *more, window="1s"):
        return call("check", "--no-daemon", f"--window={window}", *self.source, *more)

    def ask(self, *more):
        """check through the socket."""
        return call("check", f"--control.socket={self.socket()}", "--window=1s", *more)


def parsed(out):
    d = json.loads(out)
    expect({"status", "findings", "sources"} <= set(d), f"keys {sorted(d)}")
    for f in d["findings"]:
        expect({"id", "class", "severity", "object", "summary", "found", "expected", "since", "next_step", "runbook"} <= set(f), f"finding {f}")
        expect(f["class"] in ("fault", "drift", "capacity", "unknown"), f["class"])
        expect(not (f["class"] == "drift" and f["severity"] == "critical"), f"critical drift: {f}")
        document, anchor = f["runbook"].split("#")
        with open(os.path.join(ROOT, document), encoding="utf-8") as doc:
            expect(f"\n## {anchor}\n" in doc.read(), f"no such runbook: {f['runbook']}")
    return d


def exit_codes():
    with Host() as h:
        for fmt in ("text", "json", "nagios", "npd", "tsv"):
            code, out, err = h.check(f"--format={fmt}")
            expect(code == 0 and not err, f"{fmt}, well: {code} {out} {err}")
        h.down()
        profile = h.write("p.yml", STORAGE_DOWN)
        for fmt, want in (("text", 2), ("json", 2), ("nagios", 2), ("npd", 1), ("tsv", 2)):
            code, out, err = h.check(f"--format={fmt}", f"--profile.file={profile}")
            expect(code == want and "port-down" in out, f"{fmt}, down: {code} {out} {err}")
        code, out, _ = h.check("--format=json", f"--profile.file={profile}")
        expect(parsed(out)["findings"][0]["severity"] == "critical", out)
        h.down(down=False)
        profile = h.write("p.yml", "devices:\n  - {device: mlx5_0, rate: 10000}\n")
        for fmt, want in (("text", 1), ("nagios", 1), ("npd", 0)):
            code, out, _ = h.check(f"--format={fmt}", f"--profile.file={profile}")
            expect(code == want, f"{fmt}, warning: {code} {out}")
        trees.write(h.port() + "/state", "garbled")
        for words in ([], ["--only=port-down"], ["--class=fault"], ["--device=mlx5_0", "--only=port-down", "--class=drift"]):
            code, out, err = h.check(*words)
            expect(code == 3 and "source-failing" in out, f"no state to judge by, {words}: {code} {out} {err}")


def mistakes():
    """Bad flags, configuration or profile: 3 from check and one line, 2 elsewhere."""
    with Host() as h:
        bad_profile = h.write("p.yml", "devices:\n  - device: a\n    rat: 1\n")
        bad_config = h.write("c.yml", "web:\n  nothing: 1\n")
        for words in (["--no-such-flag"], ["--format=xml"], ["--format"], ["--window=0s"], ["--window=2"], ["--only=no-such-check"], ["--class=error"], ["--log.level=x"],
                      ["extra"], ["--device=mlx5_O"], [f"--config.file={bad_config}"], ["--profile.file=/no/such/file"], [f"--profile.file={bad_profile}"], ["--format=text", "--format=json"]):
            code, out, err = h.check(*words)
            expect(code == 3 and len(err.strip().splitlines()) == 1 and not out, f"check {words}: {code} {out} {err}")
        code, _, err = h.check("--device=mlx5_O")
        expect("mlx5_O" in err and "mlx5_0" in err, f"what was not found, and what may have been meant: {err}")
        code, _, err = call("--log.level=info", "check", "--no-such-flag")
        expect(code == 3, f"flags before the command: {code} {err}")
        for command in (["print"], ["--web.listen-address=127.0.0.1:0"]):
            code, _, err = call(*command, *h.source, f"--profile.file={bad_profile}")
            expect(code == 2 and re.search(r"p\.yml:3: key `devices\[0\]\.rat`: found .* allowed ", err) and len(err.strip().splitlines()) == 1, f"{command}: {code} {err}")
        code, _, err = call("check-config", bad_profile)
        expect(code == 2 and "p.yml:3:" in err, f"check-config: {code} {err}")
        code, out, err = call("check-config", os.path.join(ROOT, "packaging", "config", "profile.yml"))
        expect(code == 0 and "ok" in out, f"the example: {code} {err}")
        code, out, err = call("print", "--format=json", *h.source)
        expect(code == 2 and "check --format" in err, f"--format outside: {code} {err}")


def by_socket():
    """The running exporter's verdict, over a socket that its group may use, in well under a second for 16 devices."""
    with Host(16) as h, h.server() as s:
        info = os.stat(h.socket())
        expect(stat.S_ISSOCK(info.st_mode) and stat.S_IMODE(info.st_mode) == 0o660, oct(info.st_mode))
        s.page()
        time.sleep(exporter.SHARED_SECONDS + 0.1)
        s.page()
        h.ask("--format=json")
        best = 9.0
        for _ in range(5):
            start = time.monotonic()
            code, out, err = h.ask("--format=json")
            best = min(best, time.monotonic() - start)
            expect(code == 0 and not err, f"{code} {out} {err}")
        verdict = parsed(out)
        expect(verdict["devices"] == 16, f"{verdict['devices']} devices")
        expect(best < 0.2, f"{best:.3f} s")
        h.down(3)
        profile = h.write("p.yml", "devices:\n  - {device: mlx5_3, role: storage}\n")
        code, out, _ = h.check("--format=json", f"--profile.file={profile}")
        expect(code == 2, "a profile on the command line is judged here")
        return f"{best * 1000:.0f} ms"


def socket_robust():
    """Clients that send nothing, garbage or too much hold up nobody; a left-over socket is replaced."""
    with Host() as h:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(h.socket())
        with h.server() as s:
            idle = []
            for _ in range(6):
                c = socket.socket(socket.AF_UNIX)
                c.connect(h.socket())
                idle.append(c)
            for garbage in (b"\x00\xff\n", b"check\x00\n", b"drop all\n", b"x" * 100000, b"\n"):
                with socket.socket(socket.AF_UNIX) as c:
                    c.settimeout(15)
                    c.connect(h.socket())
                    try:
                        c.sendall(garbage)
                        c.shutdown(socket.SHUT_WR)
                        answer = c.recv(4096)
                    except (BrokenPipeError, ConnectionResetError):
                        answer = b""
                    expect(not answer.startswith(b"ok"), f"{garbage[:10]!r}: {answer[:80]!r}")
            code, out, err = h.ask()
            expect(code == 0 and "note:" not in out, f"{code} {out} {err}")
            for c in idle:
                c.close()
            expect(s.get("/-/healthy").status == 200, "alive")
        expect(not os.path.exists(h.socket()), "the socket stays after the program")
        code, out, _ = call("check", f"--control.socket={h.socket()}", "--window=1s")
        expect("no running exporter answers" in out.replace("\n      ", " "), out)


def no_directory():
    """Without the socket's directory the program serves and says so once."""
    with Host() as h, Server([*h.source, f"--control.socket={h.path('none')}/c.sock"]) as s:
        expect(s.get("/metrics").status == 200, "no page")
        said = [l for l in s.log().splitlines() if "no control socket" in l]
        expect(len(said) == 1 and "level=info" in said[0], s.log())


def movement():
    """What counters did between two scrapes is in /health, on / and in check; and is gone when they stand."""
    with Host() as h, h.server() as s:
        s.page()
        counter = h.port() + "/hw_counters/out_of_buffer"
        trees.write(counter, str(int(open(counter, encoding="utf-8").read()) + 50))
        time.sleep(exporter.SHARED_SECONDS + 0.2)
        page = s.page()
        verdict = parsed(s.get("/health").body)
        expect([f["id"] for f in verdict["findings"]] == ["receiver-not-ready"], verdict["findings"])
        expect(verdict["findings"][0]["object"] == "mlx5_0/1" and verdict["findings"][0]["found"].startswith("50 "), verdict["findings"])
        expect(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", verdict["findings"][0]["since"]), verdict["findings"])
        expect([x.value for x in page.series if x.name == "roce_health_findings" and x.labels == {"class": "fault", "severity": "warning"}] == ["1"], "metric")
        code, out, _ = h.ask("--format=json")
        expect(code == 1 and parsed(out)["findings"][0]["id"] == "receiver-not-ready", out)
        expect(b"receiver-not-ready" in s.get("/").body, "the page says nothing")
        # the same height is no finding for one who begins now
        code, out, _ = h.check()
        expect(code == 0, f"a counter's height alone: {out}")


def state_survives():
    """`since` stays over a restart; a broken or full state folder is said once and no harm."""
    with Host() as h:
        h.down()
        profile = h.write("p.yml", STORAGE_DOWN)
        with h.server(f"--profile.file={profile}") as s:
            s.page()
            first = parsed(s.get("/health").body)["findings"][0]["since"]
            deadline = time.monotonic() + 10
            while not os.path.exists(h.path("state/findings.json")) and time.monotonic() < deadline:
                time.sleep(0.05)
        time.sleep(1.2)
        with h.server(f"--profile.file={profile}") as s:
            again = parsed(s.get("/health").body)["findings"][0]["since"]
            expect(first == again, f"{first} then {again}")
            expect(s.get("/health").status == 503, "critical is not 503")
        h.write("state/findings.json", "{broken")
        with h.server(f"--profile.file={profile}") as s:
            parsed(s.get("/health").body)
            said = [l for l in s.log().splitlines() if "findings of earlier runs" in l]
            expect(len(said) == 1, s.log())
        # A full disk: every write fails there.
        os.remove(h.path("state/findings.json"))
        os.symlink("/dev/full", h.path("state/findings.json.new"))
        with h.server(f"--profile.file={profile}") as s:
            for _ in range(3):
                h.down(down=False)
                time.sleep(exporter.SHARED_SECONDS + 0.1)
                parsed(s.get("/health").body)
                h.down()
                time.sleep(exporter.SHARED_SECONDS + 0.1)
                parsed(s.get("/health").body)
            said = [l for l in s.log().splitlines() if "findings cannot be kept" in l]
            expect(len(said) == 1, s.log())


def reload_profile():
    """A bad profile at a reload: the old one stays, log and metric say so; then the good one is taken."""
    with Host() as h:
        profile = h.write("p.yml", "devices:\n  - {device: mlx5_0, rate: 10000}\n")

        def value(s, name, **labels):
            time.sleep(exporter.SHARED_SECONDS + 0.2)
            return [x.value for x in s.page().series if x.name == name and labels.items() <= x.labels.items()]
        with h.server(f"--profile.file={profile}") as s:
            expect(value(s, "roce_expectation_met", check="rate", object="mlx5_0/1") == ["0"], "not met")
            h.write("p.yml", "devices:\n  - {device: mlx5_0, rat: 1}\n")
            s.process.send_signal(signal.SIGHUP)
            expect(value(s, "roce_config_last_reload_successful") == ["0"], "the metric")
            expect(value(s, "roce_expectation_met", check="rate", object="mlx5_0/1") == ["0"], "the old profile is gone")
            expect([l for l in s.log().splitlines() if "profile not reloaded" in l and "p.yml:2:" in l], s.log())
            h.write("p.yml", "devices:\n  - {device: mlx5_0, rate: 1, role: management}\n")
            s.process.send_signal(signal.SIGHUP)
            expect(value(s, "roce_expectation_met", check="rate", object="mlx5_0/1") == ["1"], "the new profile")
            expect(value(s, "roce_config_last_reload_successful") == ["1"], "the metric, after")
            expect(value(s, "roce_device_role_info", role="management") == ["1"], "the role")


def written_profile():
    """profile init: what it writes is read and holds; what failed a check stands commented out, exit 1."""
    with Host(2) as h:
        code, out, err = call("profile", "init", "--window=1s", *h.source)
        expect(code == 2, f"--window is no flag of profile: {code} {err}")
        code, out, err = call("profile", "init", *h.source)
        expect(code == 0 and not err, f"{code} {err}\n{out}")
        expect(out.startswith(f"# Profile of the tree {h.top}/sys, "), f"the host that it names: {out.splitlines()[0]}")
        _, replayed, _ = call("profile", "init", f"--replay={h.top}")
        expect(replayed.startswith(f"# Profile of the recording {h.top}, "), f"the host that it names: {replayed.splitlines()[:1]}")
        profile = h.write("p.yml", out)
        code, out, err = h.check(f"--profile.file={profile}")
        expect(code == 0, f"{code} {out} {err}")
        # a port that was never cabled is not expected
        for n, v in (("carrier_up_count", "0"), ("carrier_changes", "1")):
            trees.write(h.path(f"sys/class/net/eth1/{n}"), v)
        trees.write(h.port(1) + "/counters/link_downed", "0")
        h.down(1)
        code, out, err = call("profile", "init", *h.source)
        expect(code == 0 and "# ports: none had a link yet" in out, f"{code} {err}\n{out}")
        profile = h.write("p.yml", out)
        code, out, err = h.check(f"--profile.file={profile}")
        expect(code == 0, f"{code} {out} {err}")
        h.down(1, down=False)
        trees.write(h.port(1) + "/rate", "50 Gb/sec (2X EDR)")
        code, out, err = call("profile", "init", *h.source)
        expect(code == 1 and re.search(r"# suspicious: rate-uneven: .*\n +#rate: 50", out), f"{code} {err}\n{out}")
        profile = h.write("p.yml", out)
        code, out, err = call("check-config", profile)
        expect(code == 0, err)


def profiles_of_cases():
    """Of whatever host: what profile init writes is a profile."""
    def write(case, tree):
        with golden.on_tree(case, tree, exporter.binary()) as (runner, source):
            code, out, err = call("profile", "init", *source)
            expect(code in (0, 1), f"{case.name}: {code} {err}")
            profile = f"{runner.top}/profile.yml"
            with open(profile, "w", encoding="utf-8") as f:
                f.write(out)
            code, _, err = call("check-config", profile)
            expect(code == 0, f"{case.name}: {err}\n{out}")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:  # each is a window of a second long
        written = [pool.submit(write, case, tree) for case in cases.all_cases() for tree in golden.trees(case)]
    for w in written:
        w.result()
    return f"{len(written)} profiles"


def slurm(scenario):
    """Runs the wrapper with a fake scontrol: (exit code, lines that scontrol was called with, what was said)."""
    log = os.path.join(scenario["top"], "scontrol.log")
    said = os.path.join(scenario["top"], "said")
    for f in (log, said):
        open(f, "w", encoding="utf-8").close()
    for name, body in (("scontrol", f'#!/bin/sh\nprintf "%s\\n" "$*" >>{log}\nexit {scenario.get("scontrol", 0)}\n'),
                       ("roce_exporter", f'#!/bin/sh\nprintf "{scenario.get("out", "")}"\nexit {scenario.get("code", 0)}\n'),
                       ("logger", f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>{said}\n")):
        path = os.path.join(scenario["top"], name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(body)
        os.chmod(path, 0o755)
    env = dict(os.environ, SCONTROL=os.path.join(scenario["top"], "scontrol"), ROCE_SLURM_STATE=os.path.join(scenario["top"], "state"), ROCE_SLURM_NODE="n1",
               ROCE_EXPORTER=scenario.get("program") or os.path.join(scenario["top"], "roce_exporter"), ROCE_CHECK_ARGS=scenario.get("args", ""),
               PATH=scenario["top"] + ":" + os.environ["PATH"])
    done = subprocess.run([os.path.join(INTEGRATIONS, "roce-slurm-health")], env=env, capture_output=True, text=True, timeout=60, check=False)
    with open(log, encoding="utf-8") as f, open(said, encoding="utf-8") as g:
        return done.returncode, f.read().splitlines(), done.stderr + g.read()


def slurm_drains():
    with tempfile.TemporaryDirectory(prefix="roce-slurm-") as top:
        fault = r"critical\tfault\tpause-storm\tmlx5_0/1 priority 3\tpaused 98 %% of the time\n"
        other = r"critical\tfault\tdevice-lost\tmlx5_1\tits PCI registers read as all ones\n"

        def run(out, code, **more):
            status, calls, said = slurm({"top": top, "out": out, "code": code, **more})
            expect(status == 0, f"exit {status}: {said}")
            return calls, said
        calls, said = run("", 0)
        expect(not calls, f"a well node: {calls}")
        for quiet in (r"warning\tfault\tgid-missing\tmlx5_0/1\tx\n", r"warning\tdrift\tmtu\tmlx5_0/1\tx\n", r"critical\tcapacity\tx\ty\tz\n", r"unknown\tunknown\tsource-failing\tx\ty\n"):
            calls, _ = run(quiet, 1)
            expect(not calls, f"{quiet}: {calls}")
        for code in (3, 127, 124, 139):
            calls, said = run(fault, code)
            expect(not calls and "no verdict" in said, f"exit {code}: {calls} {said}")
        calls, said = run(fault, 2, scontrol=1)
        expect(len(calls) == 1 and "could not drain" in said, f"scontrol fails: {calls} {said}")
        calls, _ = run(fault, 2)
        expect(calls == ["update NodeName=n1 State=DRAIN Reason=roce: pause-storm mlx5_0/1 priority 3: paused 98 % of the time"], calls)
        calls, _ = run(fault, 2)
        expect(not calls, f"the same finding again: {calls}")
        calls, _ = run("", 3)
        calls, _ = run(fault, 2)
        expect(not calls, f"after a run without a verdict: {calls}")
        calls, _ = run(fault + other, 2)
        expect(len(calls) == 1 and "device-lost mlx5_1" in calls[0], f"another finding: {calls}")
        calls, _ = run(other, 2)
        expect(not calls, f"the first is gone: {calls}")
        calls, _ = run(fault + other, 2)
        expect(len(calls) == 1 and "pause-storm" in calls[0], f"it came back: {calls}")


def sinks_with_a_broken_profile():
    """A mistake in the profile takes nothing out of service: Slurm, node-problem-detector, load balancer, Nagios."""
    with Host() as h:
        h.down()
        broken = h.write("p.yml", "devices: [\n")
        args = " ".join([f"--profile.file={broken}", "--no-daemon", "--window=1s", *h.source])
        status, calls, said = slurm({"top": h.top, "program": exporter.binary(), "args": args})
        expect(status == 0 and not calls and "no verdict" in said, f"slurm: {status} {calls} {said}")
        with open(os.path.join(INTEGRATIONS, "node-problem-detector", "roce-storage-links.json"), encoding="utf-8") as f:
            plugin = json.load(f)
        rule = plugin["rules"][0]
        code, out, _ = h.check(*rule["args"][1:], f"--profile.file={broken}")
        expect(code not in (0, 1), f"node-problem-detector takes {code} for a verdict: {out}")
        code, out, _ = h.check("--format=nagios", f"--profile.file={broken}")
        expect(code == 3, f"nagios: {code}")
        # the load balancer asks a program that keeps its old profile
        good = h.write("g.yml", "devices:\n  - {device: mlx5_0, role: compute}\n")
        with h.server(f"--profile.file={good}") as s:
            before = s.get("/health").status
            h.write("g.yml", "devices: [\n")
            s.process.send_signal(signal.SIGHUP)
            time.sleep(exporter.SHARED_SECONDS + 0.3)
            expect(s.get("/health").status == before == 200, f"{before} then {s.get('/health').status}")


def npd_plugin():
    """The shipped plugin: its command exists, answers within its length, and its exit codes are the plugin's."""
    with open(os.path.join(INTEGRATIONS, "node-problem-detector", "roce-storage-links.json"), encoding="utf-8") as f:
        plugin = json.load(f)
    conditions = {c["type"] for c in plugin["conditions"]}
    with Host() as h:
        for rule in plugin["rules"]:
            expect(rule["condition"] in conditions and os.path.basename(rule["path"]) == "roce_exporter", rule)
            code, out, _ = h.check(*rule["args"][1:])
            expect(code == 0 and len(out.strip()) <= plugin["pluginConfig"]["max_output_length"], f"{code} {out}")
            h.down()
            profile = h.write("p.yml", STORAGE_DOWN)
            code, out, _ = h.check(*rule["args"][1:], f"--profile.file={profile}")
            expect(code == 1 and len(out.strip()) <= plugin["pluginConfig"]["max_output_length"] and "port-down" in out, f"{code} {out}")
            profile = h.write("p.yml", "devices:\n  - {device: mlx5_0, role: compute, firmware: other}\n")
            code, out, _ = h.check(*rule["args"][1:], f"--profile.file={profile}")
            expect(code == 0, f"drift: {code} {out}")


def together():
    """Scrapes, checks and reloads at the same time."""
    with Host(2) as h:
        profile = h.write("p.yml", STORAGE_DOWN)
        with h.server(f"--profile.file={profile}") as s:
            failed = []

            def repeat(what):
                for _ in range(15):
                    try:
                        what()
                    except Exception as e:  # counted below
                        failed.append(repr(e))
            work = [lambda: s.page(), lambda: parsed(s.get("/health").body), lambda: parsed(h.ask("--format=json")[1]),
                    lambda: s.process.send_signal(signal.SIGHUP)]
            threads = [threading.Thread(target=repeat, args=(w,)) for w in work]
            for t in threads:
                t.start()
            for t in threads:
                t.join(120)
            expect(not failed, f"{failed[:5]}")


def rows():
    return [
        Row("health-exit-codes", "check: formats and exit codes", exit_codes),
        Row("health-mistakes", "bad flags, configuration or profile: 3 from check, 2 elsewhere", mistakes),
        Row("health-socket", "check asks the running exporter: mode, 16 devices, under 200 ms", by_socket, alone=True),
        Row("health-socket-robust", "odd clients of the control socket", socket_robust),
        Row("health-no-directory", "no directory for the socket", no_directory),
        Row("health-movement", "counters that move are findings, their height is none", movement),
        Row("health-state", "since stays over a restart; a broken or full folder is no harm", state_survives),
        Row("health-reload", "a bad profile at a reload keeps the old one", reload_profile),
        Row("health-init", "profile init writes what holds", written_profile),
        Row("health-init-cases", "profile init writes a profile of each case's host", profiles_of_cases),
        Row("health-slurm", "drains once for each critical fault, exits 0 always", slurm_drains),
        Row("health-npd", "node-problem-detector plugin", npd_plugin),
        Row("health-broken-profile", "a broken profile drains nothing", sinks_with_a_broken_profile),
        Row("health-together", "scrapes, checks and reloads at once", together),
    ]
