# SPDX-License-Identifier: Apache-2.0
"""Runs the case folders of tests/cases: see tests/README.md for the form of an `expect` file."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

import exporter
from harness import BUILD, ROOT, Failed, Row, command, expect
from page import Page, Pattern, same_value

FOLDER = os.path.join(ROOT, "tests", "cases")


_build_lock = threading.Lock()


def fault_library():
    """The preload library, built when its source is newer."""
    with _build_lock:
        return build_fault_library()


def build_fault_library():
    source = os.path.join(ROOT, "tests", "support", "fault_fs.c")
    library = os.path.join(BUILD, "tests", "fault_fs.so")
    if not os.path.exists(library) or os.path.getmtime(library) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(library), exist_ok=True)
        temporary = f"{library}.{os.getpid()}"
        command("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", temporary, source, "-ldl", "-pthread")
        os.replace(temporary, library)
    return library


# Names that are fixed although the linter would have them otherwise: they are about counters, as their name says.
ABOUT_COUNTERS = "roce_counter_regressions_total roce_counter_support roce_driver_counter_total roce_qp_counter_total".split()


def promtool_accepts(text):
    """`promtool check metrics` reads the page, and has no remark but the known one on names about counters."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    known = {f"{n} metric name should not include type 'counter'" for n in ABOUT_COUNTERS}
    remarks = [l for l in (done.stderr + done.stdout).splitlines() if l.strip() and l not in known]
    expect(not remarks and done.returncode in (0, 3), lambda: f"promtool check metrics: exit {done.returncode}: {remarks[:20]}")


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.name = os.path.basename(folder)
        self.id = "-".join(self.name.split("-")[:2])
        with open(os.path.join(folder, "expect"), encoding="utf-8") as f:
            self.lines = [(n, l.rstrip("\n")) for n, l in enumerate(f, 1) if l.strip() and not l.startswith("#")]

    def run(self, program=None):
        with tempfile.TemporaryDirectory(prefix="roce-case-") as top:
            Runner(self, os.path.realpath(top), program or exporter.binary()).run()


