# SPDX-License-Identifier: Apache-2.0
"""What is shipped: units, packages, manual pages, and how packages come, change and go."""
import glob
import hashlib
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
import textwrap
import time

import yaml

import builds
import exporter
import sources
from harness import BUILD, ROOT, Failed, Row, command, expect

PACKAGING = os.path.join(ROOT, "packaging")
OUT = os.path.join(BUILD, "packages")
# Exposure by systemd-analyze security, times ten.
LIMITS = {"roce-exporter": 17, "roce-prober": 19}
STORAGE, STORAGE_LIMIT = "roce-storage-probe@", 16
PACKAGES = ("roce-exporter", "roce-prober", "roce-monitoring")
FILES = {
    "roce-exporter": """
        etc/default/roce-exporter etc/roce_exporter/roce_exporter.yml lib/systemd/system/roce-exporter.service usr/bin/roce_exporter
        usr/lib/roce_exporter/drop-ins/debugfs.conf usr/lib/roce_exporter/drop-ins/hidden-processes.conf
        usr/lib/roce_exporter/drop-ins/kernel-log.conf usr/lib/roce_exporter/drop-ins/pci-config.conf usr/lib/roce_exporter/roce-slurm-health
        usr/lib/sysusers.d/roce-exporter.conf usr/lib/tmpfiles.d/roce-exporter.conf usr/share/bash-completion/completions/roce_exporter
        usr/share/doc/roce-exporter/changelog.Debian.gz usr/share/doc/roce-exporter/changelog.gz usr/share/doc/roce-exporter/checks.md usr/share/doc/roce-exporter/copyright
        usr/share/doc/roce-exporter/examples/profile.yml usr/share/doc/roce-exporter/examples/web.yml usr/share/doc/roce-exporter/integrations.md
        usr/share/doc/roce-exporter/metrics.md usr/share/doc/roce-exporter/sbom.spdx.json usr/share/doc/roce-exporter/units.md
        usr/share/doc/roce-exporter/web.md
        usr/share/man/man1/roce_exporter.1.gz usr/share/roce_exporter/node-problem-detector/roce-storage-links.json""",
    "roce-prober": """
        etc/default/roce-prober etc/roce_prober/roce_prober.yml lib/systemd/system/roce-prober.service usr/bin/roce_prober
        lib/systemd/system/roce-storage-probe@.service usr/bin/roce_storage_probe usr/share/man/man1/roce_storage_probe.1.gz
        usr/lib/sysusers.d/roce-prober.conf usr/lib/tmpfiles.d/roce-prober.conf usr/share/bash-completion/completions/roce_prober
        usr/share/doc/roce-prober/changelog.Debian.gz usr/share/doc/roce-prober/changelog.gz usr/share/doc/roce-prober/copyright usr/share/doc/roce-prober/examples/keys.yml
        usr/share/doc/roce-prober/examples/web.yml usr/share/doc/roce-prober/metrics-prober.md usr/share/doc/roce-prober/probes.md
        usr/share/doc/roce-prober/sbom.spdx.json usr/share/doc/roce-prober/web.md usr/share/man/man1/roce_prober.1.gz"""}


def built():
    """The packages of this tree, built once a run: {name: path}."""
    if not built.paths:
        shutil.rmtree(OUT, ignore_errors=True)
        command(os.path.join(PACKAGING, "deb", "build"), OUT)
        for path in glob.glob(os.path.join(OUT, "*.deb")):
            built.paths[os.path.basename(path).split("_")[0]] = path
    return built.paths


built.paths = {}


def build():
    paths = built()
    want = set(PACKAGES) | {"roce-exporter-dbgsym", "roce-prober-dbgsym"}
    expect(set(paths) == want, f"packages {sorted(paths)}")
    return ", ".join(f"{name} {os.path.getsize(path) // 1024} KiB" for name, path in sorted(paths.items()))


def contents():
    """Exactly these files, nothing of the builder's folders, and programs that are hardened."""
    for name, path in built().items():
        with tempfile.TemporaryDirectory(prefix="roce-deb-") as top:
            command("dpkg-deb", "-x", path, top)
            found = sorted(os.path.relpath(os.path.join(d, f), top) for d, _, files in os.walk(top) for f in files)
            if name in FILES:
                want = sorted(FILES[name].split())
                expect(found == want, f"{name}: more {sorted(set(found) - set(want))}, less {sorted(set(want) - set(found))}")
            if name == "roce-monitoring":
                for part in ("rules/link.yml", "kubernetes/prometheusrules.yaml", "runbooks/RocePortDown.md", "thresholds.yml", "alertmanager.yml", "src/generate.py"):
                    expect(f"usr/share/roce_exporter/alerts/{part}" in found, f"{name} lacks {part}")
                dashboards = glob.glob(os.path.join(ROOT, "dashboards", "*.json"))
                for dashboard in dashboards:
                    expect(f"usr/share/roce_exporter/dashboards/{os.path.basename(dashboard)}" in found, f"{name} lacks {dashboard}")
                made = command("python3", os.path.join(top, "usr/share/roce_exporter/alerts/src/generate.py"), "--to", os.path.join(top, "own"), "--set", "runbooks=https://wiki.example").stdout
                expect("written: rules/link.yml" in made, made)
            for file in (f for f in found if not os.path.islink(os.path.join(top, f))):
                with open(os.path.join(top, file), "rb") as f:
                    data = f.read()
                for folder in (ROOT, "/roce-exporter-0.", "/.cache/")[:3 if file.startswith("usr/bin/") else 1]:
                    expect(folder.encode() not in data, f"{name}: {file} names {folder}")
            for program in glob.glob(os.path.join(top, "usr", "bin", "*")):
                headers = command("readelf", "-W", "-h", "-l", "-d", program).stdout
                expect("DYN (Position-Independent" in headers and "GNU_RELRO" in headers and re.search(r"FLAGS.*NOW", headers), f"{program}: PIE, RELRO, BIND_NOW")
                expect(not re.search(r"R(UN)?PATH", headers), f"{program} has a run path")


