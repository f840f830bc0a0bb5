"""The examples of proto/PROTOCOL.md, run as written but for the broker's address."""

import os
import re
import subprocess
import sys
import unittest

from broker import BIN, BrokerTest, DEADLINE, count_states, enqueue, list_jobs
from stint_api import SOURCE, STUBS

PAGE = os.path.join(SOURCE, "proto/PROTOCOL.md")
MODULES = os.path.join(SOURCE, "build/tools/node_modules")
PAGE_ADDRESS = "127.0.0.1:7150"
EXAMPLE = re.compile(r"^```(\w+) example=(\w+)\n(.*?)^```$", re.M | re.S)


def examples():
    """name -> (language, code)"""
    with open(PAGE, encoding="utf-8") as file:
        return {name: (language, code) for language, name, code in EXAMPLE.findall(file.read())}


class PlainStubTest(BrokerTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_broker("--memory")  # as the page says

    def run_example(self, name):
        language, code = examples()[name]
        if name != "stint":
            self.assertIn(PAGE_ADDRESS, code)
        code = code.replace(PAGE_ADDRESS, self.server.address)
        command = {"sh": ["/bin/sh", "-eu", "-c", code],
                   "python": [sys.executable, "-B", "-c", code],
                   "js": ["node", "-e", code]}[language]
        environment = self.server.client_environment(
            {"PATH": os.pathsep.join((BIN, os.path.join(MODULES, ".bin"), os.environ["PATH"])),
             "PYTHONPATH": STUBS, "NODE_PATH": MODULES, "HOME": self.folder})
        link = os.path.join(self.folder, "proto")
        os.symlink(os.path.join(SOURCE, "proto"), link)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True,
                               timeout=2 * DEADLINE, check=False, cwd=self.folder)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def states(self):
        return count_states(list_jobs(self.server.api(), "email"))

    def test_every_example_has_a_test(self):
        self.assertEqual(set(examples()), {"stint", "buf", "stub", "node", "stream"})
        for name, most in (("stub", 15), ("node", 15), ("stream", 30)):
            self.assertLessEqual(len(examples()[name][1].splitlines()), most, name)

    def test_stint(self):
        said = self.run_example("stint")
        self.assertEqual(self.states(), {"COMPLETED": 1})
        self.assertRegex(said, r"queues/email/jobs/\S+")
        self.assertIn("COMPLETED", said.upper())

    def test_buf(self):
        said = self.run_example("buf")
        self.assertEqual(self.states(), {"LEASED": 1})
        self.assertIn("aGVsbG8=", said)
        self.assertIn('"token"', said)

    def test_stub(self):
        said = self.run_example("stub")
        self.assertEqual(self.states(), {"COMPLETED": 1})
        self.assertIn("hello", said)

    def test_node(self):
        said = self.run_example("node")
        self.assertEqual(self.states(), {"COMPLETED": 1})
        self.assertRegex(said, r"queues/email/jobs/\S+")

    def test_stream(self):
        [job] = enqueue(self.server.api(), "email", payload=b"hello")
        said = self.run_example("stream")
        self.assertEqual(self.states(), {"COMPLETED": 1})
        self.assertIn(job, said)
        self.assertIn("hello", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
