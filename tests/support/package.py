# SPDX-License-Identifier: Apache-2.0
"""What is shipped: units, packages, manual pages, and how packages come, change and go."""
import glob
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import builds
import exporter
import sources
from harness import BUILD, ROOT, Failed, Row, command, expect

PACKAGING = os.path.join(ROOT, "packaging")
# Exposure by systemd-analyze security, times ten.
LIMITS = {"roce-exporter": 17, "roce-prober": 19}


def unit_text(name):
    text = sources.read(f"packaging/systemd/{name}.service.in")
    return text.replace("@ROCE_DEFAULTS_DIR@", "/etc/default").replace("@CMAKE_INSTALL_FULL_BINDIR@", "/usr/bin")


def exposure(text):
    with tempfile.TemporaryDirectory(prefix="roce-unit-") as folder:
        unit = os.path.join(folder, "tested.service")
        with open(unit, "w", encoding="utf-8") as f:
            f.write(text)
        said = command("systemd-analyze", "security", "--offline=yes", "--no-pager", unit).stdout
        found = re.search(r"exposure level for tested.service: ([0-9.]+)", said)
        expect(found, said)
        return float(found.group(1))


def units():
    """Own users, no root, no capability, and the limits of exposure; a line less is seen."""
    remarks = []
    for name, limit in LIMITS.items():
        text = unit_text(name)
        level = exposure(text)
        expect(level * 10 <= limit, f"{name}: {level}")
        expect(exposure(text.replace("CapabilityBoundingSet=\n", "")) * 10 > limit, f"{name}: the limit would let every capability pass")
        for line in (f"User={name}", "CapabilityBoundingSet=", "AmbientCapabilities=", "NoNewPrivileges=yes", "Type=notify", "WatchdogSec=30s", "MemoryMax=256M"):
            expect(f"\n{line}\n" in text, f"{name} has no line {line}")
        # ExecStart=+ or !, PermissionsStartOnly and the like run something as root.
        expect(not re.search(r"^Exec\w+=[-@:]*[+!]", text, re.M), f"{name} runs something with full privileges")
        remarks.append(f"{name} {level}")
    prober, reader = unit_text("roce-prober"), unit_text("roce-exporter")
    expect("DeviceAllow=char-infiniband_verbs rw" in prober and "DeviceAllow" not in reader and "PrivateDevices=yes" in reader, "devices: the prober's alone")
    expect("LimitMEMLOCK=16M" in prober and "PartOf=openibd.service" in prober and "RuntimeDirectory=roce_exporter" in reader, "what the programs stand on")
    return ", ".join(remarks)


def drop_ins():
    """The table is made of the drop-ins; each gives one capability and no root, and adds metrics that there are."""
    command(os.path.join(PACKAGING, "systemd", "table"), "--check")
    names = {m["name"] for m in json.loads(exporter.call("metrics-reference", "--format=json")[1])["metrics"]}
    for path in sorted(glob.glob(os.path.join(PACKAGING, "systemd", "drop-ins", "*.conf"))):
        text = sources.read(os.path.relpath(path, ROOT))
        added = re.findall(r"roce_\w+", re.search(r"# Adds: (.*(?:\n#   .*)*)", text).group(1))
        expect(added and set(added) <= names, f"{path}: {sorted(set(added) - names)}")
        capabilities = re.findall(r"^(?:AmbientCapabilities|CapabilityBoundingSet)=(.*)$", text, re.M)
        expect(len(capabilities) == 2 and len(set(capabilities)) == 1 and re.fullmatch(r"CAP_\w+", capabilities[0]), f"{path}: {capabilities}")
        # Capabilities of a user namespace are none to the kernel's files.
        expect("PrivateUsers=no" in text and not re.search(r"^(User|Exec)", text, re.M), path)
        body = unit_text("roce-exporter").replace("[Install]", re.sub(r"(?m)^(#.*|\[Service\])\n", "", text) + "\n[Install]")
        expect(exposure(body) <= 2.5, f"{path}: exposure {exposure(body)}")


class Manager:
    """What systemd is to a service: a socket for its messages."""

    def __init__(self, watchdog):
        self.folder = tempfile.mkdtemp(prefix="roce-notify-")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(self.folder, "notify"))
        self.env = dict(os.environ, NOTIFY_SOCKET=os.path.join(self.folder, "notify"))
        if watchdog:
            self.env["WATCHDOG_USEC"] = str(int(watchdog * 1e6))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        shutil.rmtree(self.folder)

    def next(self, seconds):
        ready, _, _ = select.select([self.socket], [], [], seconds)
        return self.socket.recv(4096).decode() if ready else None

    def until(self, text, seconds=20):
        """All messages until this one."""
        seen, deadline = [], time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self.next(deadline - time.monotonic())
            if message is not None:
                seen.append(message)
            if message == text:
                return seen
        raise Failed(f"no {text} within {seconds} s; there were {seen}")