def lint():
    answer = command("lintian", "--tag-display-limit", "0", "--fail-on", "error,warning", "--allow-root", *sorted(built().values()), check=False)
    expect(answer.returncode == 0 and not answer.stdout.strip(), answer.stdout)


def bill_of_materials():
    """SPDX with every library that the program names, and with the flags that were in force."""
    for name, library in (("roce-exporter", "libnl-3-200"), ("roce-prober", "libibverbs1")):
        with tempfile.TemporaryDirectory(prefix="roce-deb-") as top:
            command("dpkg-deb", "-x", built()[name], top)
            with open(f"{top}/usr/share/doc/{name}/sbom.spdx.json", encoding="utf-8") as f:
                bill = json.load(f)
            expect(bill["spdxVersion"] == "SPDX-2.3" and bill["documentNamespace"].startswith("https://"), "head")
            packages = {p["SPDXID"]: p for p in bill["packages"]}
            names = {p["name"] for p in packages.values()}
            depends = command("dpkg-deb", "-f", built()[name], "Depends").stdout
            linked = {re.split(r"[ :]", d.strip())[0] for d in depends.split(",")} - {"default-systemd-sysusers", "systemd"}
            linked = {d for d in linked if "|" not in d and d.startswith("lib")}
            expect(library in names and linked <= names, f"{name}: the package depends on {sorted(linked - names)}, of which the bill is silent")
            expect({"civetweb", "libcli11-dev", "gcc"} <= names, f"{sorted(names)}")
            for relation in bill["relationships"]:
                expect(all(relation[k] in packages or relation[k] == "SPDXRef-DOCUMENT" for k in ("spdxElementId", "relatedSpdxElement")), f"{relation}")
            flags = packages[f"SPDXRef-{name}"]["sourceInfo"]
            expect(all(f in flags for f in ("-fstack-protector-strong", "_FORTIFY_SOURCE=2", "-O2", "-Wl,-z,relro,-z,now")), flags)


# What the RHEL 9 family has, from 9.2 on: shared libraries of BaseOS and AppStream, and versions of symbols at most.
RHEL_LIBRARIES = {"roce_exporter": """libarchive.so.13 libc.so.6 libcrypto.so.3 libgcc_s.so.1 libm.so.6 libnl-3.so.200 libssl.so.3 libsystemd.so.0 libz.so.1
                                     ld-linux-x86-64.so.2""",
                  "roce_prober": """libc.so.6 libcrypto.so.3 libcurl.so.4 libgcc_s.so.1 libibverbs.so.1 libm.so.6 librdmacm.so.1 libresolv.so.2 libssl.so.3
                                    libsystemd.so.0 libz.so.1 ld-linux-x86-64.so.2""",
                  "roce_storage_probe": "libc.so.6 libcrypto.so.3 libgcc_s.so.1 libm.so.6 libssl.so.3 libsystemd.so.0 libz.so.1 ld-linux-x86-64.so.2"}
RHEL_SYMBOLS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11, 0, 0), "OPENSSL": (3, 0, 0), "ZLIB": (1, 2, 9), "LIBSYSTEMD": (252,),
                "IBVERBS": (1, 14), "RDMACM": (1, 3)}
RHEL_ONLY = {"etc/default": "etc/sysconfig", "lib/systemd": "usr/lib/systemd"}


def too_new(symbols):
    """Those versions of symbols that the RHEL 9 family does not have."""
    def there(symbol):
        found = re.fullmatch(r"([A-Z]+)_([0-9]+(?:\.[0-9]+)*)", symbol)
        return found and found.group(1) in RHEL_SYMBOLS and tuple(map(int, found.group(2).split("."))) <= RHEL_SYMBOLS[found.group(1)]
    return sorted(s for s in symbols if not there(s))


def built_rpms():
    """The RPMs of this tree, built once a run: their paths."""
    if not built_rpms.paths:
        out = os.path.join(BUILD, "rpms")
        shutil.rmtree(out, ignore_errors=True)
        command(os.path.join(PACKAGING, "rpm", "build"), out)
        built_rpms.paths = sorted(glob.glob(os.path.join(out, "*.rpm")))
    return built_rpms.paths


built_rpms.paths = []


