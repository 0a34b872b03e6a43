# SPDX-License-Identifier: Apache-2.0
"""Twenty thousand scrapes of a host that changes below the program: devices come and go, ports fall, files vanish, hold
garbage or hang. Memory, descriptors and threads stay what they were after the warm-up, which is as long as the longest
history that the program keeps: what checks watch for 11 minutes, what the status page draws for 15."""
import concurrent.futures
import contextlib
import os
import random
import threading
import time

import robust
import trees
from exporter import Server
from harness import Row, expect
from page import Pattern

WARM_SECONDS = 920
SCRAPES = 20_000
SNAPSHOT_EACH = 2_000
PER_SECOND = 80  # some 250 collections, each of another host
DEVICES = 8
MOST_GROWTH = 1024  # KiB
PATHS = ["/metrics"] * 40 + ["/metrics?collect[]=rdma_port&collect[]=ethtool", "/metrics?collect[]=port_counters", "/health", "/", "/-/ready", "/nothing"]


class Host:
    """A made tree and what happens to it. Each change can be taken back, so that the host is whole again."""

    def __init__(self, top):
        self.top = top
        self.undo = {}  # by device: what happened, and what ends it
        self.chance = random.Random(7)

    def device(self, n, *more):
        return os.path.join(self.top, "sys", "class", "infiniband", f"mlx5_{n}", *more)

    def change(self):
        """Something happens to a device to which nothing has happened, or an earlier change ends."""
        n = self.chance.randrange(DEVICES)
        if n in self.undo:
            self.undo.pop(n)[1]()
            return
        kind = self.chance.choice(["unplug", "down", "garbage", "remove", "hang", "traffic", "traffic"])
        end = getattr(self, kind)(n)
        if end:
            self.undo[n] = (kind, end)

    def whole(self):
        while self.undo:
            self.undo.popitem()[1][1]()

    def unplug(self, n):
        kept = {path: os.readlink(path) for path in (self.device(n), os.path.join(self.top, "sys", "class", "net", f"eth{n}"))}
        for path in kept:
            os.remove(path)
        return lambda: [os.symlink(to, path) for path, to in kept.items()]

    def down(self, n):
        path = self.device(n, "ports", "1", "state")
        trees.write(path, "1: DOWN")
        return lambda: trees.write(path, "4: ACTIVE")

    def traffic(self, n):
        trees.write(self.device(n, "ports", "1", "counters", "port_xmit_data"), str(self.chance.randrange(2**40)))

    def _taken(self, path):
        """The file is gone; gives what brings it back."""
        with open(path, encoding="utf-8") as f:
            text = f.read()
        os.remove(path)

        def end():
            with contextlib.suppress(OSError):
                os.remove(path)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return end

    def remove(self, n):
        return self._taken(self.device(n, "ports", "1", "hw_counters", self.chance.choice(trees.HW_COUNTERS)))

    def garbage(self, n):
        path = self.device(n, "ports", "1", "rate")
        end = self._taken(path)
        trees.write(path, "\x00\xff" * 2000)
        return end

    def hang(self, n):
        """A read that does not return until it is let go: a pipe that nobody writes to."""
        path = self.device(n, "ports", "1", "counters", "port_rcv_data")
        end = self._taken(path)
        os.mkfifo(path)

        def let_go():
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            end()
        return let_go


def soak():
    with robust.made_host(DEVICES) as (top, flags), Server(flags) as s:
        host = Host(top)
        done, lock, stop = [0], threading.Lock(), threading.Event()
        statuses, snapshots, kinds = {}, [], set()

        def client(number):
            chance = random.Random(number)
            while not stop.is_set():
                path = chance.choice(PATHS)
                answer = s.get(path, headers={"Accept-Encoding": "gzip"} if chance.random() < 0.3 else None, timeout=30)
                with lock:
                    statuses[path, answer.status] = statuses.get((path, answer.status), 0) + 1
                    done[0] += path.startswith("/metrics")
                time.sleep(4 / PER_SECOND)

        def snapshot():
            """What it holds when the host is whole and nothing is under way."""
            host.whole()
            deadline = time.monotonic() + 60
            while True:
                page = robust.fresh(s)
                if len(page.find(Pattern("roce_port_state"))) == DEVICES and not robust.failing(page):
                    break
                expect(time.monotonic() < deadline, f"not whole again: {robust.failing(page)}")
            snapshots.append((done[0], *robust.holds(s)))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, n) for n in range(4)]
            try:
                def live(until):
                    while not until():
                        host.change()
                        kinds.update(kind for kind, _ in host.undo.values())
                        expect(not [c.result() for c in clients if c.done()], "a client ended")
                        time.sleep(0.3)
                    snapshot()
                warm = time.monotonic() + WARM_SECONDS
                live(lambda: time.monotonic() > warm)
                begin = done[0]
                for target in range(begin + SNAPSHOT_EACH, begin + SCRAPES + 1, SNAPSHOT_EACH):
                    live(lambda: done[0] >= target)
            finally:
                stop.set()
                host.whole()
        bad = {k: n for k, n in statuses.items() if k[1] != (404 if k[0] == "/nothing" else 200) and not (k[0] == "/health" and k[1] == 503)}
        expect(not bad, f"answers {bad}")
        expect(kinds == {"unplug", "down", "garbage", "remove", "hang"}, f"only {kinds} happened")
        first, last = snapshots[0], snapshots[-1]
        growth = last[3] - first[3]
        expect(growth < MOST_GROWTH, f"{growth} KiB more after the warm-up: {snapshots}")
        # A connection of a client or two may be open at that moment.
        expect(all(abs(x[1] - first[1]) <= 4 and abs(x[2] - first[2]) <= 2 for x in snapshots), f"scrapes, descriptors, threads, KiB: {snapshots}")
        return f"{last[0] - first[0]} scrapes, {growth} KiB more, descriptors {first[1]} to {last[1]}, threads {first[2]} to {last[2]}"


def rows():
    return [Row("soak-20000", "20,000 scrapes with hot-plug and faults: memory, descriptors, threads", soak, full_only=True, alone=True)]
