# SPDX-License-Identifier: Apache-2.0
"""The program under test: one call of it, or one that serves."""
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time

from harness import BUILD, Failed, expect
from page import Page

# The collection made for one scrape is shared by scrapes within this time.
SHARED_SECONDS = 1.0

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1:exitcode=66:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=66",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:second_deadlock_stack=1",
}


def binary(preset=None):
    path = os.path.join(BUILD, preset or os.environ.get("ROCE_TEST_PRESET", "release"), "bin", "roce_exporter")
    expect(os.path.exists(path), f"{path} is not built")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def preset_of(path):
    return os.path.basename(os.path.dirname(os.path.dirname(path)))


def environment(program, preload=None, extra=None):
    """Environment for the program; a sanitizer's runtime is part of it and comes before a preloaded library."""
    env = dict(os.environ, **SANITIZER_ENV)
    if preload:
        env["LD_PRELOAD"] = preload
    env.update(extra or {})
    return env


def call(*args, program=None, env=None, timeout=60, stdin=None):
    """One run to its end: (exit code, stdout, stderr)."""
    program = program or binary()
    try:
        done = subprocess.run([program, *args], capture_output=True, timeout=timeout, env=env or environment(program), input=stdin)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(args)}: still running after {timeout} s")
    out, err = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
    expect(done.returncode not in (66, -6, -11), lambda: f"{' '.join(args)}: exit {done.returncode}\n{err[-6000:]}")
    return done.returncode, out, err


class Answer:
    def __init__(self, status, headers, body, seconds):
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds


class Server:
    """A serving exporter: `with Server([...]) as s: s.get("/metrics")`."""

    def __init__(self, args=(), program=None, preload=None, extra_env=None, address="127.0.0.1", listen=True, wait=True, prefix=()):
        self.program = program or binary()
        self.port = free_port()
        self.host = address
        self.args = [*prefix, self.program]
        if listen:
            self.args.append(f"--web.listen-address={address if ':' not in address else '[' + address + ']'}:{self.port}")
        self.args += list(args)
        self.env = environment(self.program, preload, extra_env)
        self.log_file = tempfile.TemporaryFile()
        self.wait = wait

    def __enter__(self):
        self.process = subprocess.Popen(self.args, env=self.env, stdout=self.log_file, stderr=self.log_file)
        if self.wait:
            deadline = time.monotonic() + 30
            while True:
                if self.process.poll() is not None:
                    raise Failed(f"the exporter ended with {self.process.returncode}\n{self.log()}")
                try:
                    if self.get("/-/ready").status == 200:
                        break
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    self.kill()
                    raise Failed(f"not ready after 30 s\n{self.log()}")
                time.sleep(0.05)
        return self

    def __exit__(self, kind, *_):
        code = self.stop()
        if kind is None:
            expect(code == 0, lambda: f"exit {code} after SIGTERM\n{self.log()[-6000:]}")
        self.log_file.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Failed(f"still running 20 s after SIGTERM\n{self.log()[-6000:]}")
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log(self):
        self.log_file.flush()
        size = os.fstat(self.log_file.fileno()).st_size
        return os.pread(self.log_file.fileno(), size, 0).decode("utf-8", "replace")

    def get(self, path, method="GET", headers=None, timeout=20):
        start = time.monotonic()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for k, v in (headers or {}).items():
                connection.putheader(k, v)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body, time.monotonic() - start)
        finally:
            connection.close()

    def page(self, path="/metrics", **more):
        answer = self.get(path, **more)
        expect(answer.status == 200, lambda: f"GET {path}: {answer.status} {answer.body[:400]!r}")
        return Page(answer.body.decode("utf-8"))

    def stat(self):
        """(CPU seconds, resident bytes, threads) of the process."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        tick = os.sysconf("SC_CLK_TCK")
        return (int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), int(fields[17])