def rpms():
    """RPMs of the RHEL 9 family, of the source RPM: the files of the Debian packages in that family's places, programs that
    need nothing which it lacks, and that run here. What installs them there was not tried."""
    out = os.path.dirname(built_rpms()[0])
    version = re.search(r"project\(\S+ VERSION (\S+)", sources.read("CMakeLists.txt")).group(1)
    names = {"roce-exporter": "x86_64", "roce-prober": "x86_64", "roce-monitoring": "noarch"}
    paths = {name: os.path.join(out, f"{name}-{version}-1.el9.{kind}.rpm") for name, kind in names.items()}
    want = {*paths.values(), os.path.join(out, f"roce-exporter-{version}-1.el9.src.rpm")}
    expect(set(built_rpms()) == want, f"{built_rpms()}")
    for name, path in paths.items():
        with tempfile.TemporaryDirectory(prefix="roce-rpm-") as top:
            command("sh", "-c", 'cd "$1" && rpm2cpio "$2" | cpio -id --quiet', "sh", top, path)
            found = {os.path.relpath(os.path.join(d, f), top) for d, _, files in os.walk(top) for f in files if "/.build-id/" not in f"{d}/"}
            if name in FILES:
                same = {re.sub(r"\.gz$", "", re.sub("^(etc/default|lib/systemd)", lambda m: RHEL_ONLY[m.group(1)], f)) for f in FILES[name].split()}
                same = {f for f in same if "/changelog" not in f and not f.endswith("/copyright")} | {f"usr/share/doc/{name}/{f}" for f in ("LICENSE", "CHANGELOG.md")}
                expect({re.sub(r"\.gz$", "", f) for f in found} == same, f"{name}: more {sorted(found - same)}, less {sorted(same - found)}")
            for program in glob.glob(os.path.join(top, "usr", "bin", "*")):
                headers = command("readelf", "-W", "-h", "-l", "-d", program).stdout
                expect("DYN (Position-Independent" in headers and "GNU_RELRO" in headers and re.search(r"FLAGS.*NOW", headers), f"{program}: PIE, RELRO, BIND_NOW")
                needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", headers))
                listed = set(RHEL_LIBRARIES[os.path.basename(program)].split())
                expect(needed <= listed, f"{program} needs {sorted(needed - listed)}")
                symbols = set(re.findall(r"\*UND\*\s+\S+\s+\((\S+)\)", command("objdump", "-T", program).stdout))
                expect("GLIBC_2.34" in symbols and not too_new(symbols), f"{program}: {too_new(symbols)}")
                with open(program, "rb") as f:
                    data = f.read()
                for folder in (ROOT, "/roce-exporter-0.", "/.cache/"):
                    expect(folder.encode() not in data, f"{program} names {folder}")
                expect(command(program, "--version").stdout.split()[0], "no version")
            if name != "roce-monitoring":
                with open(f"{top}/usr/share/doc/{name}/sbom.spdx.json", encoding="utf-8") as f:
                    bill = {p["name"]: p for p in json.load(f)["packages"]}
                expect({"fmtlib", "prometheus-cpp", "civetweb", "libfyaml-dev", "libcrypt-dev", "libcrypt.so.1", "libssl.so.3"} - set(bill) == {"libcrypt.so.1"}, f"{sorted(bill)}")
                unit = f"{name}.service"
                with open(f"{top}/usr/lib/systemd/system/{unit}", encoding="utf-8") as f:
                    expect("EnvironmentFile=-/etc/sysconfig/" in f.read(), f"{unit}: flags stand elsewhere")
        asked = {re.match(r"(\S+?)\(", line).group(1) for line in command("rpm", "-qp", "--requires", path).stdout.splitlines() if ".so" in line}
        expect(asked <= {lib for libs in RHEL_LIBRARIES.values() for lib in libs.split()}, f"{name} requires {sorted(asked)}")
    for seeded in ("GLIBC_2.35", "GLIBCXX_3.4.30", "CURL_OPENSSL_4", "XCRYPT_2.0", "GCC_12.0.0"):
        expect(too_new({seeded}), f"{seeded} is taken for old")
    return ", ".join(f"{name} {os.path.getsize(path) // 1024} KiB" for name, path in paths.items())


def rpm_life():
    """Installed, upgraded and erased by rpm, with its scripts: users, rights, what an administrator wrote stays."""
    with tempfile.TemporaryDirectory(prefix="roce-rpm-life-") as folder:
        for path in built_rpms():
            if not path.endswith(".src.rpm"):
                shutil.copy(path, folder)
        said = in_layer("""
            # Two places and a program that Debian has otherwise.
            mkdir -p /etc/sysconfig /usr/lib/systemd; ln -sf /usr/sbin/nologin /sbin/nologin 2>/dev/null || true
            printf '#!/bin/sh\necho "$@" >>/tmp/asked\n' >/usr/lib/systemd/systemd-update-helper; chmod 755 /usr/lib/systemd/systemd-update-helper
            rpm --initdb
            rpm -i --nodeps /run/packages/*.rpm
            [ "$(rpm -qa | sort | sed 's/-0.*//' | xargs)" = "roce-exporter roce-monitoring roce-prober" ]
            rpm -V --nodeps roce-exporter roce-prober roce-monitoring
            [ "$(getent passwd roce-exporter | cut -d: -f7)" = /sbin/nologin ]
            [ "$(stat -c '%U:%G %a' /etc/roce_prober /etc/roce_prober/roce_prober.yml | xargs)" = "root:roce-prober 750 root:roce-prober 640" ]
            grep -qx 'install-system-units roce-exporter.service' /tmp/asked
            grep -qx 'install-system-units roce-prober.service' /tmp/asked
            . /etc/sysconfig/roce-exporter
            install -d -o roce-exporter /run/roce_exporter
            runuser -u roce-exporter -- roce_exporter $ARGS --web.listen-address=127.0.0.1:14791 2>/tmp/log &
            for i in $(seq 100); do curl -s -o /tmp/metrics http://127.0.0.1:14791/metrics && break; sleep 0.1; done
            grep -q '^roce_exporter_build_info' /tmp/metrics
            kill $!; wait $! || true
            echo 'log: {level: warn}' >>/etc/roce_exporter/roce_exporter.yml
            echo secret >/etc/roce_prober/key-1
            mkdir -p /var/lib/roce_exporter
            rpm -U --nodeps --replacepkgs --oldpackage /run/packages/*.rpm
            grep -q 'level: warn' /etc/roce_exporter/roce_exporter.yml
            rpm -e --nodeps roce-exporter roce-prober roce-monitoring 2>/dev/null
            grep -qx 'remove-system-units roce-prober.service' /tmp/asked
            [ ! -e /usr/bin/roce_exporter ]
            [ ! -e /usr/share/roce_exporter ]
            [ ! -e /var/lib/roce_exporter ]
            grep -q 'level: warn' /etc/roce_exporter/roce_exporter.yml.rpmsave
            [ -e /etc/roce_prober/key-1 ]
            echo well
            """, folder)
        expect(said.strip().endswith("well"), said)


def build_depends():
    """The source package names what packaging/dependencies lists for a build, but for what fetches CivetWeb."""
    text = sources.read("packaging/deb/debian/control")
    named = {re.sub(r":any$", "", d.split("(")[0].strip()) for d in re.search(r"Build-Depends: (.*?)\nStandards", text, re.S).group(1).split(",")}
    section = sources.read("packaging/dependencies").split("[build]")[1].split("[")[0]
    listed = {line.strip() for line in section.splitlines() if line.strip() and not line.startswith("#")}
    expect(named - {"debhelper-compat", "dh-sequence-installsysusers", "python3"} == listed - {"ca-certificates", "dpkg-dev"},
           f"differ: {named ^ listed}")
    version = re.search(r"project\(\S+ VERSION (\S+)", sources.read("CMakeLists.txt")).group(1)
    expect(sources.read("packaging/deb/debian/changelog").startswith(f"roce-exporter ({version}) "), "the changelog's version is not the project's")


