"""Producers and workers that write down every call and its answer, and a judge of what they wrote.

  load = RecordedLoad(broker)         # begins
  load.wait_for_more(500)             # while something bad happens to the broker
  load.finish(self)                   # ends, and judges: see check_* and History

A call that ends with UNAVAILABLE is repeated, as PROTOCOL.md tells a client to; it counts from its
first sending to its answer.
"""

import collections
import random
import threading
import time

import grpc

from broker import DEADLINE, Refused, get, list_jobs, pb, stats, wait_job

PRODUCERS = 4
WORKERS = 4
QUEUE = "load"
LEASE_SECONDS = 2

# What a worker was told about one token of one job. `begin` and `end`: of its call.
Told = collections.namedtuple("Told", "what job token begin end")


class History:
    """What was told about leases, judged as a history of each job.

    A job is a register that holds one token at a time, each higher than the one before, until it is
    completed. Calls overlap, so only what had ended before something else began stands in an order.
    A pair breaks the promise when `first` had ended before `second` began, both were accepted, and

      first             second
      anything of t     anything of a token below t
      grant of t        another grant of t
      settle of t       renewal or settle of t
      completion        grant
    """

    def __init__(self, told):
        self.by_job = collections.defaultdict(list)
        for entry in told:
            self.by_job[entry.job].append(entry)

    def violations(self):
        return [(first, second) for entries in self.by_job.values()
                for first, second in self._pairs(entries) if self._contradict(first, second)]

    @staticmethod
    def _pairs(entries):
        entries = sorted(entries, key=lambda entry: entry.begin)
        for i, second in enumerate(entries):
            for first in entries[:i]:
                if first.end < second.begin:
                    yield first, second

    @staticmethod
    def _contradict(first, second):
        if second.token != first.token:
            return second.token < first.token or (first.what == "completed" and
                                                  second.what == "granted")
        return second.what == "granted" or first.what in ("completed", "failed")


class Client(threading.Thread):
    """A thread that repeats each call until it has an answer."""

    def __init__(self, name, load):
        super().__init__(name=name, daemon=True)
        self.random = random.Random(name)
        self.api = load.broker.api()
        self.load = load
        self.stopped = threading.Event()
        self.error = None

    def run(self):
        try:
            self.work()
        except BaseException as error:  # shown by the test, which must not pass then
            self.error = error

    def until_answered(self, method, request):
        """The answer, and when the call began; a refusal other than UNAVAILABLE is raised."""
        begin = time.monotonic()
        while True:
            try:
                return method(request, timeout=DEADLINE, wait_for_ready=True), begin
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise


class Producer(Client):
    def work(self):
        number = 0
        while not self.stopped.is_set():
            number += 1
            request_id = f"{self.name}-{number}"
            payload = request_id.encode() + self.random.randbytes(self.random.randrange(300))
            request = pb.EnqueueJobRequest(queue=QUEUE, request_id=request_id,
                                           job=pb.JobSpec(payload=payload, max_losses=10000))
            request.job.loss_backoff.FromSeconds(0)
            request.job.retry.initial_delay.FromSeconds(0)
            request.job.retry.max_delay.FromSeconds(0)
            answer, _ = self.until_answered(self.api.jobs.EnqueueJob, request)
            self.load.enqueued[request_id] = answer.job, payload
            self.load.note()


class Worker(Client):
    def work(self):
        number = 0
        while not self.stopped.is_set():
            number += 1
            request = pb.LeaseJobsRequest(queues=[QUEUE], max_jobs=3, worker=self.name,
                                          request_id=f"{self.name}-{number}")
            request.lease_duration.FromSeconds(LEASE_SECONDS)
            request.wait.FromMilliseconds(300)
            answer, begin = self.until_answered(self.api.worker.LeaseJobs, request)
            for held in answer.leases:
                self.load.attempts.append((held.job, held.token, held.attempt))
                self.tell("granted", held, begin)
            for held in answer.leases:
                self.run_job(held)

    def run_job(self, held):
        if self.random.random() < 0.3:
            self.renew(held)
        # Some take longer than their lease.
        if self.random.random() < 0.002:
            self.stopped.wait(LEASE_SECONDS * 1.2)
            self.renew(held)
        self.settle(held)

    def renew(self, held):
        request = pb.HeartbeatRequest(worker=self.name, leases=[
            pb.HeartbeatItem(job=held.job, token=held.token)])
        answer, begin = self.until_answered(self.api.worker.Heartbeat, request)
        if answer.results[0].status == pb.LEASE_STATUS_RENEWED:
            self.tell("renewed", held, begin)

    def settle(self, held):
        try:
            if held.failures == 0 and self.random.random() < 0.2:
                _, begin = self.until_answered(
                    self.api.worker.FailJob,
                    pb.FailJobRequest(job=held.job, token=held.token, error="once"))
                self.tell("failed", held, begin)
            else:
                _, begin = self.until_answered(
                    self.api.worker.CompleteJob,
                    pb.CompleteJobRequest(job=held.job, token=held.token,
                                          result=str(held.token).encode()))
                self.tell("completed", held, begin)
        except grpc.RpcError as error:
            refused = Refused(error)
            if refused.reason != "LEASE_LOST":
                raise
            self.load.lost.append((held.job, held.token))
            self.load.note()

    def tell(self, what, held, begin):
        self.load.told.append(Told(what, held.job, held.token, begin, time.monotonic()))
        self.load.note()


