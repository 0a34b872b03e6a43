# SPDX-License-Identifier: Apache-2.0
"""Builds and caches what the machines boot from: kernel, root image, initramfs, RNIC module.

Every artefact is a file or folder in the cache whose name carries a key of all that it was made
of, so a change of its inputs makes a new one and nothing has to be invalidated by hand. It is
built under a temporary name and renamed at the end, so an interrupted build leaves no half one.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .common import CACHE_DIR, LAB_DIR, RNIC_DIR, LabError, digest, run, say

# Programs that the lab runs on the host, and the Debian package of each.
HOST_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "depmod": "kmod",
    "cpio": "cpio",
    "xz": "xz-utils",
    "make": "make",
    "gcc-12": "gcc-12",
}

GUEST_PACKAGES = """
    systemd systemd-sysv udev dbus kmod procps psmisc strace curl python3 ca-certificates
    iproute2 iputils-ping ethtool pciutils nvme-cli
    rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest infiniband-diags
    nfs-kernel-server nfs-common open-iscsi python3-pyverbs
    libfmt9 libre2-9 libnl-3-200 libnl-genl-3-200 libnl-route-3-200 libfyaml0 libssl3 zlib1g
    libsystemd0 libprometheus-cpp-core1.0 libibverbs1 librdmacm1 libcurl4 libcap-ng0 libcrypt1 libarchive13
    libprotobuf32
""".split()

# Units that cost boot time and do nothing that a test wants to see. Without the udev trigger the
# devices that are there at boot are not announced again; lab-node loads what they need, and
# whatever comes later still goes through udev.
MASKED_UNITS = """
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer
    e2scrub_reap.service getty@tty1.service serial-getty@ttyS0.service systemd-logind.service
    systemd-random-seed.service systemd-update-utmp.service systemd-update-utmp-runlevel.service
    systemd-pstore.service systemd-firstboot.service systemd-machine-id-commit.service
    systemd-udev-trigger.service systemd-modules-load.service systemd-binfmt.service
    systemd-sysusers.service systemd-remount-fs.service systemd-user-sessions.service
    systemd-journal-flush.service systemd-tmpfiles-clean.timer kmod-static-nodes.service
    proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount dev-mqueue.mount
    sys-kernel-tracing.mount sys-fs-fuse-connections.mount
    modprobe@drm.service modprobe@fuse.service modprobe@loop.service modprobe@dm_mod.service
    modprobe@efi_pstore.service modprobe@configfs.service
    rdma-load-modules@.service iwpmd.service rdma-ndd.service
    nvmefc-boot-connections.service nvmf-autoconnect.service
    rpcbind.service rpcbind.socket rpc-statd.service nfs-blkmap.service nfs-idmapd.service
    nfsdcld.service nfs-server.service nfs-client.target remote-fs.target run-rpc_pipefs.mount
    iscsid.service iscsid.socket open-iscsi.service
""".split()

# Kernel folders of the image. Drivers of RDMA hardware stay out on purpose: the simulated RNIC
# carries the name of one of them, and udev would load the real one beside it. So does the driver
# of the PCI function that it takes.
MODULE_FOLDERS = """
    arch block crypto lib net fs/9p fs/netfs fs/fscache fs/ext4 fs/jbd2 fs/mbcache.ko fs/overlayfs
    fs/configfs fs/nfs fs/nfsd fs/nfs_common fs/lockd fs/fuse fs/autofs
    drivers/infiniband/core drivers/infiniband/sw drivers/infiniband/ulp drivers/nvme
    drivers/block drivers/virtio drivers/char drivers/net/bonding drivers/net/dummy.ko
    drivers/net/ifb.ko drivers/net/macvlan.ko drivers/net/veth.ko drivers/net/virtio_net.ko
    drivers/net/net_failover.ko drivers/scsi drivers/target
    drivers/md drivers/pci drivers/dca drivers/ptp drivers/pps drivers/crypto/virtio
    drivers/net/mdio drivers/net/phy drivers/hwmon