def dependencies():
    """The documented table names what a build needs, no more and no less, with the versions that are here."""
    text = sources.read("packaging/docs/dependencies.md")
    rows = {}
    for line in re.findall(r"^\| (.+) \|$", text, re.M)[1:]:
        names, versions, licence, reason = line.split(" | ")
        expect(licence and reason, line)
        for name, version in zip(names.split(", "), versions.split(", "), strict=True):
            rows[name] = version
    section = sources.read("packaging/dependencies").split("[build]")[1].split("[")[0]
    listed = {line.strip() for line in section.splitlines() if line.strip() and not line.startswith("#")}
    expect(set(rows) == listed - {"ca-certificates", "dpkg-dev"} | {"civetweb (source)"}, f"differ: {set(rows) ^ listed}")
    for name, version in rows.items():
        if name.endswith("(source)"):
            with open(os.path.join(BUILD, "civetweb", "debian", "changelog"), encoding="utf-8") as f:
                here = re.search(r"\((.+?)\)", f.readline()).group(1)
        else:
            here = command("dpkg-query", "-W", "-f", "${Version}", name).stdout
        expect(re.match(rf"(\d+:)?{re.escape(version)}(?!\d)", here), f"{name} is {here} here, the table says {version}")
    node = json.loads(sources.read("dashboards/src/package.json"))["dependencies"]
    expect(all(version in text for version in node.values()), f"of npm: {node}")


# The host's own files with a layer of memory above them, so that a package can be installed without a download and without
# a trace. dpkg, users and processes are those of the layer.
CHROOT = """
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /sys "$1/root/sys"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs tmpfs "$1/root/tmp"
mkdir "$1/root/run/packages"
mount --bind "$2" "$1/root/run/packages"
ip link set lo up
# Its trigger reads every manual page of the host, each time.
echo man-db man-db/auto-update boolean false | chroot "$1/root" debconf-set-selections
exec chroot "$1/root" /bin/bash -euo pipefail -c "$3"
"""


def in_layer(script, packages, timeout=600):
    with tempfile.TemporaryDirectory(prefix="roce-layer-") as top:
        return command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net", "bash", "-c", CHROOT, "chroot", top, packages, textwrap.dedent(script),
                       timeout=timeout).stdout


def repacked(folder, version):
    """The same packages under another version: NAME_VERSION.deb in the folder."""
    for name in PACKAGES:
        tree = os.path.join(folder, name)
        command("dpkg-deb", "-R", built()[name], tree)
        control = os.path.join(tree, "DEBIAN", "control")
        with open(control, encoding="utf-8") as f:
            text = re.sub(r"^Version: .*$", f"Version: {version}", f.read(), flags=re.M)
        with open(control, "w", encoding="utf-8") as f:
            f.write(text)
        command("dpkg-deb", "--root-owner-group", "-z1", "-b", tree, os.path.join(folder, f"{name}_{version}.deb"))
        shutil.rmtree(tree)


def life():
    """Installed, upgraded, downgraded, removed and purged; what an administrator wrote stays until it is purged."""
    with tempfile.TemporaryDirectory(prefix="roce-life-") as folder:
        repacked(folder, "0.0.9")
        for name in PACKAGES:
            shutil.copy(built()[name], os.path.join(folder, f"new-{name}.deb"))
        said = in_layer("""
            export DEBIAN_FRONTEND=noninteractive
            installed() { dpkg-query -W -f '${db:Status-Status} ${Version}\\n' roce-exporter roce-prober roce-monitoring | sort -u; }
            dpkg -i /run/packages/*_0.0.9.deb >/dev/null
            [ "$(installed)" = "installed 0.0.9" ]
            [ "$(getent passwd roce-exporter | cut -d: -f7)" = /usr/sbin/nologin ]
            getent group roce-exporter roce-prober >/dev/null
            [ "$(stat -c '%U:%G %a' /etc/roce_prober)" = "root:roce-prober 750" ]
            [ -e /etc/systemd/system/multi-user.target.wants/roce-exporter.service ]
            [ -e /etc/systemd/system/multi-user.target.wants/roce-prober.service ]
            echo 'log: {level: warn}' >>/etc/roce_exporter/roce_exporter.yml
            echo secret >/etc/roce_prober/key-1
            ln -s /lib/systemd/system/roce-storage-probe@.service /etc/systemd/system/multi-user.target.wants/roce-storage-probe@nvme0n1.service
            mkdir -p /var/lib/roce_exporter; touch /var/lib/roce_exporter/since
            dpkg --force-confold -i /run/packages/new-*.deb >/dev/null 2>&1
            [ "$(installed)" = "installed $(dpkg-deb -f /run/packages/new-roce-exporter.deb Version)" ]
            grep -q 'level: warn' /etc/roce_exporter/roce_exporter.yml
            [ -e /etc/roce_prober/key-1 ]
            [ -e /var/lib/roce_exporter/since ]
            [ -e /etc/systemd/system/multi-user.target.wants/roce-storage-probe@nvme0n1.service ]
            dpkg --force-confold -i /run/packages/*_0.0.9.deb >/dev/null 2>&1
            [ "$(installed)" = "installed 0.0.9" ]
            grep -q 'level: warn' /etc/roce_exporter/roce_exporter.yml
            dpkg -r roce-exporter roce-prober roce-monitoring >/dev/null
            [ ! -e /usr/bin/roce_exporter ]
            grep -q 'level: warn' /etc/roce_exporter/roce_exporter.yml
            dpkg -P roce-exporter roce-prober roce-monitoring >/dev/null 2>&1
            [ ! -e /etc/roce_exporter ]
            [ ! -e /etc/default/roce-exporter ]
            [ ! -e /var/lib/roce_exporter ]
            [ ! -e /usr/share/roce_exporter ]
            [ ! -e /usr/lib/roce_exporter ]
            [ ! -e /etc/roce_prober/roce_prober.yml ]
            [ -e /etc/roce_prober/key-1 ]
            [ ! -e /etc/systemd/system/multi-user.target.wants/roce-exporter.service ]
            [ ! -L /etc/systemd/system/multi-user.target.wants/roce-storage-probe@nvme0n1.service ]
            echo well
            """, folder)
        expect(said.strip().endswith("well"), said)


