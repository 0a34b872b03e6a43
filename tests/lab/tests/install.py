# SPDX-License-Identifier: Apache-2.0
"""The Debian packages as an operator has them: installed without a network on machines with systemd and RDMA devices, run by
the units as they are shipped, scraped with TLS and a password, upgraded and purged."""
import base64
import concurrent.futures
import hashlib
import io
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request

import core
import package
from core import inside, lab, until
from e2e import HASH
from harness import BUILD, ROOT, Failed, Row, command, expect
from page import Page, Pattern

sys.path.append(os.path.join(ROOT, "tests", "lab"))
from labkit import probes as trust  # noqa: E402

FOLDER = os.path.join(BUILD, "tests", "lab-install")
NODES = (1, 2)
PORTS = {"roce-exporter": 14791, "roce-prober": 14792}
PASSWORD = "alice:secret"

WEB = f"""tls_server_config:
  cert_file: node.crt
  key_file: node.key
basic_auth_users:
  alice: {HASH}
"""
PROBER = """node_name: node{node}
devices: [rxe0]
web: {{config_file: /etc/roce_prober/web.yml}}
keys_file: /etc/roce_prober/keys.yml
probes: {{deadline: 2s}}
exchange:
  ca_file: /etc/roce_prober/ca.crt
  cert_file: /etc/roce_prober/node.crt
  key_file: /etc/roce_prober/node.key
  port: 14794
  listen_addresses: [":14794"]
  web_config_file: /etc/roce_prober/exchange.yml
peers:
  static:
    - {{node: node1, target: node1, address: 10.77.0.1}}
    - {{node: node2, target: node2, address: 10.77.0.2}}
"""
EXCHANGE = """tls_server_config:
  cert_file: node.crt
  key_file: node.key
  client_ca_file: ca.crt
  client_auth_type: RequireAndVerifyClientCert
"""
KEYS = """keys:
  - {id: 1, secret_file: probe-key, not_after: 2040-01-01}
"""


def send(node, folder, files):
    """Files into a folder of the machine, without a network: {name: bytes}."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o640
            tar.addfile(info, io.BytesIO(data))
    done = subprocess.run([core.PROGRAM, "exec", "-i", str(node), f"mkdir -p {folder} && tar -C {folder} --no-same-owner -xf -"], input=packed.getvalue(),
                          capture_output=True, env=core.ENV, timeout=300, check=False)
    expect(done.returncode == 0, f"{folder}: {done.stderr.decode(errors='replace')}")


def content(path):
    with open(path, "rb") as f:
        return f.read()


def on_both(what):
    """For both machines at once, since each is slow and waits a lot."""
    with concurrent.futures.ThreadPoolExecutor(len(NODES)) as pool:
        return list(pool.map(what, NODES))


def answer(node, port, credentials=PASSWORD, path="/metrics", timeout=30):
    """(status, text) over TLS with the checked certificate of that machine; status 0 where no answer came."""
    url = lab("url", node, port).strip().replace("http:", "https:")
    context = ssl.create_default_context(cafile=os.path.join(FOLDER, "trust", "ca.crt"))
    headers = {"Authorization": "Basic " + base64.b64encode(credentials.encode()).decode()} if credentials else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=timeout, context=context) as got:
            return got.status, got.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError as error:
        return 0, str(error)


def page(node, port):
    status, text = answer(node, port)
    expect(status == 200, f"node{node}:{port}: {status} {text}")
    return Page(text)


# ---- rows ----

def up(kernel):
    """Machines without the lab's own programs, and what will be sent to them."""
    core._urls.clear()
    lab("down", check=False)
    package.built()
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="roce-no-programs-") as nothing:
        lab("up", "--nodes", 2, "--kernel", kernel, "--rnic", 1, "--bin", nothing, "--no-exporter", timeout=2400)
    trust.make(pathlib.Path(FOLDER, "trust"), 2)
    for node in NODES:
        # The lab has users and units of these names for its own programs.
        inside(node, "rm -f /etc/systemd/system/roce-*.service /etc/systemd/system/*.wants/roce-*; userdel roce-exporter; userdel roce-prober;"
                     " systemctl daemon-reload; ip route | grep -q default && ip route del default; true")
        expect(inside(node, "systemctl is-system-running || true").strip() in ("running", "degraded"), "no systemd")
    return json.loads(lab("status", "--format", "json"))["nodes"][0]["kernel"]