""".split()

INITRAMFS_MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "ext4", "crc32c_generic",
                     "overlay"]


def _building(target, what, build):
    """Returns `target`, made by `build(temporary_path)` if the cache does not hold it."""
    if target.exists():
        os.utime(target)
        return target
    say(f"building {what}")
    begin = time.monotonic()
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=CACHE_DIR))
    work.chmod(0o755)  # apt's unprivileged user works below it
    try:
        made = build(work)
        made.rename(target)
        os.utime(target)  # unpacked folders carry the date of their package, and prune goes by it
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"built {what} in {time.monotonic() - begin:.0f} s")
    return target


def install_host_packages():
    """Installs the host programs that are missing. Nothing is asked when all are there."""
    missing = {p for prog, p in HOST_PROGRAMS.items() if shutil.which(prog) is None}
    if not list(Path("/usr/lib").glob("*/libelf.so.1")):
        missing.add("libelf1")  # the kernel's build programs need it
    if not missing:
        return
    if os.geteuid() != 0:
        raise LabError("missing packages, and only root may install them: " + " ".join(sorted(missing)), 2)
    say("installing " + " ".join(sorted(missing)))
    # Some packages would start services; the lab only wants their programs.
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    run("apt-get", "-q", "update", env=env)
    run("apt-get", "-q", "-y", "install", "--no-install-recommends", *sorted(missing),
        env=env)


class Kernel:
    """An unpacked Debian kernel: boot image, modules, and the headers to build modules with."""

    def __init__(self, series, release, folder):
        self.series = series
        self.release = release
        self.folder = folder
        self.vmlinuz = folder / "boot" / f"vmlinuz-{release}"
        self.headers = folder / "usr" / "src" / f"linux-headers-{release}"


def _newest_image_package(series):
    pattern = re.compile(r"^linux-image-(%s[.0-9+deb-]*-amd64)$" % re.escape(series))
    output = run("apt-cache", "pkgnames", f"linux-image-{series}.")
    releases = [m.group(1) for m in map(pattern.match, output.splitlines()) if m]

    def order(release):
        return [int(n) for n in re.findall(r"\d+", release)]

    return max(releases, key=order, default=None)


def kernel(series):
    """The newest signed image of `series` that apt knows, unpacked in the cache."""
    release = _newest_image_package(series)
    if release is None and os.geteuid() == 0:
        run("apt-get", "-q", "update")
        release = _newest_image_package(series)
    if release is None:
        raise LabError(f"apt knows no signed kernel image of series {series}", 2)
    image = f"linux-image-{release}"
    shown = run("apt-cache", "show", "--no-all-versions", image)
    version = re.search(r"^Version: (.*)$", shown, re.M).group(1)

    def build(work):
        names = [image, f"linux-headers-{release}"]
        # Headers of the flavour pull the common ones and the build programs by exact name.
        depends = run("apt-cache", "depends", "--no-recommends", f"linux-headers-{release}")
        names += re.findall(r"Depends: (linux-headers-\S+-common|linux-kbuild-\S+)", depends)
        debs = work / "debs"
        debs.mkdir()
        try:
            run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names, cwd=debs)
        except LabError:
            # A list that is too old names packages which the archive has replaced.
            run("apt-get", "-q", "update")
            run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names, cwd=debs)
        tree = work / "tree"
        for deb in sorted(debs.iterdir()):
            run("dpkg-deb", "-x", deb, tree)
        return tree

    folder = _building(CACHE_DIR / f"kernel-{series}-{digest(image, version, 'v2')}",
                       f"kernel {release} (download)", build)
    return Kernel(series, release, folder)


def _debian_sources():
    """The Debian archives that this host uses, so that a local mirror serves the lab too."""
    output = run("apt-get", "indextargets", "--format",
                 "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(COMPONENT)", "Identifier: Packages")
    lines = set()
    for row in output.splitlines():
        origin, uri, release, codename, component = row.split("|")
        if origin == "Debian" and "bookworm" in codename and component == "main":
            lines.add(f"deb {uri} {codename if codename.startswith('bookworm') else release} main")
    return sorted(lines)


def base_tar():
    """A tar of a small Debian 12 with systemd, the RDMA tools and the product's libraries."""
    users = ("for u in roce-exporter roce-prober; do"
             " chroot \"$1\" useradd --system --no-create-home --shell /usr/sbin/nologin $u; done")
    mask = 'for u in %s; do ln -sf /dev/null "$1/etc/systemd/system/$u"; done' % " ".join(
        MASKED_UNITS)
    options = [
        "--variant=minbase", "--include=" + ",".join(GUEST_PACKAGES),
        "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--customize-hook=" + users, "--customize-hook=" + mask,
        "--customize-hook=passwd -q -R \"$1\" -d root",
        "--customize-hook=: > \"$1/etc/fstab\"",
        "--customize-hook=chroot \"$1\" systemctl set-default multi-user.target",
    ]

    def build(work):
        out = work / "base.tar"
        run("mmdebstrap", *options, "bookworm", out, *_debian_sources(), what="mmdebstrap")
        return out

    return _building(CACHE_DIR / f"base-{digest(*options)}.tar", "root file system", build)