def works():
    """From the packages: units that systemd accepts, programs that run as their users with their configuration, manual
    pages and completion."""
    with tempfile.TemporaryDirectory(prefix="roce-works-") as folder:
        for name in PACKAGES:
            shutil.copy(built()[name], folder)
        said = in_layer("""
            dpkg -i /run/packages/*.deb >/dev/null
            systemd-analyze verify --man=no roce-exporter.service roce-prober.service roce-storage-probe@nvme0n1.service
            systemd-analyze security --offline=yes --threshold=16 roce-storage-probe@nvme0n1.service >/dev/null
            for unit in exporter prober; do
              systemd-analyze verify /usr/lib/systemd/system/roce-$unit.service
              systemd-analyze security --offline=yes --threshold=$([ $unit = exporter ] && echo 17 || echo 19) roce-$unit.service >/dev/null
            done
            for page in roce_exporter roce_prober roce_storage_probe; do
              man --warnings=w $page 2>/tmp/warnings >/tmp/page
              [ ! -s /tmp/warnings ]
              grep -q -- --web.listen-address /tmp/page
              grep -q 'SEE ALSO' /tmp/page
            done
            completed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _roce "$1"; echo "${COMPREPLY[@]}"; }
            . /usr/share/bash-completion/completions/roce_exporter
            compopt() { :; }
            [ "$(completed roce_exporter ch)" = "check check-config checks-reference" ]
            [ "$(completed roce_exporter --web.listen)" = "--web.listen-address=" ]
            [ "$(completed roce_exporter check --format = na)" = nagios ]
            [ "$(completed roce_prober pi)" = ping ]
            for config in exporter prober; do
              grep -v '^#' /etc/default/roce-$config | grep -q "roce_$config.yml"
              runuser -u roce-$config -- roce_$config check-config /etc/roce_$config/roce_$config.yml
            done
            install -d -o roce-exporter /run/roce_exporter
            . /etc/default/roce-exporter
            runuser -u roce-exporter -- setpriv --no-new-privs --bounding-set=-all roce_exporter $ARGS --web.listen-address=127.0.0.1:14791 2>/tmp/log &
            for i in $(seq 100); do curl -s -o /tmp/metrics http://127.0.0.1:14791/metrics && break; sleep 0.1; done
            grep -q '^roce_exporter_build_info' /tmp/metrics
            [ "$(stat -c '%U:%G %a' /run/roce_exporter/control.sock)" = "roce-exporter:roce-exporter 660" ]
            roce_exporter check >/tmp/verdict || [ $? -lt 4 ]
            [ "$(grep -c 'read twice' /tmp/verdict || true)" = 0 ]
            echo well
            """, folder)
        expect(said.strip().endswith("well"), said)


# As above, with systemd as the first process, which runs one service and ends.
BOOT = r"""
set -eu
top=$1
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $folder; done
chmod 1777 tmp
for node in null zero full random urandom tty kmsg; do
  touch dev/$node
  if [ -e /dev/$node ]; then mount --bind /dev/$node dev/$node; fi
done
mkdir dev/shm dev/pts dev/mqueue dev/hugepages
mount -t devpts devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/console
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs cgroup sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
ip link set lo up
mkdir tmp/trial
mount --bind "$2" tmp/trial
echo man-db man-db/auto-update boolean false | chroot . debconf-set-selections
chroot . sh -c 'dpkg -i /tmp/trial/*.deb' >/dev/null
cat >etc/systemd/system/trial.service <<X
[Unit]
After=roce-exporter.service roce-prober.service
Wants=roce-exporter.service roce-prober.service systemd-journald.service
[Service]
Type=oneshot
TimeoutStartSec=360
StandardOutput=file:/tmp/trial/out
StandardError=file:/tmp/trial/out
ExecStart=/bin/bash -euo pipefail /tmp/trial/script
ExecStopPost=/bin/systemctl exit 0
X
mkdir old
pivot_root . old
umount -l old
exec env container=lxc /lib/systemd/systemd --system --unit=trial.service --log-target=journal
"""

