# SPDX-License-Identifier: Apache-2.0
"""What is measured: a program that answers one request after the other, its CPU time, its memory and its system calls."""
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
import urllib.request

import exporter

# Scrapes within a second share one collection: each has to be one of its own.
GAP_SECONDS = exporter.SHARED_SECONDS + 0.05


class MemoryGroup:
    """A memory cgroup of its own, where this system lets one be made: what the kernel keeps for a process is in no other
    number. `reason` says why there is none."""
    _made = 0

    def __init__(self):
        self.path, self.reason = None, ""
        v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        top = "/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/memory"
        MemoryGroup._made += 1
        path = f"{top}/roce-bench-{os.getpid()}-{MemoryGroup._made}"
        try:
            if v2:
                with open(f"{top}/cgroup.subtree_control", "w", encoding="ascii") as f:
                    f.write("+memory")
            os.mkdir(path)
        except OSError as e:
            self.reason = f"no memory cgroup: {e.strerror}"
            return
        self.path, self.v2 = path, v2

    def enter(self):
        if self.path:
            with open(f"{self.path}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(os.getpid()))

    def usage(self):
        """Bytes of all, and of those the kernel's own (descriptors, dentries, sockets, stacks)."""
        if not self.path:
            return {"cgroup_bytes": None, "cgroup_kernel_bytes": None, "cgroup_absent": self.reason}
        if not self.v2:
            return {"cgroup_bytes": self._number("memory.usage_in_bytes"), "cgroup_kernel_bytes": self._number("memory.kmem.usage_in_bytes")}
        with open(f"{self.path}/memory.stat", encoding="ascii") as f:
            stat = dict(line.split() for line in f)
        return {"cgroup_bytes": self._number("memory.current"), "cgroup_kernel_bytes": int(stat["kernel"]) if "kernel" in stat else None}

    def _number(self, name):
        with open(f"{self.path}/{name}", encoding="ascii") as f:
            return int(f.read())

    def remove(self):
        if not self.path:
            return
        for _ in range(50):  # the last process of it may still be on its way out
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


class Subject:
    def __init__(self, name, args, **popen):
        self.name, self.ended = name, 0.0
        self.group = MemoryGroup()
        self.process = subprocess.Popen(args, preexec_fn=self.group.enter, **popen)

    def once(self):
        """One request: (series, bytes) of the answer."""
        raise NotImplementedError

    def scrape(self):
        """The same as a scrape of its own; seconds first."""
        time.sleep(max(0.0, self.ended + GAP_SECONDS - time.monotonic()))
        began = time.monotonic()
        size = self.once()
        self.ended = time.monotonic()
        return self.ended - began, *size

    def cpu_seconds(self):
        """CPU time with all threads, in nanosecond steps (the process clock of another process)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            fields = dict(line.split(":", 1) for line in f)
        return {"rss_bytes": int(fields["VmRSS"].split()[0]) * 1024, "threads": int(fields["Threads"]), **self.group.usage()}

    def syscalls(self, scrapes):
        """System calls of a scrape."""
        with tempfile.NamedTemporaryFile("r", prefix="roce-strace-") as counts:
            tracer = subprocess.Popen(["strace", "-f", "-c", "-o", counts.name, "-p", str(self.process.pid)], stderr=subprocess.PIPE, text=True)
            tracer.stderr.readline()  # attached
            for _ in range(scrapes):
                self.scrape()
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
            total = re.search(r"^100\.00\s+\S+\s+\S+\s+(\d+)", counts.read(), re.M)
        return round(int(total.group(1)) / scrapes) if total else None

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.group.remove()


class Http(Subject):
    def __init__(self, name, args, address="--web.listen-address=127.0.0.1:{}"):
        self.port = exporter.free_port()
        super().__init__(name, [*args, address.format(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.scrape()
                return
            except OSError:
                if time.monotonic() > deadline:
                    self.stop()
                    raise SystemExit(f"{name} does not answer")
                time.sleep(0.05)

    def once(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            page = answer.read()
        return len(re.findall(rb"^(?:node_infiniband|roce)_", page, re.M)), len(page)


class Reader(Subject):
    """Reads once for each line on its standard input, and answers with the bytes that it read."""

    def __init__(self, name, args):
        super().__init__(name, args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def once(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return 0, int(self.process.stdout.readline())


def take_turns(subjects, scrapes):
    """Each scrapes once a turn, and each is the first of a turn as often as the others."""
    for s in subjects:  # the first ones look up what later ones know
        for _ in range(2):
            s.scrape()
    cpu = {s.name: s.cpu_seconds() for s in subjects}
    found = {s.name: [] for s in subjects}
    for turn in range(scrapes):
        first = turn % len(subjects)
        for s in subjects[first:] + subjects[:first]:
            found[s.name].append(s.scrape())
    return [{"subject": s.name, "scrapes": scrapes, "cpu_seconds": (s.cpu_seconds() - cpu[s.name]) / scrapes, "wall_seconds": [f[0] for f in found[s.name]],
             "series": found[s.name][-1][1], "bytes": found[s.name][-1][2]} for s in subjects]


class Others:
    """The share of the machine that was used by others than this program and those that it started and ended."""

    def __init__(self):
        self._then = self._now()

    @staticmethod
    def _now():
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(x) for x in f.readline().split()[1:9]]
        own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return [(sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), sum(ticks) / os.sysconf("SC_CLK_TCK"), own]

    def share(self):
        busy, total, own = (now - then for now, then in zip(self._now(), self._then))
        return max(0.0, busy - own) / total if total else 0.0
