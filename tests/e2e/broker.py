"""A broker process for a test: started, watched, killed, frozen, and always cleaned up.

  class MyTest(BrokerTest):
      def test_it(self):
          broker = self.start_broker()          # waits until it is ready
          api = broker.api()
          broker.kill(); broker.start()         # the same folder and address

Nothing here waits by sleeping: starts are awaited on the health service, ends on the process,
log lines on the pipe. The broker's log is printed when its test fails.
"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

from stint_api import Api, CHANNEL_OPTIONS, Refused, SOURCE, pb, watch_health
from watched_process import DEADLINE, WatchedProcess, environment_without_ours

BIN = os.environ.get("STINT_BIN") or os.path.join(SOURCE, "build/dev/bin")
STINTD = os.path.join(BIN, "stintd")
STINT = os.path.join(BIN, "stint")
SERVING = 1

# Each test program has a loopback address of its own, so that a port it used stays free while its
# broker is down: nothing else on the machine binds this address.
HOST = f"127.{64 + (os.getpid() >> 16) % 64}.{(os.getpid() >> 8) % 256}.{os.getpid() % 256}"


class Broker(WatchedProcess):
    """One data folder and one address; the process behind them comes and goes."""

    def __init__(self, folder, arguments=(), environment=None, command=()):
        super().__init__()
        self.folder = folder
        self.arguments = list(arguments)
        self.environment = environment or {}
        self.command = list(command)  # what runs stintd, such as fiu-run
        self.address = f"{HOST}:0"
        self._apis = []

    def launch(self):
        """Starts the process and returns at once."""
        storage = [] if "--memory" in self.arguments else ["--data-dir", self.folder]
        self.launch_command(
            self.command + [STINTD, "--listen", self.address] + storage + self.arguments,
            environment_without_ours(self.environment))
        return self

    def start(self):
        """Starts the process and waits until the broker says that it is ready."""
        self.launch()
        self.wait_until_ready()
        return self

    def restart(self, check_store=False):
        self.kill()
        if check_store:
            self.check_store()
        return self.start()

    def check_store(self):
        """Lets stintd read the whole store of the broker that ended: it must be sound."""
        ended = subprocess.run([STINTD, "--check-store", "--data-dir", self.folder],
                               env=environment_without_ours(self.environment), capture_output=True,
                               text=True, timeout=DEADLINE, check=False)
        assert ended.returncode == 0, f"{ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def wait_until_ready(self, timeout=DEADLINE):
        self.address = self.wait_for_line(
            r'listening(?: address=|","address":")([^\s"]+)', timeout).group(1)
        with grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS) as channel:
            call, statuses = watch_health(channel, timeout)
            ended = threading.Thread(target=lambda: (self.output_ended(), call.cancel()),
                                     daemon=True)
            ended.start()
            try:
                for status in statuses:
                    if status == SERVING:
                        return
            except grpc.RpcError as error:
                raise AssertionError(f"the broker did not become ready: {error.code().name}\n"
                                     f"{self.log()}") from error
            finally:
                call.cancel()

    def api(self, secret=None, **options):
        """Plain stubs on a channel of their own; see Api."""
        api = Api(self.address, secret, **options)
        self._apis.append(api)
        return api

    def client_environment(self, more=None):
        return environment_without_ours({"STINT_ADDRESS": self.address, **(more or {})})

    def stint(self, *arguments, environment=None, timeout=DEADLINE, **options):
        """Runs the command line against this broker; the finished process, output as text."""
        return subprocess.run([STINT, *arguments], env=self.client_environment(environment),
                              capture_output=True, text=True, timeout=timeout, check=False,
                              **options)

    def worker(self, *arguments):
        """`stint work`, started."""
        worker = WatchedProcess()
        worker.launch_command([STINT, "work", *arguments], self.client_environment())
        return worker

    def close_channels(self):
        for api in self._apis:
            api.close()
        self._apis = []

    def stop(self):
        """An orderly end without clients: an idle channel of Python's gRPC takes up to 5 s to
        notice that the broker wants it closed. The exit code."""
        self.close_channels()
        return self.terminate()

    def close(self):
        self.close_channels()
        super().close()


class BrokerTest(unittest.TestCase):
    """A test with brokers, a folder of its own, and short forms of the usual calls."""

    maxDiff = 4000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stint-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.brokers = []

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            for broker in self.brokers:
                print(f"--- log of the broker in {self.id()}:\n{tail(broker.lines)}",
                      file=sys.stderr)

    def broker(self, *arguments, folder=None, **options):
        """A broker that is not started yet."""
        broker = Broker(folder or os.path.join(self.folder, "data"), arguments, **options)
        self.brokers.append(broker)
        self.addCleanup(broker.close)
        return broker

    def start_broker(self, *arguments, **options):
        return self.broker(*arguments, **options).start()

    def worker(self, broker, *arguments):
        """`stint work`, started; ended with the test."""
        worker = broker.worker(*arguments)
        self.addCleanup(worker.close)
        return worker

    def until_told(self):
        """A shell command that runs until told, in any number of processes, and what tells it."""
        holder = subprocess.Popen(["tail", "-f", "/dev/null"])

        def end():
            holder.kill()
            holder.wait()

        self.addCleanup(end)
        return f"tail -s 0.2 -f /dev/null --pid {holder.pid}", end

    def refused(self, method, request, timeout=DEADLINE):
        """Makes the call, which must fail; how."""
        try:
            answer = method(request, timeout=timeout)
        except grpc.RpcError as error:
            return Refused(error)
        self.fail(f"accepted: {request} with {answer}")

    def assert_refused(self, reason, method, request):
        refused = self.refused(method, request)
        self.assertEqual(refused.reason, reason, f"{request} got {refused}")
        return refused


def wait_until(condition, timeout=DEADLINE):
    """For what gives no sign when it changes, such as the size of a folder; all else is awaited
    by a waiting call, a line of the log or the end of a process."""
    never = threading.Event()
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not become true"
        never.wait(0.05)


def tail(lines, count=60):
    skipped = [f"({len(lines) - count} lines before)"] if len(lines) > count else []
    return "\n".join(skipped + list(lines[-count:]))


def enqueue(api, queue, count=1, timeout=DEADLINE, **spec):
    """Enqueues `count` equal jobs; their names."""
    names = []
    while len(names) < count:
        items = [pb.BatchEnqueueItem(job=pb.JobSpec(**spec))
                 for _ in range(min(1000, count - len(names)))]
        answer = api.jobs.BatchEnqueueJobs(
            pb.BatchEnqueueJobsRequest(queue=queue, items=items), timeout=timeout)
        names += [result.job for result in answer.results]
    return names


def lease(api, queue, count=1, wait=0, duration=None, worker="", timeout=None):
    """LeaseJobs, once; the leases. `wait` and `duration` in seconds."""
    request = pb.LeaseJobsRequest(queues=[queue], max_jobs=count, worker=worker)
    request.wait.FromMilliseconds(int(wait * 1000))
    if duration is not None:
        request.lease_duration.FromMilliseconds(int(duration * 1000))
    return list(api.worker.LeaseJobs(request, timeout=timeout or wait + DEADLINE).leases)


def complete(api, held, result=b"", timeout=DEADLINE):
    return api.worker.CompleteJob(
        pb.CompleteJobRequest(job=held.job, token=held.token, result=result), timeout=timeout)


def get(api, job, timeout=DEADLINE):
    return api.jobs.GetJob(pb.GetJobRequest(job=job), timeout=timeout).job


def stats(api, queue, timeout=DEADLINE):
    return api.queues.GetQueueStats(pb.GetQueueStatsRequest(queue=queue), timeout=timeout).stats


def wait_job(api, job, wait=DEADLINE):
    """Waits until the job has ended; the job."""
    request = pb.WaitJobRequest(job=job)
    request.wait.FromMilliseconds(int(wait * 1000))
    return api.jobs.WaitJob(request, timeout=wait + DEADLINE).job


def wait_for_parked_calls(api, count):
    """Waits until so many calls wait in the broker."""
    wait_until(lambda: api.admin.GetServerInfo(
        pb.GetServerInfoRequest(), timeout=DEADLINE).parked_calls == count, 2 * DEADLINE)


def list_jobs(api, queue, timeout=DEADLINE, **fields):
    """All jobs of a queue, all pages."""
    jobs, token = [], ""
    while True:
        page = api.jobs.ListJobs(
            pb.ListJobsRequest(queue=queue, page_size=1000, page_token=token, **fields),
            timeout=timeout)
        jobs += page.jobs
        token = page.next_page_token
        if not token:
            return jobs


def state_name(state):
    return pb.JobState.Name(state).removeprefix("JOB_STATE_")


def count_states(jobs):
    return collections.Counter(state_name(job.state) for job in jobs)