TRIAL = r"""
trap 'systemctl status --no-pager roce-exporter roce-prober; journalctl -b --no-pager -o cat | tail -n 40' ERR
page() { for i in $(seq 100); do curl -sf "http://127.0.0.1:$1/metrics" && return; sleep 0.1; done; return 1; }
main() { systemctl show -P MainPID "$1"; }
capabilities() { sed -n 's/^CapEff:[[:space:]]*0*//p' "/proc/$(main "$1")/status"; }
for unit in roce-exporter roce-prober; do
  [ "$(systemctl is-active $unit)" = active ]
  [ "$(stat -c %U "/proc/$(main $unit)")" = $unit ]
  [ -z "$(capabilities $unit)" ]
done
page 14792 | grep -q ^roce_prober_build_info
# The same program without any fence finds no collector more that works. One that was late on a busy machine is asked again.
alike() {
  page 14791 >/tmp/inside
  setpriv --reuid=roce-exporter --regid=roce-exporter --clear-groups --bounding-set=-all roce_exporter print >/tmp/outside
  for file in inside outside; do grep -E '^roce_collector_(success|failure)' /tmp/$file | sort >/tmp/$file.collectors; done
  diff /tmp/outside.collectors /tmp/inside.collectors
}
alike || alike || alike
roce_exporter check >/tmp/verdict || [ $? -lt 3 ]
[ "$(grep -c 'read twice' /tmp/verdict || true)" = 0 ]
# Reloading, and a program that gives no sign of life.
systemctl reload roce-exporter roce-prober
mkdir -p /run/systemd/system/roce-{exporter,prober}.service.d
for unit in roce-exporter roce-prober; do printf '[Service]\nWatchdogSec=2s\nRestartSec=0\n' >/run/systemd/system/$unit.service.d/quick.conf; done
systemctl daemon-reload
systemctl restart roce-exporter roce-prober
for unit in roce-exporter roce-prober; do
  before=$(main $unit)
  kill -STOP "$before"
  for i in $(seq 150); do [ "$(main $unit)" != "$before" ] && [ "$(systemctl is-active $unit)" = active ] && break; sleep 0.1; done
  [ "$(main $unit)" != "$before" ]
  systemctl show -P NRestarts $unit | grep -qx 1
done
# Drop-ins: each alone, then all.
for dropin in debugfs:4 hidden-processes:80000 kernel-log:400000000 pci-config:; do
  install -D -t /etc/systemd/system/roce-exporter.service.d /usr/lib/roce_exporter/drop-ins/${dropin%:*}.conf
  systemctl daemon-reload
  systemctl restart roce-exporter
  page 14791 >/tmp/inside
  [ "$(capabilities roce-exporter)" = "${dropin#*:}" ]
  rm -r /etc/systemd/system/roce-exporter.service.d
done
journalctl -b --no-pager -o cat | grep -q 'CAP_SYS_ADMIN given up'
grep -q '^roce_hugepage' /tmp/inside
install -D -t /etc/systemd/system/roce-exporter.service.d /usr/lib/roce_exporter/drop-ins/*.conf
systemctl daemon-reload
systemctl restart roce-exporter
page 14791 | grep -q '^roce_kernel_log_overruns_total'
[ "$(capabilities roce-exporter)" = 400080004 ]
systemctl stop roce-exporter roce-prober
[ ! -e /run/roce_exporter ]
[ -d /var/lib/roce_exporter ]
# An instance waits for its namespace, is begun anew by an upgrade and ended by a removal.
storage=roce-storage-probe@nvme9n9
systemctl enable --now $storage
[ "$(systemctl is-active $storage)" = active ]
page 14793 | grep -q '^roce_storage_probe_reads_total{namespace="nvme9n9"} 0'
[ -z "$(capabilities $storage)" ]
before=$(main $storage)
rm -f /usr/sbin/policy-rc.d  # of images that want no services
dpkg -i /tmp/trial/roce-prober_*.deb >/dev/null
[ "$(systemctl is-active $storage)" = active ]
[ "$(main $storage)" != "$before" ]
dpkg -r roce-prober >/dev/null
[ "$(systemctl is-active $storage)" != active ]
[ -z "$(curl -s http://127.0.0.1:14793/metrics)" ]
echo well
"""


def services():
    """Both services under systemd itself: they start in their sandbox, read what they read without it, reload, are started
    anew when they hang; drop-ins give what they name."""
    with tempfile.TemporaryDirectory(prefix="roce-boot-") as top, tempfile.TemporaryDirectory(prefix="roce-trial-") as trial:
        for name in ("roce-exporter", "roce-prober"):
            shutil.copy(built()[name], trial)
        with open(os.path.join(trial, "script"), "w", encoding="utf-8") as f:
            f.write(TRIAL)
        open(os.path.join(trial, "out"), "w", encoding="utf-8").close()
        said = command("timeout", "-k", "5", "400", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net", "--cgroup", "bash", "-c", BOOT, "boot", top, trial,
                       check=False).stdout
        with open(os.path.join(trial, "out"), encoding="utf-8") as f:
            out = f.read()
        expect(out.strip().endswith("well"), f"{said[-2000:]}\n{out[:2000]}\n...\n{out[-4000:]}")


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
    text = unit_text(STORAGE)
    level = exposure(text)
    expect(level * 10 <= STORAGE_LIMIT, f"{STORAGE}: {level}")
    expect(exposure(text.replace("DevicePolicy=closed\n", "").replace("DeviceAllow=/dev/%i r\n", "")) * 10 > STORAGE_LIMIT, f"{STORAGE}: the limit would let every device pass")
    # Its group may read and write all disks: the one line is what it may.
    expect(re.findall(r"^(?:Device\w+|Condition\w+)=.*$", text, re.M) == ["DevicePolicy=closed", "DeviceAllow=/dev/%i r"], f"{STORAGE}: more devices than its own, or it is not begun where the namespace comes late")
    for line in ("DynamicUser=yes", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "Type=notify", "Restart=on-failure"):
        expect(f"\n{line}\n" in text, f"{STORAGE} has no line {line}")
    remarks.append(f"{STORAGE} {level}")
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


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def reproducible():
    """Built anew in another folder, at another time, in another time zone, with another umask, the Debian packages in another
    locale and without a cache: the same bytes."""
    with tempfile.TemporaryDirectory(prefix="roce-again-") as top:
        def again(kind, *more):
            command("env", *more, "TZ=Asia/Tokyo", "sh", "-c", 'umask 077; exec "$@"', "sh", os.path.join(PACKAGING, kind, "build"), os.path.join(top, kind),
                    "--tree", os.path.join(top, "a", "longer", "path", kind), timeout=3600)
        again("deb", "CCACHE_DISABLE=1", "LC_ALL=POSIX")
        for name, path in built().items():
            expect(digest(os.path.join(top, "deb", os.path.basename(path))) == digest(path), f"{name} differs")
        again("rpm")
        for path in built_rpms():
            expect(digest(os.path.join(top, "rpm", os.path.basename(path))) == digest(path), f"{os.path.basename(path)} differs")
        for out in ("one", "two"):
            command(os.path.join(PACKAGING, "container", "build"), os.path.join(top, out), OUT)
        for name in LIMITS:
            expect(digest(os.path.join(top, "one", f"{name}.tar")) == digest(os.path.join(top, "two", f"{name}.tar")), f"the image {name} differs")


def installed_by_hand():
    """cmake --install: programs, units, examples and documents below one prefix, and nothing elsewhere."""
    builds.build("release")
    with tempfile.TemporaryDirectory(prefix="roce-install-") as top:
        command("cmake", "--install", os.path.join(BUILD, "release"), "--prefix", top)
        for path in ("bin/roce_exporter", "bin/roce_prober", "lib/systemd/system/roce-exporter.service", "lib/roce_exporter/roce-slurm-health",
                     "share/doc/roce-exporter/examples/roce_exporter.yml", "share/doc/roce-prober/examples/roce_prober.yml",
                     "share/roce_exporter/alerts/rules/link.yml", "share/man/man1/roce_exporter.1"):
            expect(os.path.exists(os.path.join(top, path)), f"no {path}")


