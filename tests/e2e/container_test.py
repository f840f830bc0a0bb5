"""The image of deploy/Dockerfile at work: what it asks for, a job through it, and its end.

Runs in a network of its own, so that the ports are those of the documents.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from containers import (DATA, IMAGE, SOURCE, Container, enter_own_network, environment, image,
                        podman, run)

enter_own_network()  # the rest of this program runs once it is inside

from broker import STINT, wait_until  # noqa: E402
from watched_process import DEADLINE, environment_without_ours  # noqa: E402

USAGE = 2
NOT_PERMITTED = "credential"
LARGEST = 130_000_000
USER = "10001"
HARDENED = ("--network", "host", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--memory", "1g", "--pids-limit", "256")


class ContainerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stint-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.secret = os.path.join(self.folder, "secret")

    def container(self, *options, **others):
        container = Container(*options, **others)
        self.addCleanup(container.remove)
        return container

    def make_tokens(self):
        """A tokens file as `stint token create` says, and the file with the secret."""
        created = self.stint("token", "create", "test").stdout.splitlines()
        tokens = os.path.join(self.folder, "tokens")
        for path, line in ((self.secret, created[0]), (tokens, created[1])):
            with open(path, "w", encoding="utf-8") as file:
                file.write(line + "\n")
        return tokens

    def stint(self, *arguments, variables=None, code=0):
        """The command line outside of the container."""
        ended = subprocess.run([STINT, *arguments], env=environment_without_ours(variables),
                               stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=DEADLINE, check=False)
        self.assertEqual(ended.returncode, code, f"{arguments}: {ended.stdout}{ended.stderr}")
        return ended

    def work_on_a_job(self, variables=None):
        """From enqueue to result, by processes outside of the container; the job's name."""
        job = self.stint("enqueue", "q", "--payload", "hello",
                         variables=variables).stdout.strip()
        self.stint("work", "q", "--exec", "tr a-z A-Z", "--max-jobs", "1", variables=variables)
        self.check_result(job, variables)
        return job

    def check_result(self, job, variables=None):
        self.assertEqual(
            self.stint("jobs", "get", job, "--result", variables=variables).stdout, "HELLO")

    def printed_commands(self):
        """What the image says when it is started without a decision about credentials."""
        container = self.container("--network", "host").start()
        self.assertEqual(container.wait(), USAGE, container.log())
        podman("rm", container.name)
        return [line.strip() for line in container.lines if line.startswith("  docker run ")]

    def run_as_printed(self, command):
        """A printed command, where `tokens` is a file in the folder one stands in."""
        words = shlex.split(command)
        self.assertEqual(words[:2], ["docker", "run"])
        container = self.container()
        container.launch_command(
            ["env", f"--chdir={self.folder}", "podman", "run", "--name", container.name,
             *words[2:]], environment())
        container.wait_until_ready()
        return container

    # --- Tests -----------------------------------------------------------------------------------

    def test_image(self):
        description = image()
        config = description["Config"]
        self.assertLess(description["Size"], LARGEST)
        self.assertEqual(config["User"].split(":")[0], USER)
        self.assertEqual(sorted(config["ExposedPorts"]), ["7150/tcp", "7151/tcp"])
        self.assertEqual(list(config["Volumes"]), [DATA])
        self.assertEqual(description["Healthcheck"]["Test"][:3], ["CMD", "stint", "health"])
        podman("run", "--rm", "--network", "host", "--entrypoint", "sh", IMAGE, "-ec",
               "test -s /etc/ssl/certs/ca-certificates.crt; test -s /usr/share/zoneinfo/Asia/Tokyo;"
               "test -s /usr/share/doc/stint/LICENSE; stint version")

    def test_without_credentials_it_says_two_commands_that_work(self):
        insecure, tokens = self.printed_commands()
        with self.subTest(insecure):
            container = self.run_as_printed(insecure)
            self.work_on_a_job()
            self.assertEqual(container.stop(), 0)
            container.remove()
        with self.subTest(tokens):
            self.make_tokens()
            container = self.run_as_printed(tokens)
            self.work_on_a_job({"STINT_TOKEN_FILE": self.secret})
            refused = self.stint("enqueue", "q", "--payload", "x", code=1).stderr
            self.assertIn(NOT_PERMITTED, refused)
            self.assertEqual(container.stop(), 0)

    def test_what_the_readme_says(self):
        """The commands of its section, but for the build, with podman in place of docker."""
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            section = file.read().split("\n## In a container\n")[1].split("\n## ")[0]
        commands = re.sub(r"^docker build .*\n", "",
                          "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)),
                          count=1, flags=re.M)
        self.container()  # has the name of the one that is left
        ended = run("bash", "-euxo", "pipefail", "-c",
                    'cd "$1"; PATH=$2:$PATH; docker() { podman "$@"; }\n' + commands,
                    "bash", self.folder, os.path.dirname(STINT), timeout=3 * DEADLINE)
        [first, second] = re.findall(r"^queues/hello/jobs/\S+$", ended.stdout, re.M)
        with open(os.path.join(self.folder, "mailer.token"), encoding="utf-8") as file:
            self.assertNotIn(file.read().strip(), podman("logs", "stint").stderr)
        listed = self.stint("jobs", "list", "hello", variables={
            "STINT_TOKEN_FILE": os.path.join(self.folder, "mailer.token")}).stdout
        self.assertRegex(listed, rf"{first.split('/')[-1]}\s.*COMPLETED")
        self.assertIn(second.split("/")[-1], listed)
        podman("stop", "stint")
        self.assertEqual(podman("inspect", "--format", "{{.State.ExitCode}}", "stint").stdout, "0\n")

    def test_hardened_and_its_data_survives_the_container(self):
        options = (*HARDENED, "--volume", f"stint-data:{DATA}",
                   "--volume", f"{self.make_tokens()}:/run/stint/tokens:ro",
                   "--env", "STINT_TOKENS_FILE=/run/stint/tokens")
        allowed = {"STINT_TOKEN_FILE": self.secret}
        container = self.container(*options).start()
        container.wait_until_ready()
        podman("healthcheck", "run", container.name)
        status = dict(line.split(":", 1) for line in
                      container.exec("cat", "/proc/1/status").stdout.splitlines())
        self.assertEqual(status["Uid"].split(), [USER] * 4)
        self.assertEqual(int(status["CapBnd"], 16), 0)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertNotEqual(container.exec("touch", "/tmp/x", check=False).returncode, 0)
        done = self.work_on_a_job(allowed)
        left = self.stint("enqueue", "later", "--payload", "y", variables=allowed).stdout.strip()
        self.assertEqual(container.stop(), 0)
        container.wait_for_line("drained")
        container.remove()

        again = self.container(*options).start()
        again.wait_until_ready()
        self.check_result(done, allowed)
        self.stint("work", "later", "--exec", "cat", "--max-jobs", "1", variables=allowed)
        self.assertEqual(
            self.stint("jobs", "get", left, "--result", variables=allowed).stdout, "y")
        self.assertEqual(again.stop(), 0)

    def test_what_its_children_leave_behind_is_buried(self):
        """As process 1 it inherits what `exec` left running: none of it stays as a zombie."""
        container = self.container("--network", "host", "--env", "STINT_INSECURE=1").start()
        container.wait_until_ready()
        orphan = container.exec(
            "sh", "-c", "tail -f /dev/null >/dev/null 2>&1 & echo $!").stdout.strip()
        parent = container.exec("sed", "-n", "s/^PPid:[^0-9]*//p", f"/proc/{orphan}/status").stdout
        self.assertEqual(parent.strip(), "1")
        container.exec("sh", "-c", f"kill -9 {orphan}")
        wait_until(lambda: container.exec(
            "test", "-e", f"/proc/{orphan}", check=False).returncode == 1)
        self.assertEqual(container.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
