# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a machine over one of its virtio-serial channels (guest side: lab-agent)."""

import fcntl
import json
import os
import socket
import time

from .common import LabError

CHANNELS = 4
TIMED_OUT = 124
# A machine that gives no sign of life for so long while a command runs counts as gone.
SILENCE = 60


def channel_path(folder, index):
    return folder / f"cmd{index}.sock"


class _Conversation:
    def __init__(self, path, deadline):
        self.deadline = deadline
        self.rest = b""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._bound()
        self.socket.connect(str(path))

    def _bound(self, limit=None):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left if limit is None else min(left, limit))

    def send(self, data):
        self._bound()
        self.socket.sendall(data)

    def fill(self, limit=None):
        self._bound(limit)
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the machine went away")
        self.rest += data

    def until(self, mark, limit=None):
        while mark not in self.rest:
            self.fill(limit)
        head, self.rest = self.rest.split(mark, 1)
        return head

    def take(self, count):
        while len(self.rest) < count:
            self.fill()
        data, self.rest = self.rest[:count], self.rest[count:]
        return data


def _claim(folder, deadline):
    """A file lock on a free channel: commands from several processes must not mix on one."""
    while True:
        for index in range(CHANNELS):
            lock = os.open(folder / f"cmd{index}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock, channel_path(folder, index)
            except BlockingIOError:
                os.close(lock)
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


def execute(folder, argv, on_output, timeout=600.0, stdin=b"", answer_limit=None):
    """Runs argv in the machine whose state folder is given; returns its exit code.

    on_output(kind, data) gets b"out" and b"err" pieces as they come. After `timeout` seconds the
    command is killed and 124 returned. TimeoutError: the machine itself does not answer within
    that time plus a grace, or within `answer_limit` seconds if given.
    """
    deadline = time.monotonic() + timeout + 15
    lock, path = _claim(folder, deadline)
    try:
        talk = _greet(path, deadline, answer_limit)
        try:
            request = {"argv": argv, "timeout": timeout, "stdin": len(stdin)}
            talk.send(json.dumps(request).encode() + b"\n" + stdin)
            while True:
                kind, length = talk.until(b"\n", limit=SILENCE).split()
                data = talk.take(int(length))
                if kind == b"exit":
                    return int(data)
                if kind != b"tick":
                    on_output(kind, data)
        finally:
            talk.socket.close()
    finally:
        os.close(lock)


def _greet(path, deadline, answer_limit):
    """Opens the channel and waits for the agent; asks again, since it may still be booting."""
    if answer_limit is not None:
        deadline_greet = min(deadline, time.monotonic() + answer_limit)
    else:
        deadline_greet = deadline
    while True:
        if time.monotonic() > deadline_greet:
            raise TimeoutError
        nonce = os.urandom(8).hex().encode()
        talk = None
        try:
            talk = _Conversation(path, deadline)
            talk.send(b"\n\0HELLO " + nonce + b"\n")
            talk.until(b"\0READY " + nonce + b"\n", limit=3)
            return talk
        except (TimeoutError, ConnectionError, FileNotFoundError) as error:
            if talk is not None:
                talk.socket.close()
            if isinstance(error, FileNotFoundError):
                raise LabError("the machine does not run") from None
            time.sleep(0.3)


def capture(folder, argv, timeout=60.0, stdin=b"", answer_limit=None):
    """As execute, but returns (exit code, stdout, stderr) as text."""
    pieces = {b"out": [], b"err": []}
    code = execute(folder, argv, lambda kind, data: pieces[kind].append(data), timeout, stdin,
                   answer_limit)
    return (code, b"".join(pieces[b"out"]).decode(errors="replace"),
            b"".join(pieces[b"err"]).decode(errors="replace"))