def rendered(folder):
    """The objects that kustomize makes: by kind and name."""
    with tempfile.TemporaryDirectory(prefix="roce-kustomize-") as top:
        # Everything in its place, but what kustomize would take for a cycle or for a file outside is not there.
        for part in ("packaging/kubernetes", "alerts/kubernetes", "dashboards"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(top, part), ignore=shutil.ignore_patterns("src"))
        if re.search(r'v1\.(1\d|20)\.', command("kubectl", "version", "--client").stdout):
            # Debian 12's is older than these two words, which replaced others of the same meaning.
            path = os.path.join(top, "packaging/kubernetes/example/kustomization.yaml")
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace("\nresources:", "\nbases:").replace("\npatches:", "\npatchesJson6902:"))
        objects = [o for o in yaml.safe_load_all(command("kubectl", "kustomize", os.path.join(top, folder)).stdout) if o]
    return {(o["kind"], re.sub(r"-[a-z0-9]{10}$", "", o["metadata"]["name"])): o for o in objects}


def refuse_health(daemonsets):
    """/health is a verdict on the host: as a probe it would end the exporter of every host with a fault."""
    for daemonset in daemonsets:
        for container in daemonset["spec"]["template"]["spec"]["containers"]:
            paths = [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
            expect(paths == ["/-/healthy", "/-/ready"], f"{daemonset['metadata']['name']}: probes {paths}")
            expect("startupProbe" not in container, "a startup probe that no test knows")


def schemas():
    """All objects fit the Kubernetes API; objects with mistakes in them do not. Those of the Prometheus operator are of no
    schema that Debian has."""
    objects = [o for folder in ("packaging/kubernetes/base", "packaging/kubernetes/example", "dashboards") for o in rendered(folder).values()]

    def said(things):
        return command("/usr/bin/python3", os.path.join(ROOT, "tests", "support", "kubernetes_schema.py"), stdin=json.dumps(things), check=False).stdout.strip()
    expect(not said(objects), lambda: said(objects))
    daemonset = next(o for o in objects if o["kind"] == "DaemonSet" and o["metadata"]["name"] == "roce-exporter")
    for what, old, new in (("a misspelt field", '"hostNetwork"', '"hostNetworks"'), ("a text for a number", '"containerPort": 14791', '"containerPort": "14791"'),
                           ("no selector", '"selector"', '"selektor"'), ("another kind", '"DaemonSet"', '"DaemonSets"'), ("a misspelt probe", '"periodSeconds"', '"periodSecond"')):
        wrong = json.loads(json.dumps(daemonset).replace(old, new, 1))
        expect(wrong != daemonset and said([wrong]), f"{what} is not seen")
    return f"{len(objects)} objects"


def kubernetes():
    """What kustomize makes of the manifests: probes, rights, devices, names that belong together."""
    objects = rendered("packaging/kubernetes/base")
    sets = {name: objects["DaemonSet", name] for name in LIMITS}
    refuse_health(sets.values())
    wrong = json.loads(json.dumps(sets["roce-exporter"]).replace("/-/healthy", "/health"))
    try:
        refuse_health([wrong])
    except Failed:
        pass
    else:
        raise Failed("/health as a liveness probe is not refused")
    for name, daemonset in sets.items():
        pod = daemonset["spec"]["template"]["spec"]
        container = pod["containers"][0]
        expect(pod["securityContext"]["runAsNonRoot"] and pod["hostNetwork"] and not pod["automountServiceAccountToken"], f"{name}: {pod}")
        expect(container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}, f"{name}: rights")
        mounts = {m["name"]: m for m in container["volumeMounts"]}
        expect(set(mounts) == {v["name"] for v in pod["volumes"]}, f"{name}: volumes that are not mounted, or the reverse")
        for volume in pod["volumes"]:
            expect("hostPath" not in volume or mounts[volume["name"]].get("readOnly"), f"{name}: {volume['name']} of the host is not read-only")
            config = volume.get("configMap", {}).get("name")
            expect(config is None or any(o["metadata"]["name"] == config for (kind, _), o in objects.items() if kind == "ConfigMap"), f"{name}: no ConfigMap {config}")
        service = objects["Service", name]
        expect(service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == daemonset["spec"]["selector"]["matchLabels"], f"{name}: service")
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        expect({p["targetPort"] for p in service["spec"]["ports"]} == set(ports), f"{name}: ports {ports}")
        policy = objects["NetworkPolicy", name]["spec"]
        expect(policy["podSelector"]["matchLabels"] == daemonset["spec"]["selector"]["matchLabels"]
               and {p["port"] for rule in policy["ingress"] for p in rule["ports"]} == set(ports.values()), f"{name}: network policy")
        expect(all(o["metadata"].get("namespace") == "roce" for (kind, _), o in objects.items() if kind != "Namespace"), "namespaces")
    reader = sets["roce-exporter"]["spec"]["template"]["spec"]
    expect(reader["hostPID"] and {v["hostPath"]["path"] for v in reader["volumes"] if "hostPath" in v} == {"/sys", "/proc", "/etc/systemd"}, "what of the host the exporter sees")
    limits = sets["roce-prober"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    expect(limits["rdma/rdma_shared_device_a"] == "1" and "hostPath" not in json.dumps(sets["roce-prober"]), "the prober's devices come from the plugin")
    for name, program in (("roce-exporter", "roce_exporter"), ("roce-prober", "roce_prober")):
        data = objects["ConfigMap", name]["data"]
        with tempfile.TemporaryDirectory(prefix="roce-config-") as folder:
            os.makedirs(os.path.join(folder, "secret"))
            with open(os.path.join(folder, "secret", "key-1"), "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write("0123456789abcdef0123456789abcdef")
            shutil.copy(os.path.join(PACKAGING, "config", "keys.yml"), os.path.join(folder, "secret"))
            command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=x",
                    "-keyout", f"{folder}/secret/tls.key", "-out", f"{folder}/secret/tls.crt")
            shutil.copy(f"{folder}/secret/tls.crt", f"{folder}/secret/ca.crt")
            for file, text in data.items():
                with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                    f.write(text.replace("/etc/roce_prober_secret", f"{folder}/secret").replace("/etc/roce_prober", folder)
                            .replace("/var/lib/roce_prober", folder))
            command(os.path.join(os.path.dirname(exporter.binary()), program), "check-config", os.path.join(folder, f"{program}.yml"))
    example = rendered("packaging/kubernetes/example")["DaemonSet", "roce-prober"]["spec"]["template"]["spec"]["containers"][0]
    expect(example["image"].startswith("registry.example.com/") and "nvidia.com/hostdev" in example["resources"]["limits"]
           and "rdma/rdma_shared_device_a" not in example["resources"]["limits"], f"the example's {example['image']} {example['resources']}")
    boards = {os.path.basename(p) for p in glob.glob(os.path.join(ROOT, "dashboards", "*.json"))}
    maps = rendered("dashboards").values()
    expect(boards and {file for o in maps for file in o["data"]} == boards, "not every dashboard is a ConfigMap")
    for o in maps:
        expect(o["metadata"]["labels"] == {"grafana_dashboard": "1"} and len(json.dumps(o)) < 1 << 20, f"{o['metadata']['name']}: label, or more than an object may hold")
    operator = rendered("alerts/kubernetes")
    for name in LIMITS:
        monitor = operator["ServiceMonitor", name]["spec"]
        expect(monitor["selector"]["matchLabels"].items() <= objects["Service", name]["metadata"]["labels"].items()
               and monitor["endpoints"][0]["port"] in {p["name"] for p in objects["Service", name]["spec"]["ports"]}, f"{name}: the monitor finds no service")


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


def images():
    """Container images of the packages: small, without shell and root, and they serve."""
    packages = os.path.dirname(next(iter(built().values())))
    remarks = []
    with tempfile.TemporaryDirectory(prefix="roce-image-") as top:
        command(os.path.join(PACKAGING, "container", "build"), os.path.join(top, "a"), packages)
        for name, user, port in (("roce-exporter", 14791, 14791), ("roce-prober", 14792, 14792)):
            archive = os.path.join(top, "a", f"{name}.tar")
            folder = os.path.join(top, name)
            root = os.path.join(folder, "root")
            os.makedirs(root)
            command("tar", "-xf", archive, "-C", folder)
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
                manifest = json.load(f)[0]
            with open(os.path.join(folder, manifest["Config"]), encoding="utf-8") as f:
                config = json.load(f)
            layer = os.path.join(folder, manifest["Layers"][0])
            expect(config["rootfs"]["diff_ids"] == [f"sha256:{digest(layer)}"] and config["config"]["User"] == f"{user}:{user}", f"{config}")
            command("tar", "-xf", layer, "-C", root)
            size = os.path.getsize(layer) / 1e6
            expect(size < 60, f"{name}: {size:.0f} MB")
            files = [os.path.relpath(os.path.join(d, f), root) for d, _, names in os.walk(root) for f in names]
            expect([f for f in files if f.startswith("usr/bin/")] == ["usr/bin/" + name.replace("-", "_")] and not any("apt" in f.split("/") for f in files), "more programs than one")
            expect(all(os.path.exists(f"{root}/var/lib/dpkg/status.d/{p}") for p in ("libc6", name)), "no dpkg status for scanners")
            serve = f'''
                trap 'kill $! 2>/dev/null || true' EXIT
                ip link set lo up
                mkdir -p {root}/host/proc {root}/sys {root}/proc
                mount --rbind /sys {root}/sys
                mount --rbind /proc {root}/host/proc
                chroot --userspec={user}:{user} {root} {config["config"]["Entrypoint"][0]} {"--path.procfs=/host/proc" if port == 14791 else ""} &
                for i in $(seq 100); do curl -sf -o /dev/null http://127.0.0.1:{port}/-/ready && break; sleep 0.1; done
                curl -sf http://127.0.0.1:{port}/metrics | grep -c ^{name.replace("-", "_")}_build_info
                grep -q "^Uid:[[:space:]]{user}" /proc/$!/status
                [ "$(stat -c %u {root}/run/{name.replace("-", "_")} {root}/var/lib/{name.replace("-", "_")} | sort -u)" = {user} ]
                '''
            command("unshare", "--mount", "--net", "bash", "-euo", "pipefail", "-c", serve + "kill $!; wait $! || true", timeout=60)
            remarks.append(f"{name} {size:.0f} MB")
    return ", ".join(remarks)


def rows():
    return [Row("package-units", "systemd units: users, sandbox, limits of exposure", units),
            Row("package-drop-ins", "drop-ins: the table, one capability each, metrics that there are", drop_ins),
            Row("package-notify", "readiness, signs of life, reloading, stopping", notify),
            Row("package-install", "cmake --install", installed_by_hand),
            Row("package-depends", "the source package names its dependencies and version", build_depends),
            Row("package-dependencies", "the documented dependencies are those of the build", dependencies),
            Row("package-build", "Debian packages", build),
            Row("package-contents", "their files", contents),
            Row("package-lint", "lintian", lint),
            Row("package-sbom", "bill of materials", bill_of_materials),
            Row("package-life", "install, upgrade, downgrade, remove, purge", life),
            Row("package-works", "units, programs, manual pages and completion as installed", works),
            Row("package-services", "both services under systemd", services),
            Row("package-kubernetes", "manifests as kustomize makes them", kubernetes),
            Row("package-schemas", "manifests fit the Kubernetes API", schemas),
            Row("package-memlock", "the prober's limit of locked memory", locked_memory),
            Row("package-images", "container images", images),
            Row("package-rpms", "RPMs for the RHEL 9 family: files, libraries, symbols", rpms, full_only=True),
            Row("package-rpm-life", "install, upgrade, erase by rpm", rpm_life, full_only=True),
            Row("package-reproducible", "two builds of packages, RPMs and images are the same bytes", reproducible, full_only=True)]