def install():
    """dpkg -i, nothing else: both services run by the units of the packages, byte for byte, each as its user."""
    shipped = {}
    for name in PORTS:
        with tempfile.TemporaryDirectory(prefix="roce-deb-") as top:
            command("dpkg-deb", "-x", package.built()[name], top)
            shipped[name] = hashlib.sha256(content(f"{top}/lib/systemd/system/{name}.service")).hexdigest()

    def on(node):
        send(node, "/run/packages", {f"{name}.deb": content(package.built()[name]) for name in PORTS})
        said = inside(node, """
            set -e
            DEBIAN_FRONTEND=noninteractive dpkg -i /run/packages/*.deb >&2
            for unit in roce-exporter roce-prober; do
              systemctl show -p FragmentPath,DropInPaths,UnitFileState,ActiveState,User --value $unit | xargs -d '\\n' echo
              sha256sum </lib/systemd/system/$unit.service
              pid=$(systemctl show -P MainPID $unit)
              echo "$(stat -c %U /proc/$pid) $(sed -n 's/^Cap....*:.//p' /proc/$pid/status | sort -u)"
            done""", 400).splitlines()
        for name, lines in zip(PORTS, (said[:3], said[3:])):
            expect(set(lines[0].split()) == {f"/lib/systemd/system/{name}.service", "enabled", "active", name}, f"node{node}: {lines[0]}")
            expect(lines[1].split()[0] == shipped[name], f"{name}.service is not the shipped one")
            expect(lines[2] == f"{name} {'0' * 16}", f"user and capabilities: {lines[2]}")
    on_both(on)


def secured():
    """With web configuration, keys and peers, as the examples say: TLS and a password, or no answer."""
    def on(node):
        trusted = {name.replace(f"node{node}", "node"): content(os.path.join(FOLDER, "trust", name)) for name in (f"node{node}.crt", f"node{node}.key", "ca.crt", "probe-key")}
        send(node, "/etc/roce_prober", {**trusted, "web.yml": WEB.encode(), "roce_prober.yml": PROBER.format(node=node).encode(), "exchange.yml": EXCHANGE.encode(), "keys.yml": KEYS.encode()})
        send(node, "/etc/roce_exporter", {"web.yml": WEB.encode(), **{k: v for k, v in trusted.items() if k.startswith("node")}})
        inside(node, """
            set -e
            sed -i 's|^  #config_file: /etc/roce_exporter/web.yml$|  config_file: /etc/roce_exporter/web.yml|' /etc/roce_exporter/roce_exporter.yml
            for program in exporter prober; do
              chgrp roce-$program /etc/roce_$program/*
              runuser -u roce-$program -- roce_$program check-config /etc/roce_$program/roce_$program.yml
            done
            systemctl restart roce-exporter roce-prober""", 400)
        for name, port in PORTS.items():
            until(f"{name} of node{node} answers", lambda: answer(node, port)[0] == 200, 90)
            expect(answer(node, port, None)[0] == 401, "no password")
            expect(answer(node, port, "alice:guess")[0] == 401, "a wrong password")
            try:
                with urllib.request.urlopen(lab("url", node, port).strip() + "/metrics", timeout=15) as got:
                    raise Failed(f"plain HTTP is answered: {got.status}")
            except OSError:
                pass
    on_both(on)


def collectors():
    """What needs no more than the unit gives works, on every device; what needs more says so, and is in the table of units.md."""
    remarks = []
    for node in NODES:
        def good(n=node):
            p = page(n, 14791)
            bad = [str(s) for s in p.find(Pattern("roce_collector_success")) if s.value != "1"]
            expect(not bad, f"{bad}")
            return p
        p = until(f"all collectors of node{node} succeed", good, 90)
        works = {s.labels["collector"] for s in p.find(Pattern("roce_collector_success"))}
        expect({"rdma_port", "hw_counters", "ethtool", "dcb", "pcie", "processes", "qp", "nvme" if node == 1 else "nvmet"} <= works, f"{sorted(works)}")
        expect(len(p.find(Pattern("roce_port_state"))) == 2, "devices")
        remarks.append(f"node{node}: {len(works)} collectors, {len(p.series)} series")
    return "; ".join(remarks)


def peers():
    """Each prober is answered by the other, over the fabric, from within its sandbox."""
    for node, other in ((1, "node2"), (2, "node1")):
        def answered(n=node, o=other):
            found = [s for s in page(n, 14792).find(Pattern("roce_probe_rtt_seconds_count")) if s.labels.get("peer", "").startswith(o) or s.labels.get("peer_node") == o]
            return sum(float(s.value) for s in found) >= 10
        until(f"node{node} is answered by {other}", answered, 120)
    states = {s.labels["state"] for s in page(1, 14792).find(Pattern("roce_probe_peer_state")) if s.value == "1"}
    expect(states & {"ok", "lossy", "degraded"} and not states & {"down", "unresolved"}, f"{states}")
    return f"{sorted(states)}"