class Runner:
    def __init__(self, case, top, program):
        self.case, self.program, self.top = case, program, top
        self.root = os.path.join(top, "case")
        shutil.copytree(case.folder, self.root, symlinks=True)
        self.tree = os.path.join(top, "tree")  # a link to the tree of the present step
        self.klog, self.opens = os.path.join(top, "klog"), os.path.join(top, "opens")
        for f in (self.klog, self.opens):
            open(f, "w", encoding="utf-8").close()
        self.mode, self.args, self.within = "print", [], 30.0
        self.server, self.page, self.pages = None, None, {}
        self.out, self.err, self.code = "", "", None
        self.faults = os.path.join(self.root, "faults.tsv")
        self.switch("t0" if os.path.isdir(os.path.join(self.root, "t0")) else ".")
        if os.path.exists(self.faults):
            self.place_faults()

    def switch(self, name):
        target = os.path.join(self.root, name)
        expect(os.path.isdir(target), f"no tree {name}")
        temporary = self.tree + ".new"
        os.symlink(target, temporary)
        os.replace(temporary, self.tree)
        for sub in ("sys", "proc"):
            os.makedirs(os.path.join(target, sub), exist_ok=True)

    def place_faults(self):
        """What a fault is about may exist in the table only; the listing has to show it."""
        with open(self.faults, encoding="utf-8") as f:
            for line in f:
                if line.startswith("#") or not line.strip():
                    continue
                path, effect, *_ = line.split()
                full = os.path.join(self.tree, path)
                if os.path.exists(full):
                    continue
                if os.path.basename(path) in ("ports", "counters", "hw_counters", "gids") or effect == "EMPTYDIR":
                    os.makedirs(full)
                else:
                    os.makedirs(os.path.dirname(full), exist_ok=True)
                    with open(full, "w", encoding="utf-8") as g:
                        g.write("0\n")

    def preload(self):
        if not os.path.exists(self.faults):
            return None, {}
        return fault_library(), {"FAULT_FS_RULES": self.faults, "FAULT_FS_ROOT": self.top, "FAULT_FS_KLOG": self.klog, "FAULT_FS_OPENS": self.opens}

    def arguments(self):
        return [a.replace("@CASE@", self.root) for a in self.args]

    def source(self):
        return [f"--path.sysfs={self.tree}/sys", f"--path.procfs={self.tree}/proc"]

    def one_call(self, *words):
        library, extra = self.preload()
        self.code, self.out, self.err = exporter.call(*words, program=self.program, env=exporter.environment(self.program, library, extra))

    def collect(self):
        """The page of the present step, once."""
        if self.page is not None:
            return self.page
        if self.mode in ("print", "replay"):
            source = self.source() if self.mode == "print" else [f"--replay={self.root}"]
            self.one_call("print", *source, *self.arguments())
            expect(self.code == 0, lambda: f"print: exit {self.code}: {self.err[:1500]}")
            self.page = Page(self.out)
        else:
            self.scrape()
        promtool_accepts(self.page.text)
        return self.page

    def scrape(self):
        if self.server is None:
            library, extra = self.preload()
            self.server = exporter.Server(self.source() + self.arguments(), program=self.program, preload=library, extra_env=extra)
            self.server.__enter__()
        else:
            # Scrapes within the sharing time get the earlier collection.
            time.sleep(exporter.SHARED_SECONDS + 0.1)
        start = time.monotonic()
        self.page = self.server.page(timeout=60)
        took = time.monotonic() - start
        expect(took <= self.within, f"the page took {took:.2f} s")

    def run(self):
        try:
            for number, line in self.case.lines:
                words = line.split(None, 1)
                method = getattr(self, "do_" + words[0].replace("-", "_"), None)
                if method is None:
                    raise Failed(f"expect:{number}: no such word: {words[0]}")
                try:
                    method(words[1].strip() if len(words) > 1 else "")
                except Failed as e:
                    raise Failed(f"expect:{number}: {line}\n{e}") from None
            expect(self.page is not None or self.code is not None, "the case checks nothing")
        finally:
            if self.server is not None:
                server, self.server = self.server, None
                server.__exit__(None, None, None)

    # ---- how to run ----
    def do_run(self, text):
        expect(text in ("print", "replay", "serve"), f"run {text}?")
        self.mode = text

    def do_args(self, text):
        self.args = text.split()

    def do_within(self, text):
        """within SECONDS: no page may take longer."""
        self.within = float(text)

    def do_step(self, text):
        """step TREE: switches to that tree; the next check scrapes."""
        self.page = None
        if text not in ("", "same"):
            self.switch(text)

    def do_set(self, text):
        """set PATH TEXT: rewrites a file of the tree as the kernel would show it."""
        path, value = text.split(None, 1)
        full = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(value.replace("\\n", "\n") + "\n")

    def do_remove(self, text):
        full = os.path.join(self.tree, text)
        if os.path.isdir(full):
            shutil.rmtree(full)
        else:
            os.remove(full)

    def do_scrapes(self, text):
        """scrapes N: that many collections one after the other."""
        for _ in range(int(text)):
            self.page = None
            self.collect()

    def do_cycle(self, text):
        """cycle N TREE TREE: switches to and fro, scraping the running server each time."""
        n, a, b = text.split()
        for _ in range(int(n)):
            for tree in (a, b):
                self.switch(tree)
                self.page = None
                self.collect()

    def do_call(self, text):
        """call WORDS: runs the program so; for exit, error and output."""
        words = [w.replace("@CASE@", self.root).replace("@TREE@", self.tree) for w in text.split()]
        self.one_call(*words)

    # ---- what to find ----
    def do_series(self, text):
        """series PATTERN = VALUE (or > VALUE): exactly one series matches, with that value."""
        m = re.fullmatch(r"(.*\S)\s+(=|>)\s+(\S+)", text, re.S)
        expect(m, "series PATTERN = VALUE")
        found = self.collect().find(Pattern(m.group(1)))
        expect(len(found) == 1, lambda: f"{len(found)} series match: {'; '.join(map(str, found[:8]))}{self.near(m.group(1)) if not found else ''}")
        ok = same_value(found[0].value, m.group(3)) if m.group(2) == "=" else float(found[0].value) > float(m.group(3))
        expect(ok, lambda: f"found {found[0]}")

    def near(self, text):
        name = re.match(r"[a-zA-Z0-9_:]*", text).group(0)
        return "\nof that name: " + ("; ".join(str(s) for s in self.page.series if s.name == name)[:1500] or "none")

    def do_absent(self, text):
        found = self.collect().find(Pattern(text))
        expect(not found, lambda: f"found {'; '.join(map(str, found[:8]))}")

    def do_present(self, text):
        expect(self.collect().find(Pattern(text)), lambda: f"nothing matches{self.near(text)}")

    def do_count(self, text):
        m = re.fullmatch(r"(.*\S)\s+=\s+(\d+)", text, re.S)
        found = self.collect().find(Pattern(m.group(1)))
        expect(len(found) == int(m.group(2)), lambda: f"{len(found)} series match: {'; '.join(map(str, found[:12]))}")

    def do_type(self, text):
        name, kind = text.split()
        found = self.collect().types.get(name)
        expect(found == kind, f"found {found}")

    def do_text(self, text):
        """text LINE: the page holds this line as it is."""
        expect(text in self.collect().text.split("\n"), "no such line; near: " + "\n".join(
            l for l in self.page.text.split("\n") if l.startswith(text.split("{")[0]))[:1500])

    def do_no_text(self, text):
        """no-text REGEX: no line of the page matches."""
        found = [l for l in self.collect().text.split("\n") if re.search(text, l)]
        expect(not found, lambda: "\n".join(found[:8]))

    def verdict(self):
        """What `check` says of the present step, or /health of the running server."""
        if self.mode == "serve":
            if self.server is None:
                self.collect()
            return json.loads(self.server.get("/health", timeout=60).body)
        source = self.source() if self.mode == "print" else [f"--replay={self.root}"]
        self.one_call("check", "--no-daemon", "--format=json", "--window=1s", *source, *self.arguments())
        expect(self.code in (0, 1, 2, 3) and self.out.startswith("{"), lambda: f"check: exit {self.code}: {self.err[:1500]}")
        return json.loads(self.out)

    def do_verdict(self, text):
        """verdict STATUS: of check, or of /health of the running server."""
        found = self.verdict()
        expect(found["status"] == text, lambda: f"{found['status']}: {found['findings']}")

    def do_finding(self, text):
        """finding ID OBJECT: there is that finding."""
        name, thing = text.split(None, 1)
        found = self.verdict()["findings"]
        expect([f for f in found if (f["id"], f["object"]) == (name, thing)], lambda: f"findings: {[(f['id'], f['object'], f['found']) for f in found]}")

    def do_no_finding(self, text):
        """no-finding ID: no finding of that check."""
        found = [f for f in self.verdict()["findings"] if f["id"] == text]
        expect(not found, lambda: f"found {found}")

    def do_exit(self, text):
        expect(self.code == int(text), f"exit {self.code}: {self.err[:800]}")

    def do_error(self, text):
        """error REGEX: standard error holds a match."""
        expect(re.search(text, self.err), f"standard error: {self.err[:1500]}")

    def do_error_lines(self, text):
        n = len(self.err.strip().splitlines())
        expect(n == int(text), f"{n} lines: {self.err[:1500]}")

    def do_log_lines(self, text):
        """log-lines REGEX = N | <= N: lines of the server's log that match."""
        m = re.fullmatch(r"(.*\S)\s+(<=|=)\s+(\d+)", text)
        lines = [l for l in self.server.log().splitlines() if re.search(m.group(1), l)]
        limit = int(m.group(3))
        expect(len(lines) == limit if m.group(2) == "=" else len(lines) <= limit, lambda: f"{len(lines)}: " + "\n".join(lines[:20]))

    def do_klog(self, text):
        """klog <= N | = N: lines that the driver would have put into the kernel log."""
        self.compare(sum(1 for _ in open(self.klog, encoding="utf-8")), text)

    def do_opens(self, text):
        """opens REGEX = N: opens of paths (below the case folder) that match."""
        m = re.fullmatch(r"(.*\S)\s+((?:<=|=|>)\s+\d+)", text)
        self.collect()
        with open(self.opens, encoding="utf-8") as f:
            lines = [l.strip() for l in f if re.search(m.group(1), l)]
        self.compare(len(lines), m.group(2), lines)

    @staticmethod
    def compare(n, text, lines=()):
        op, limit = text.split()
        ok = {"=": n == int(limit), "<=": n <= int(limit), ">": n > int(limit)}[op]
        expect(ok, f"{n}: {list(lines)[:10]}")

    def do_resident(self, text):
        """resident mark | resident <= FACTOR: memory of the server against the mark."""
        _, now, _ = self.server.stat()
        if text == "mark":
            self.marked = now
        else:
            factor = float(text.split()[1])
            if exporter.preset_of(self.program) in ("asan", "tsan"):
                factor += 1  # the sanitizer keeps books on what was freed
            expect(now <= self.marked * factor, f"{self.marked} bytes before, {now} now")


def all_cases():
    found = []
    for name in sorted(os.listdir(FOLDER)):
        if os.path.exists(os.path.join(FOLDER, name, "expect")):
            found.append(Case(os.path.join(FOLDER, name)))
    return found


def rows(preset=None, prefix=""):
    def make(case):
        return Row(prefix + case.name, "case", lambda: case.run(exporter.binary(preset)))
    return [make(c) for c in all_cases()]
