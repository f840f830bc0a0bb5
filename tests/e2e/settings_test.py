"""Settings that are wrong, listening beyond loopback, and credentials."""

import os
import subprocess
import unittest

import grpc

from broker import (BrokerTest, DEADLINE, HOST, STINT, STINTD, enqueue, pb)
from stint_api import health
from watched_process import environment_without_ours

USAGE = 2


def stintd(*arguments, **environment):
    """Runs stintd, which must end by itself."""
    return subprocess.run([STINTD, *arguments], env=environment_without_ours(environment),
                          capture_output=True, text=True, timeout=DEADLINE, check=False)


class SettingsTest(BrokerTest):
    def assert_usage(self, ended, *words):
        said = ended.stderr + ended.stdout
        self.assertEqual(ended.returncode, USAGE, said)
        for word in words:
            self.assertIn(word, said)
        self.assertLess(len(said.splitlines()), 10, said)
        self.assertFalse(os.path.exists("stint-data"))

    def config(self, text):
        path = os.path.join(self.folder, "stintd.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_bad_flags(self):
        self.assert_usage(stintd("--no-such-flag"), "--no-such-flag", "--help")
        self.assert_usage(stintd("stray"), "stray")
        self.assert_usage(stintd("--listen"), "--listen")
        for flag, value, words in (
                ("--listen", "nowhere", ("listen", "host:port")),
                ("--listen", "127.0.0.1:70000", ("listen",)),
                ("--listen", "", ("listen",)),
                ("--max-payload", "1", ("max_payload", "1KiB", "63MiB")),
                ("--max-payload", "1TiB", ("max_payload",)),
                ("--max-payload", "-1MiB", ("max_payload",)),
                ("--max-payload", "3MiB", ("max_call", "max_payload")),
                ("--request-window", "5", ("request_window", "1m", "24h")),
                ("--request-window", "99999999999999999999h", ("request_window",)),
                ("--restart-grace", "1d1d", ("restart_grace",)),
                ("--read-threads", "0", ("read_threads", "1", "64")),
                ("--read-threads", "two", ("read_threads",)),
                ("--log-level", "loud", ("log_level", "debug")),
                ("--server-cert", "/no/such/file", ("server_key",)),
                ("--tokens-file", "/no/such/tokens", ("/no/such/tokens",)),
                ("--config", "/no/such/config", ("/no/such/config",))):
            with self.subTest(flag=flag, value=value):
                self.assert_usage(stintd("--memory", "--listen", f"{HOST}:0", f"{flag}={value}"),
                                  *words)
        self.assert_usage(stintd("--require-tls"), "require_tls")
        self.assert_usage(stintd("--insecure", "--tokens-file", "x"), "insecure", "tokens_file")

    def test_bad_variables(self):
        self.assert_usage(stintd(STINT_READ_THREADS="many"), "STINT_READ_THREADS", "many")
        self.assert_usage(stintd(STINT_MEMORY="perhaps"), "STINT_MEMORY", "perhaps")
        self.assert_usage(stintd(STINT_CONFIG="/no/such/config"), "/no/such/config")

    def test_bad_config_files(self):
        for text, words in (
                ('read_threads = 0', ("read_threads", "stintd.toml:1")),
                ('\nreed_threads = 2', ("reed_threads", "line 2")),
                ('listen = "127.0.0.1:7150', ("stintd.toml", "line 1")),
                ('[listen]\nport = 7150', ("stintd.toml",)),
                ('max_payload = [1]', ("max_payload",)),
                ('log_level = "shout"', ("log_level", "shout"))):
            with self.subTest(text=text):
                self.assert_usage(stintd("--config", self.config(text)), *words)

    def test_precedence_and_print_config(self):
        path = self.config('read_threads = 3\nlog_level = "error"\nblock_cache = "7MiB"\n')
        ended = stintd("--config", path, "--print-config", "--block-cache", "9MiB",
                       STINT_LOG_LEVEL="warning", STINT_BLOCK_CACHE="8MiB")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        lines = {line.split(" = ")[0]: line for line in ended.stdout.splitlines()}
        self.assertIn('"3"', lines["read_threads"].replace("= 3", '= "3"'))
        self.assertIn(f"{path}:1", lines["read_threads"])
        self.assertIn("warning", lines["log_level"])
        self.assertIn("STINT_LOG_LEVEL", lines["log_level"])
        self.assertIn("9MiB", lines["block_cache"])
        self.assertIn("--block-cache", lines["block_cache"])
        self.assertIn("default", lines["listen"])
        # What it prints is a config file.
        again = stintd("--config", self.config(ended.stdout), "--print-config")
        self.assertEqual([line.split("#")[0] for line in again.stdout.splitlines()],
                         [line.split("#")[0] for line in ended.stdout.splitlines()])

    def test_help_and_version(self):
        for flag, word in (("--help", "--max-payload"), ("--version", "stintd ")):
            ended = stintd(flag)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            self.assertIn(word, ended.stdout)

    def test_listening_beyond_loopback(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            ended = stintd("--memory", "--listen", address)
            self.assert_usage(
                ended, address,
                "docker run -e STINT_INSECURE=1 -p 127.0.0.1:7150:7150",
                "docker run -v ./tokens:/run/stint/tokens:ro "
                "-e STINT_TOKENS_FILE=/run/stint/tokens")
        for arguments in ((), ("--insecure",)):
            ended = stintd("--memory", "--listen", "no..host:0", *arguments)
            self.assert_usage(ended, "no..host", "cannot be found")
            self.assertNotIn("docker", ended.stderr)
        broker = self.broker("--memory", "--insecure")
        broker.address = "0.0.0.0:0"
        broker.start()
        self.assertEqual(len(enqueue(broker.api(), "q")), 1)
        self.assertEqual(broker.stop(), 0)


class CredentialsTest(BrokerTest):
    def make_token(self, name):
        """The secret's file and the line for the broker's tokens file."""
        ended = subprocess.run([STINT, "token", "create", name], capture_output=True, text=True,
                               env=environment_without_ours(), timeout=DEADLINE, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        secret, line = ended.stdout.splitlines()
        self.assertGreaterEqual(len(secret), 32)
        self.assertNotIn(secret, line)
        path = os.path.join(self.folder, f"{name}.token")
        with open(path, "w", encoding="ascii") as file:
            file.write(secret + "\n")
        return secret, path, line

    def tokens_file(self, *lines):
        path = os.path.join(self.folder, "tokens")
        with open(path, "w", encoding="ascii") as file:
            file.write("# credentials\n\n" + "\n".join(lines) + "\n")
        return path

    def test_tokens(self):
        secret, secret_file, line = self.make_token("mailer")
        other, other_file, other_line = self.make_token("reports")
        wrong, wrong_file, _ = self.make_token("nobody")
        broker = self.start_broker("--tokens-file", self.tokens_file(line, other_line))
        self.assertEqual(broker.log().count("plaintext"), 1)

        # Health needs no credential; everything else does.
        self.assertEqual(health(broker.api().channel), 1)
        for bad in (None, wrong, "", secret[:-1], secret + "x", "ümlaut".encode().hex()):
            api = broker.api(bad)
            for method, request in ((api.jobs.EnqueueJob, pb.EnqueueJobRequest(queue="q")),
                                    (api.worker.LeaseJobs, pb.LeaseJobsRequest(queues=["q"])),
                                    (api.queues.ListQueues, pb.ListQueuesRequest()),
                                    (api.admin.GetServerInfo, pb.GetServerInfoRequest()),
                                    (api.admin.DrainServer, pb.DrainServerRequest()),
                                    (api.jobs.GetJob, pb.GetJobRequest(job="no name"))):
                refused = self.assert_refused("UNAUTHENTICATED", method, request)
                self.assertEqual(refused.code, grpc.StatusCode.UNAUTHENTICATED)
        for good in (secret, other):
            self.assertEqual(len(enqueue(broker.api(good), "q")), 1)

        # A request id belongs to its credential.
        request = pb.EnqueueJobRequest(queue="q", request_id="same")
        first = broker.api(secret).jobs.EnqueueJob(request, timeout=DEADLINE)
        self.assertEqual(first, broker.api(secret).jobs.EnqueueJob(request, timeout=DEADLINE))
        self.assertNotEqual(first, broker.api(other).jobs.EnqueueJob(request, timeout=DEADLINE))

        self.check_command_line(broker, secret_file, wrong_file)
        for hidden in (secret, other, wrong):
            self.assertNotIn(hidden, broker.log())

    def check_command_line(self, broker, secret_file, wrong_file):
        listed = broker.stint("queues", "list", environment={"STINT_TOKEN_FILE": secret_file})
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("q", listed.stdout)
        listed = broker.stint("queues", "list", "--token-file", secret_file)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        for environment in ({}, {"STINT_TOKEN_FILE": wrong_file}):
            refused = broker.stint("queues", "list", environment=environment)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn("UNAUTHENTICATED", refused.stderr)
        missing = broker.stint("queues", "list", environment={"STINT_TOKEN_FILE": "/no/such"})
        self.assertEqual(missing.returncode, 2, missing.stderr)
        self.assertIn("/no/such", missing.stderr)
        self.assertEqual(broker.stint("health").returncode, 0)

    def test_beyond_loopback_with_tokens(self):
        secret, _, line = self.make_token("mailer")
        broker = self.broker("--memory", "--tokens-file", self.tokens_file(line))
        broker.address = "0.0.0.0:0"
        broker.start()
        self.assertEqual(len(enqueue(broker.api(secret), "q")), 1)

    def test_bad_tokens_files(self):
        good = "name all sha256:" + "0" * 64
        for line, number in (("name all", 3), ("name all sha256:00", 3), ("na/me" + good[4:], 3),
                             ("name some" + good[8:], 3), (good + "\nname", 4), ("", None)):
            with self.subTest(line=line):
                ended = stintd("--memory", "--listen", f"{HOST}:0", "--tokens-file",
                               self.tokens_file(line))
                said = ended.stderr + ended.stdout
                self.assertEqual(ended.returncode, USAGE, said)
                self.assertIn(os.path.join(self.folder, "tokens"), said)
                if number is not None:
                    self.assertIn(f"line {number}", said)

    def test_unknown_method(self):
        broker = self.start_broker("--memory")
        channel = broker.api().channel
        for path in ("/stint.v1.JobService/NoSuchCall", "/stint.v9.JobService/EnqueueJob", "/x"):
            with self.assertRaises(grpc.RpcError) as raised:
                channel.unary_unary(path)(b"", timeout=DEADLINE)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        with self.assertRaises(grpc.RpcError) as raised:
            channel.unary_unary("/stint.v1.JobService/EnqueueJob")(b"\xff\xff\xff", timeout=DEADLINE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