class RecordedLoad:
    """Begins at once. Lists are only ever appended to, which Python does in one step."""

    def __init__(self, broker):
        self.broker = broker
        self.enqueued = {}  # request id -> (job name, payload)
        self.told = []
        self.attempts = []  # (job name, token, attempt), as granted
        self.lost = []  # (job name, token): refused with LEASE_LOST
        self.lapses = 0
        self._count = 0
        self._changed = threading.Condition()
        self.producers = [Producer(f"producer{n}", self) for n in range(PRODUCERS)]
        self.workers = [Worker(f"worker{n}", self) for n in range(WORKERS)]
        for client in self.producers + self.workers:
            client.start()

    def note(self):
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for_more(self, count):
        """Until so many more answers have come."""
        with self._changed:
            target = self._count + count
            assert self._changed.wait_for(lambda: self._count >= target, DEADLINE), "no progress"

    def finish(self, test):
        """Lets every job come to its end, and judges."""
        self._join(self.producers)
        api = self.broker.api()
        for job, _ in self.enqueued.values():
            wait_job(api, job)
        self._join(self.workers)
        self.check_enqueues(test, api)
        self.check_settles(test, api)
        self.check_attempts(test, api)
        test.assertEqual(History(self.told).violations(), [])

    def _join(self, clients):
        for client in clients:
            client.stopped.set()
        for client in clients:
            client.join(DEADLINE)
            assert not client.is_alive(), client.name
            if client.error is not None:
                raise client.error

    def of(self, what):
        return [entry for entry in self.told if entry.what == what]

    def check_enqueues(self, test, api):
        """Each acknowledged job is there, once, and nothing else is."""
        listed = {job.name: job for job in list_jobs(api, QUEUE, view=pb.JOB_VIEW_FULL)}
        test.assertEqual(len(self.enqueued), len(listed))
        for request_id, (name, payload) in self.enqueued.items():
            test.assertIn(name, listed, request_id)
            test.assertEqual(listed[name].spec.payload, payload, request_id)
            test.assertEqual(listed[name].state, pb.JOB_STATE_COMPLETED, name)
        counted = stats(api, QUEUE)
        test.assertEqual((counted.completed, counted.ready, counted.leased, counted.delayed),
                         (len(listed), 0, 0, 0))

    def check_settles(self, test, api):
        """One token completed each job, the newest that was ever granted; it stays so."""
        tokens = collections.defaultdict(list)
        for held in self.of("granted"):
            test.assertNotIn(held.token, tokens[held.job], "a token twice")
            tokens[held.job].append(held.token)
        completed = {entry.job: entry.token for entry in self.of("completed")}
        test.assertEqual(len(completed), len(self.of("completed")), "a job completed twice")
        for name, token in completed.items():
            test.assertEqual(token, max(tokens[name]), name)
            test.assertEqual(get(api, name).result, str(token).encode(), name)
        for name, token in self.lost:
            test.assertNotEqual(completed.get(name), token, name)

    def check_attempts(self, test, api):
        """attempt = 1 + failures + losses, never falling from one grant to the next."""
        failures = collections.Counter(entry.job for entry in self.of("failed"))
        attempts = collections.defaultdict(list)
        for name, token, attempt in self.attempts:
            attempts[name].append((token, attempt))
        for name, seen in attempts.items():
            job = get(api, name)
            numbers = [attempt for _, attempt in sorted(seen)]
            test.assertEqual(numbers, sorted(numbers), name)
            test.assertEqual(numbers[-1], job.attempt, name)
            test.assertGreaterEqual(job.failures, failures[name], name)
            lapses = sum(attempt.outcome == pb.ATTEMPT_OUTCOME_LEASE_LAPSED
                         for attempt in job.attempts)
            test.assertEqual(job.attempt, 1 + job.failures + lapses, job)
            self.lapses += lapses

    def summary(self):
        return (f"{len(self.enqueued)} jobs, {len(self.of('granted'))} grants, "
                f"{len(self.of('renewed'))} renewals, {len(self.of('completed'))} completed, "
                f"{len(self.of('failed'))} failed, {self.lapses} lapsed, "
                f"{len(self.lost)} settles came too late")