def notify():
    """Ready when it serves, signs of life at least twice as often as asked for, reloading and stopping; no sign of life
    when the loop stands still."""
    for name in ("roce_exporter", "roce_prober"):
        program = os.path.join(os.path.dirname(exporter.binary()), name)
        with tempfile.TemporaryDirectory(prefix="roce-notify-sys-") as tree, Manager(watchdog=3) as manager:
            port = exporter.free_port()
            arguments = [program, f"--web.listen-address=127.0.0.1:{port}"]
            arguments += [f"--path.sysfs={tree}", "--control.socket=off"] if name == "roce_exporter" else []
            with subprocess.Popen(arguments, env=manager.env, stderr=subprocess.DEVNULL) as process:
                try:
                    manager.until("READY=1")
                    with socket.create_connection(("127.0.0.1", port), 5):
                        pass
                    begin = time.monotonic()
                    for _ in range(3):
                        expect(manager.next(1.5) == "WATCHDOG=1", f"{name}: no sign of life in half of the limit")
                    expect(time.monotonic() - begin > 0.9, f"{name}: signs of life without a pause")
                    process.send_signal(signal.SIGHUP)
                    manager.until("RELOADING=1")
                    manager.until("READY=1")
                    process.send_signal(signal.SIGSTOP)
                    while manager.next(0) is not None:
                        pass
                    expect(manager.next(2) is None, f"{name}: a sign of life from a stopped process")
                    process.send_signal(signal.SIGCONT)
                    process.send_signal(signal.SIGTERM)
                    manager.until("STOPPING=1")
                    expect(process.wait(20) == 0, f"{name}: exit code {process.returncode}")
                finally:
                    process.kill()
        with tempfile.TemporaryDirectory(prefix="roce-notify-sys-") as tree, Manager(watchdog=None) as manager:
            arguments = [program, "--web.listen-address=127.0.0.1:0"] + ([f"--path.sysfs={tree}", "--control.socket=off"] if name == "roce_exporter" else [])
            with subprocess.Popen(arguments, env=manager.env, stderr=subprocess.DEVNULL) as process:
                try:
                    manager.until("READY=1")
                    expect(manager.next(2) is None, f"{name}: signs of life that nobody asked for")
                finally:
                    process.terminate()


def installed_by_hand():
    """cmake --install: programs, units, examples and documents below one prefix, and nothing elsewhere."""
    builds.build("release")
    with tempfile.TemporaryDirectory(prefix="roce-install-") as top:
        command("cmake", "--install", os.path.join(BUILD, "release"), "--prefix", top)
        for path in ("bin/roce_exporter", "bin/roce_prober", "lib/systemd/system/roce-exporter.service", "lib/roce_exporter/roce-slurm-health",
                     "share/doc/roce-exporter/examples/roce_exporter.yml", "share/doc/roce-prober/examples/roce_prober.yml",
                     "share/roce_exporter/alerts/rules/link.yml", "share/man/man1/roce_exporter.1"):
            expect(os.path.exists(os.path.join(top, path)), f"no {path}")


def locked_memory():
    """In a pod, too low a limit is refused with the name of what sets it; elsewhere it is warned of. A soft limit is raised."""
    program = os.path.join(os.path.dirname(exporter.binary()), "roce_prober")
    pod = {**os.environ, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    low = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory(prefix="roce-memlock-") as folder:
        os.chmod(folder, 0o755)
        # Where every user may run it.
        shutil.copy(program, os.path.join(folder, "roce_prober"))
        program = os.path.join(folder, "roce_prober")

        def start(limit, env):
            with subprocess.Popen(["prlimit", f"--memlock={limit}", *low, program, "--web.listen-address=127.0.0.1:0"], env=env, stderr=subprocess.PIPE, text=True) as process:
                lines = []
                for line in process.stderr:
                    lines.append(line)
                    if "serving" in line:
                        process.terminate()
                return process.wait(30), "".join(lines)
        code, said = start("65536:65536", pod)
        expect(code == 2 and "64 KiB" in said and "LimitMEMLOCK" in said and "containerd" in said and len(said.splitlines()) == 1, f"{code} {said}")
        code, said = start("65536:65536", dict(os.environ))
        expect(code == 0 and "RLIMIT_MEMLOCK" in said and "serving" in said, f"{code} {said}")
        # More than this process's own may be out of reach, even of root.
        most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        code, said = start(f"65536:{'unlimited' if most == resource.RLIM_INFINITY else most}", pod)
        if most == resource.RLIM_INFINITY or most >= 16 << 20:
            expect(code == 0 and "memory" not in said and "serving" in said, f"{most}: {code} {said}")
        else:
            expect(code == 2 and f"is {most // 1024} KiB" in said, f"the soft limit was not raised to {most}: {code} {said}")


def rows():
    return [Row("package-units", "systemd units: users, sandbox, limits of exposure", units),
            Row("package-drop-ins", "drop-ins: the table, one capability each, metrics that there are", drop_ins),
            Row("package-notify", "readiness, signs of life, reloading, stopping", notify),
            Row("package-install", "cmake --install", installed_by_hand),
            Row("package-memlock", "the prober's limit of locked memory", locked_memory)]
