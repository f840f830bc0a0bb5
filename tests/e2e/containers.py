"""The image of deploy/Dockerfile, built and run without a container service.

  containers.py            makes what is missing: the base image from the packages this machine
                           installs from, then the image. CTest's entry `container_image`.

  enter_own_network()      first thing in a test: starts it again alone with its processes, mounts
                           and network, all of which end with it
  container = Container("--read-only", ...); container.start(); container.podman("exec", ...)

buildah and podman keep everything in build/container, apart from what else the machine runs. Both
need root.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import time

from watched_process import DEADLINE, WatchedProcess

SOURCE = os.environ.get("STINT_SOURCE") or os.path.normpath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
FOLDER = os.path.join(SOURCE, "build/container")
VOLATILE = os.path.join(FOLDER, "run")
BASE = "docker.io/library/debian:bookworm-slim"
IMAGE = "localhost/stint"
BUILD_STAGE = "localhost/stint-build"
DATA = "/var/lib/stint"
_MARK = "STINT_E2E_CONTAINERS"

# crun, the other runtime, fails where cgroups are of both versions; journald is not everywhere.
_CONTAINERS_CONF = f"""[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
tmp_dir = "{VOLATILE}/libpod"
"""
_STORAGE_CONF = f"""[storage]
driver = "overlay"
graphroot = "{FOLDER}/storage"
runroot = "{VOLATILE}/storage"
"""


def say(text):
    print(f"[{time.monotonic() - _START:4.0f} s] {text}", flush=True)


_START = time.monotonic()


def environment():
    """For every command on images and containers."""
    return {**os.environ, "CONTAINERS_CONF": os.path.join(FOLDER, "containers.conf"),
            "CONTAINERS_STORAGE_CONF": os.path.join(FOLDER, "storage.conf"),
            "TMPDIR": os.path.join(FOLDER, "tmp")}


def run(*command, timeout=DEADLINE, check=True):
    """The finished command, output as text."""
    ended = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=timeout, check=False)
    if check and ended.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {ended.returncode}\n"
                             f"{ended.stdout}{ended.stderr}")
    return ended


def podman(*arguments, **options):
    return run("podman", *arguments, **options)


def enter_namespaces(*more):
    """Does not return the first time: starts this program again where its processes and mounts
    end with it, however it ends. Needs root: without it the program fails."""
    if os.environ.get(_MARK) != "inside":
        if os.geteuid() != 0:
            sys.exit(f"{sys.argv[0]}: building and running an image here needs root")
        os.environ[_MARK] = "inside"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                              "--kill-child", "--mount-proc", *more, sys.executable, "-B",
                              *sys.argv])
    prepare_folder()
    run("mount", "-t", "tmpfs", "tmpfs", VOLATILE)


# --- The image ---------------------------------------------------------------------------------

def prepare_folder():
    for folder in (VOLATILE, os.path.join(FOLDER, "tmp/buildah-cache")):
        os.makedirs(folder, exist_ok=True)
    for name, text in (("containers.conf", _CONTAINERS_CONF), ("storage.conf", _STORAGE_CONF)):
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)
    # The cache that deploy/Dockerfile mounts is the compiler cache of this machine.
    cache = os.environ.get("CCACHE_DIR") or run("ccache", "-k", "cache_dir").stdout.strip()
    os.makedirs(cache, exist_ok=True)
    link = os.path.join(FOLDER, "tmp/buildah-cache/stint-ccache")
    if not os.path.islink(link) or os.readlink(link) != cache:
        shutil.rmtree(link) if os.path.isdir(link) and not os.path.islink(link) else (
            os.path.lexists(link) and os.unlink(link))
        os.symlink(cache, link)


def package_sources():
    """The file with the Debian sources of this machine, which must be that of the base image."""
    with open("/etc/os-release", encoding="utf-8") as file:
        if "VERSION_CODENAME=bookworm\n" not in file.read():
            sys.exit("containers: the base image is made from the packages of a Debian 12, which "
                     f"this machine is not; with {BASE} in build/container it would be taken")
    for path in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        if os.path.exists(path):
            return path
    return sys.exit("containers: found no sources of Debian packages under /etc/apt")


def make_base():
    """As the published image of that name, without pages for people and without translations."""
    say(f"make {BASE} from the packages of this machine")
    archive = os.path.join(FOLDER, "tmp/base.tar")
    run("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=usr-is-merged",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        '--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Dir::Cache::pkgcache ""', '--aptopt=Dir::Cache::srcpkgcache ""',
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "bookworm", archive, package_sources(), timeout=600)
    podman("import", "--quiet", "--change", 'CMD ["bash"]', archive, BASE, timeout=300)
    os.unlink(archive)


def build(target, name):
    """Shows the steps; after a failure also what they wrote."""
    log = os.path.join(FOLDER, "build.log")
    command = ["nice", "-n", "5", "buildah", "bud", "--isolation", "chroot", "--pull-never",
               "--layers", "--format", "docker", "--file", "deploy/Dockerfile", "--tag", name,
               *target, "."]
    with open(log, "wb") as file:
        ended = subprocess.run(command, cwd=SOURCE, env=environment(), stdin=subprocess.DEVNULL,
                               stdout=file, stderr=subprocess.STDOUT, check=False)
    if ended.returncode != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            sys.exit(f"{file.read()[-20000:]}\ncontainers: building {name} failed")


def make_image():
    enter_namespaces()
    run("buildah", "rm", "--all")  # what a build that was cut off left
    if podman("image", "exists", BASE, check=False).returncode != 0:
        make_base()
    say("build the image")
    # The stage under a name of its own: removing what no name holds keeps its layers.
    build(("--target", "build"), BUILD_STAGE)
    build((), IMAGE)
    podman("image", "prune", "--force", timeout=300)
    say(f"done: {image()['Size'] / 1e6:.0f} MB")


def image():
    return json.loads(podman("image", "inspect", IMAGE).stdout)[0]


# --- Running -----------------------------------------------------------------------------------

def enter_own_network():
    """Does not return the first time. In there only loopback is up, every port is free, and what
    podman keeps about running containers begins empty."""
    enter_namespaces("--net")
    os.makedirs("/var/lib/cni", exist_ok=True)
    for folder in ("/run", "/var/lib/cni"):
        run("mount", "-t", "tmpfs", "tmpfs", folder)
    run("ip", "link", "set", "lo", "up")
    remove_containers()


def remove_containers():
    """Also those of a run that was cut off."""
    podman("rm", "--all", "--force", "--time", "0")
    podman("volume", "prune", "--force")


class Container(WatchedProcess):
    """`podman run` with these options, its output read line by line."""

    def __init__(self, *options, name="stint", command=()):
        super().__init__()
        self.name = name
        self.options = options
        self.command = command

    def start(self):
        self.launch_command(
            ["podman", "run", "--name", self.name, "--health-interval=disable", *self.options,
             IMAGE, *self.command], environment())
        return self

    def wait_until_ready(self):
        self.wait_for_line(r"\bready\b")
        self.exec("stint", "health", "--timeout", "30s")

    def exec(self, *command, **options):
        return podman("exec", self.name, *command, **options)

    def stop(self):
        """SIGTERM, as an orchestrator ends it; its exit code."""
        podman("kill", "--signal", "TERM", self.name)
        return self.wait()

    def remove(self):
        podman("rm", "--force", "--time", "0", self.name, check=False)
        self.close()


if __name__ == "__main__":
    make_image()