def security():
    """As systemd sees the running units."""
    remarks = []
    for name, limit in package.LIMITS.items():
        said = inside(1, f"systemd-analyze security --no-pager {name}.service")
        level = float(re.search(r"exposure level for \S+: ([0-9.]+)", said).group(1))
        expect(level * 10 <= limit, f"{name}: {level}")
        said = inside(1, f"systemd-analyze verify --man=no {name}.service 2>&1").strip()
        expect(not said, said)
        remarks.append(f"{name} {level}")
    return ", ".join(remarks)


def killed():
    """kill -9 of both: systemd starts them anew, and they go on."""
    for name, port in PORTS.items():
        inside(1, f"kill -9 $(systemctl show -P MainPID {name})")
        until(f"{name} is back", lambda p=port: answer(1, p)[0] == 200, 60)
        expect(inside(1, f"systemctl show -P NRestarts {name}").strip() == "1", f"{name}: restarts")
    peers()


def memory():
    """After all this, and 200 scrapes by four clients, each is far below its MemoryMax; nothing was killed for it."""
    inside(1, "for c in 1 2 3 4; do for i in $(seq 50); do curl -sk -o /dev/null -u " + PASSWORD + " https://127.0.0.1:14791/metrics; done & done; wait", 300)
    remarks = []
    for name in PORTS:
        group = f"/sys/fs/cgroup/system.slice/{name}.service"
        peak, most = (int(x) for x in inside(1, f"cat {group}/memory.peak {group}/memory.max").split())
        expect(most == 256 << 20 and peak < most / 2, f"{name}: {peak} of {most} bytes")
        expect("oom_kill 0" in inside(1, f"cat {group}/memory.events"), f"{name}: killed for its memory")
        remarks.append(f"{name} {peak / (1 << 20):.0f} MiB")
    return ", ".join(remarks)


def upgrade():
    """A later version: configuration and keys stay, services are started anew, peers are answered again."""
    with tempfile.TemporaryDirectory(prefix="roce-later-") as folder:
        package.repacked(folder, "99.0")

        def on(node):
            send(node, "/run/later", {f"{name}.deb": content(os.path.join(folder, f"{name}_99.0.deb")) for name in PORTS})
            before = inside(node, "systemctl show -P MainPID roce-exporter roce-prober").split()
            said = inside(node, "DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /run/later/*.deb >&2 && dpkg-query -W -f '${Version} ' roce-exporter roce-prober"
                                " && systemctl show -P MainPID roce-exporter roce-prober", 400).split()
            expect(said[:2] == ["99.0", "99.0"], f"versions {said}")
            expect(not set(before) & set(said[2:]), "the old program runs on")
            for name, port in PORTS.items():
                until(f"{name} of node{node} answers", lambda: answer(node, port)[0] == 200, 90)
                expect(answer(node, port, None)[0] == 401, f"{name} lost its users")
        on_both(on)
    peers()


def purge():
    """Nothing of it is left but the keys and certificates that the operator laid there."""
    def on(node):
        laid = set(inside(node, "cd /etc && ls -d roce_*/*").split())
        left = inside(node, """
            DEBIAN_FRONTEND=noninteractive dpkg -P roce-exporter roce-prober >&2 || exit
            ls -d /usr/bin/roce_* /lib/systemd/system/roce-* /etc/systemd/system/*/roce-* /etc/default/roce-* /var/lib/roce_* /run/roce_* /usr/share/doc/roce-* 2>&-
            systemctl list-units --all --plain --no-legend 'roce-*'
            pgrep -l roce_
            true""", 400).split()
        expect(not left, f"left: {left}")
        kept = set(inside(node, "cd /etc && ls -d roce_*/*").split())
        expect(kept == laid - {"roce_exporter/roce_exporter.yml", "roce_prober/roce_prober.yml"}, f"of {laid} there is {kept}")
        for port in PORTS.values():
            expect(answer(node, port, timeout=5)[0] == 0, f"port {port} answers")
    on_both(on)


def down():
    lab("down")


def rows(tag):
    table = [("install", "dpkg -i offline: the shipped units run", install), ("secured", "TLS and users, keys and peers", secured),
             ("collectors", "every collector that needs no more succeeds", collectors), ("peers", "each prober is answered by the other", peers),
             ("security", "exposure of the running units", security), ("killed", "kill -9", killed), ("memory", "memory below its limit", memory),
             ("upgrade", "a later version", upgrade), ("purge", "nothing is left", purge)]
    return [Row(f"{tag}-{name}", what, run, full_only=True, alone=True) for name, what, run in table]
