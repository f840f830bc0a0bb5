"""File systems for a test alone: small ones that become full, ones that lose power.

A test program that mounts calls `enter_mount_namespace()` first: it starts itself again where its
mounts are seen by nobody else and end with it, however it ends.
"""

import os
import subprocess
import sys

_MARK = "STINT_E2E_MOUNTS"


def enter_mount_namespace():
    """Does not return the first time. Mounting needs root: without it the test fails."""
    if os.environ.get(_MARK) == "private":
        return
    if os.geteuid() != 0:
        sys.exit(f"{sys.argv[0]}: this test mounts file systems: run it as root")
    os.environ[_MARK] = "private"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private",
                          sys.executable, "-B", *sys.argv])


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class SmallDisk:
    """A file system of `size` bytes in memory at `path`."""

    def __init__(self, path, size):
        self.path = path
        self.eaten = os.path.join(path, "eaten-by-another")
        os.mkdir(path)
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)

    def free_bytes(self):
        volume = os.statvfs(self.path)
        return volume.f_bavail * volume.f_frsize

    def used_bytes(self):
        volume = os.statvfs(self.path)
        return (volume.f_blocks - volume.f_bfree) * volume.f_frsize

    def grow(self, size):
        run("mount", "-o", f"remount,size={size}", self.path)

    def eat_all(self):
        """Another program takes every byte that is left."""
        with open(self.eaten, "ab") as file:
            for size in (1 << 20, 4096):
                while True:
                    free = self.free_bytes()
                    if free < size:
                        break
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                    except OSError:
                        break

    def give_back(self, size=None):
        """The other program frees its last `size` bytes, or all."""
        if size is None:
            os.unlink(self.eaten)
        else:
            os.truncate(self.eaten, max(0, os.path.getsize(self.eaten) - size))

    def close(self):
        run("umount", self.path)


class PowerDisk:
    """A disk in a file, mounted at `path`, whose power can be cut: what was not synced is lost."""

    def __init__(self, folder, kind):
        self.image = os.path.join(folder, f"{kind}.image")
        self.path = os.path.join(folder, kind)
        os.mkdir(self.path)
        with open(self.image, "wb") as file:
            file.truncate(1 << 30)
        run(*{"ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard"),
              "xfs": ("mkfs.xfs", "-q")}[kind], self.image)
        self.mount()

    def mount(self):
        run("mount", "-o", "loop", self.image, self.path)

    def cut_power(self):
        """From now on the disk answers nothing but errors."""
        run("xfs_io", "-x", "-c", "shutdown", self.path)

    def power_again(self):
        """As after a reboot: with what the disk had stored."""
        run("umount", self.path)
        self.mount()

    def close(self):
        run("umount", self.path)