def root_image(k):
    """An ext4 image: the base system plus the modules of kernel `k`. Machines never write to it."""
    base = base_tar()
    key = digest(base.name, k.folder.name, *MODULE_FOLDERS, "v2")

    def build(work):
        tree = work / "tree"
        tree.mkdir()
        run("tar", "-C", tree, "-xf", base)
        source = k.folder / "lib" / "modules" / k.release
        target = tree / "usr" / "lib" / "modules" / k.release
        target.mkdir(parents=True)
        for name in MODULE_FOLDERS:
            for path in source.glob(f"kernel/{name}*" if name.endswith(".ko") else f"kernel/{name}"):
                to = target / path.relative_to(source)
                to.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, to)
                else:
                    shutil.copy2(path, to)
        for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copy2(source / name, target / name)
        run("depmod", "-b", tree, k.release)
        image = work / "root.img"
        run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0",
            "-d", tree, image, "1500M")
        return image

    return _building(CACHE_DIR / f"root-{k.series}-{key}.img", f"root image for {k.release}", build)


def initramfs(k):
    """The first stage: loads disk drivers, lays a RAM overlay on the image and guest/ on that."""
    source = LAB_DIR / "initramfs" / "init"
    guest = LAB_DIR / "guest"
    key = digest(k.folder.name, source, guest, *INITRAMFS_MODULES, "v1")

    def build(work):
        tree = work / "tree"
        for name in ("bin", "dev", "proc", "sys", "lower", "rw", "root", "modules"):
            (tree / name).mkdir(parents=True)
        # Taken from its package and not installed: it would push out a dynamic busybox of the host.
        run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "busybox-static", cwd=work)
        for deb in work.glob("busybox-static_*.deb"):
            run("dpkg-deb", "-x", deb, work / "busybox")
        shutil.copy2(work / "busybox" / "bin" / "busybox", tree / "bin" / "busybox")
        shutil.copy2(source, tree / "init")
        shutil.copytree(guest, tree / "overlay", symlinks=True)
        modules = k.folder / "lib" / "modules" / k.release
        if not (modules / "modules.dep.bin").exists():
            run("depmod", "-b", k.folder, k.release)
        wanted = []
        for name in INITRAMFS_MODULES:
            shown = run("modprobe", "-d", k.folder, "-S", k.release, "--show-depends", name)
            for line in shown.splitlines():
                word = line.split()
                if word[0] == "insmod" and word[1] not in wanted:
                    wanted.append(word[1])
        order = []
        for path in map(Path, wanted):
            shutil.copy2(path, tree / "modules" / path.name)
            if path.suffix == ".xz":  # busybox's insmod wants plain files
                run("xz", "-d", tree / "modules" / path.name)
            order.append(path.name.removesuffix(".xz"))
        (tree / "modules" / "order").write_text("\n".join(order) + "\n")
        out = work / "initramfs.cpio"
        with open(out, "wb") as f:
            names = "\0".join(["."] + sorted(str(p.relative_to(tree)) for p in tree.rglob("*")))
            subprocess.run(["cpio", "--quiet", "-0", "-o", "-H", "newc", "-R", "0:0"], cwd=tree,
                           input=names.encode(), stdout=f, check=True)
        return out

    return _building(CACHE_DIR / f"initramfs-{k.series}-{key}.cpio", "initramfs", build)


def rnic_module(k):
    """The simulated RNIC for kernel `k`: a folder with the module and its control program."""
    for name in ("build", "rnicctl", "qemu-args"):
        if not (RNIC_DIR / name).exists():
            raise LabError(f"the simulated RNIC is not there: {RNIC_DIR / name} is missing", 2)
    key = digest(k.folder.name, RNIC_DIR)

    def build(work):
        out = work / "rnic"
        out.mkdir()
        run(RNIC_DIR / "build", k.headers, out, what="build of the RNIC module")
        shutil.copy2(RNIC_DIR / "rnicctl", out / "rnicctl")
        return out

    return _building(CACHE_DIR / f"rnic-{k.series}-{key}", f"RNIC module for {k.release}", build)


def prune(keep_days=14):
    """Drops artefacts that no run has used for a while; the cache would only grow otherwise."""
    limit = time.time() - keep_days * 86400
    for path in CACHE_DIR.iterdir():
        if path.stat().st_mtime < limit:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def accelerator(k, first_stage):
    """'kvm' if a machine really starts with it, else 'tcg'. Asked once for each boot of the host.

    A /dev/kvm may exist and still never run a guest, so only a guest that speaks counts.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    memo = CACHE_DIR / "accelerator"
    if memo.exists():
        known = memo.read_text().split()
        if len(known) == 2 and known[0] == boot:
            return known[1]
    argv = ["qemu-system-x86_64", "-M", "q35", "-accel", "kvm", "-cpu", "max", "-m", "256",
            "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
            "-kernel", k.vmlinuz, "-initrd", first_stage, "-append", "console=ttyS0 quiet lab.probe"]
    try:
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, timeout=10,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        found = "kvm" if b"lab: probe ok" in done.stdout else "tcg"
    except subprocess.TimeoutExpired:
        found = "tcg"
    memo.write_text(f"{boot} {found}\n")
    return found
