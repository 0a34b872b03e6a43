# SPDX-License-Identifier: Apache-2.0
"""What every part of the lab shares: places, errors, progress lines, running commands."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

LAB_DIR = Path(__file__).resolve().parent.parent
REPO_DIR = LAB_DIR.parent.parent
RNIC_DIR = LAB_DIR / "rnic"
CACHE_DIR = Path(os.environ.get("ROCE_LAB_CACHE", "/var/cache/roce-lab"))
STATE_DIR = Path(os.environ.get("ROCE_LAB_STATE", "/run/roce-lab"))

EXPORTER_PORT = 14791
PROBER_PORT = 14792

_start = time.monotonic()


class LabError(Exception):
    """A failure that is told in one line; `code` becomes the exit status."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def say(message):
    """A progress line on stderr, with the seconds since the program started."""
    print(f"lab: [{time.monotonic() - _start:6.1f}s] {message}", file=sys.stderr, flush=True)


def run(*argv, cwd=None, env=None, what=None):
    """Runs a command to its end; its output is shown only when it fails."""
    done = subprocess.run([str(a) for a in argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise LabError(f"{what or argv[0]} failed (exit {done.returncode}):\n{tail}")
    return done.stdout


def digest(*parts):
    """A short content key of strings, files and folders (names and modes count too)."""
    h = hashlib.sha256()
    for part in parts:
        if not isinstance(part, Path):
            h.update(str(part).encode() + b"\0")
            continue
        files = [part] if part.is_file() else sorted(p for p in part.rglob("*") if not p.is_dir())
        for path in files:
            name = path.name if path == part else str(path.relative_to(part))
            h.update(name.encode() + b"\0")
            if path.is_symlink():
                h.update(os.readlink(path).encode())
            else:
                h.update(b"x" if os.access(path, os.X_OK) else b"-")
                h.update(path.read_bytes())
            h.update(b"\0")
    return h.hexdigest()[:16]
