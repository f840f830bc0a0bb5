"""kill -9 of the broker: nothing acknowledged is lost, nothing completes twice.

Cases S71, S74, S75 and the issue's "20 rounds under load".
"""

import random
import threading
import unittest

import grpc

from broker import (BrokerTest, DEADLINE, Refused, complete, enqueue, get, lease, list_jobs, pb,
                    stats, wait_job)

ROUNDS = 20
PRODUCERS = 4
WORKERS = 4
QUEUE = "load"


class Ledger:
    """Every acknowledgement the clients of a test got, and a signal for each further one."""

    def __init__(self):
        self._changed = threading.Condition()
        self.count = 0
        self.enqueued = {}  # request id -> (job name, payload)
        self.granted = []  # leases
        self.completed = []  # (job name, token)
        self.failed = []  # (job name, token, next attempt)
        self.lost = []  # (job name, token): refused with LEASE_LOST

    def record(self, change):
        with self._changed:
            change()
            self.count += 1
            self._changed.notify_all()

    def wait_for_more(self, count):
        with self._changed:
            target = self.count + count
            assert self._changed.wait_for(lambda: self.count >= target, DEADLINE), "no progress"


class Client(threading.Thread):
    """A thread that repeats each call until it has an answer, as PROTOCOL.md tells it to."""

    def __init__(self, name, broker, ledger, stop):
        super().__init__(name=name, daemon=True)
        self.random = random.Random(name)
        self.api = broker.api()
        self.ledger = ledger
        self.stopped = stop
        self.error = None

    def run(self):
        try:
            self.work()
        except BaseException as error:  # shown by the test, which must not pass then
            self.error = error

    def until_answered(self, method, request):
        """The answer; a refusal other than UNAVAILABLE is raised."""
        while True:
            try:
                return method(request, timeout=DEADLINE, wait_for_ready=True)
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
            answer = self.until_answered(self.api.jobs.EnqueueJob, request)
            self.ledger.record(
                lambda: self.ledger.enqueued.update({request_id: (answer.job, payload)}))


class Worker(Client):
    def work(self):
        number = 0
        while not self.stopped.is_set():
            number += 1
            request = pb.LeaseJobsRequest(queues=[QUEUE], max_jobs=3, worker=self.name,
                                          request_id=f"{self.name}-{number}")
            request.lease_duration.FromSeconds(2)
            request.wait.FromMilliseconds(300)
            for held in self.until_answered(self.api.worker.LeaseJobs, request).leases:
                self.ledger.record(lambda: self.ledger.granted.append(held))
                self.settle(held)

    def settle(self, held):
        try:
            if held.failures == 0 and self.random.random() < 0.2:
                answer = self.until_answered(
                    self.api.worker.FailJob,
                    pb.FailJobRequest(job=held.job, token=held.token, error="once"))
                self.ledger.record(lambda: self.ledger.failed.append(
                    (held.job, held.token, answer.next_attempt)))
            else:
                self.until_answered(
                    self.api.worker.CompleteJob,
                    pb.CompleteJobRequest(job=held.job, token=held.token,
                                          result=str(held.token).encode()))
                self.ledger.record(lambda: self.ledger.completed.append((held.job, held.token)))
        except grpc.RpcError as error:
            refused = Refused(error)
            if refused.reason != "LEASE_LOST":
                raise
            self.ledger.record(lambda: self.ledger.lost.append((held.job, held.token)))


class KillTest(BrokerTest):
    def test_kill_under_load(self):
        broker = self.start_broker("--restart-grace", "1s")
        ledger = Ledger()
        no_more_jobs, no_more_work = threading.Event(), threading.Event()
        producers = [Producer(f"producer{n}", broker, ledger, no_more_jobs)
                     for n in range(PRODUCERS)]
        workers = [Worker(f"worker{n}", broker, ledger, no_more_work) for n in range(WORKERS)]
        for client in producers + workers:
            client.start()
        chance = random.Random(1)
        for _ in range(ROUNDS):
            ledger.wait_for_more(chance.randrange(100, 500))
            broker.restart(check_store=True)
        ledger.wait_for_more(50)
        no_more_jobs.set()
        self.join(producers)
        api = broker.api()
        for job, _ in ledger.enqueued.values():
            wait_job(api, job)
        no_more_work.set()
        self.join(workers)
        self.check_enqueues(api, ledger)
        self.check_settles(api, ledger)
        lapses = self.check_attempts(api, ledger)
        self.assertEqual(broker.stop(), 0)
        print(f"{ROUNDS} kills: {len(ledger.enqueued)} jobs, {len(ledger.granted)} grants, "
              f"{len(ledger.completed)} completed, {len(ledger.failed)} failed, "
              f"{lapses} lapsed, {len(ledger.lost)} settles came too late")

    def join(self, clients):
        for client in clients:
            client.join(DEADLINE)
            self.assertFalse(client.is_alive(), client.name)
            if client.error is not None:
                raise client.error

    def check_enqueues(self, api, ledger):
        """Each acknowledged job is there, once, and nothing else is."""
        listed = {job.name: job for job in list_jobs(api, QUEUE, view=pb.JOB_VIEW_FULL)}
        self.assertEqual(len(ledger.enqueued), len(listed))
        for request_id, (name, payload) in ledger.enqueued.items():
            self.assertIn(name, listed, request_id)
            self.assertEqual(listed[name].spec.payload, payload, request_id)
            self.assertEqual(listed[name].state, pb.JOB_STATE_COMPLETED, name)
        counted = stats(api, QUEUE)
        self.assertEqual((counted.completed, counted.ready, counted.leased, counted.delayed),
                         (len(listed), 0, 0, 0))

    def check_settles(self, api, ledger):
        """One token completed each job, the newest that was ever granted; it stays so."""
        tokens = {}
        for held in ledger.granted:
            self.assertNotIn(held.token, tokens.setdefault(held.job, []), "a token twice")
            tokens[held.job].append(held.token)
        completed = dict(ledger.completed)
        self.assertEqual(len(completed), len(ledger.completed), "a job completed twice")
        for name, token in ledger.completed:
            self.assertEqual(token, max(tokens[name]), name)
            self.assertEqual(get(api, name).result, str(token).encode(), name)
        for name, token in ledger.lost:
            self.assertNotEqual(completed.get(name), token, name)

    def check_attempts(self, api, ledger):
        """attempt = 1 + failures + losses, never falling from one grant to the next."""
        failures = {}
        for name, _, _ in ledger.failed:
            failures[name] = failures.get(name, 0) + 1
        attempts, all_lapses = {}, 0
        for held in ledger.granted:
            attempts.setdefault(held.job, []).append((held.token, held.attempt))
        for name, seen in attempts.items():
            job = get(api, name)
            numbers = [attempt for _, attempt in sorted(seen)]
            self.assertEqual(numbers, sorted(numbers), name)
            self.assertEqual(numbers[-1], job.attempt, name)
            self.assertGreaterEqual(job.failures, failures.get(name, 0), name)
            lapses = sum(attempt.outcome == pb.ATTEMPT_OUTCOME_LEASE_LAPSED
                         for attempt in job.attempts)
            self.assertEqual(job.attempt, 1 + job.failures + lapses, job)
            all_lapses += lapses
        return all_lapses

    def test_complete_after_a_take_over_then_kill(self):
        """S74: 200 jobs taken over after a lapse, completed, and the broker killed at once."""
        broker = self.start_broker("--restart-grace", "0")
        api = broker.api()
        done = []
        for _ in range(8):
            jobs = enqueue(api, "s74", count=25)
            dead = {held.job: held for held in lease(api, "s74", count=25, duration=1)}
            self.assertEqual(sorted(dead), sorted(jobs))
            taken = []
            while len(taken) < 25:
                taken += lease(api, "s74", count=25, wait=10, duration=5)
            for held in taken:
                self.assertEqual(held.attempt, 2)
                self.assertGreater(held.token, dead[held.job].token)
            settles = [pb.SettleItem(complete=pb.CompleteJobRequest(job=held.job, token=held.token))
                       for held in taken]
            answer = api.worker.SettleJobs(pb.SettleJobsRequest(items=settles), timeout=DEADLINE)
            broker.kill()
            broker.check_store()
            self.assertEqual([result.WhichOneof("result") for result in answer.results],
                             ["complete"] * 25)
            done += jobs
            broker.start()
            for job in jobs:
                self.assertEqual(get(api, job).state, pb.JOB_STATE_COMPLETED)
            refused = self.assert_refused(
                "LEASE_LOST", api.worker.CompleteJob,
                pb.CompleteJobRequest(job=jobs[0], token=dead[jobs[0]].token))
            self.assertEqual(refused.metadata["state"], "COMPLETED")
        self.assertEqual(lease(api, "s74", count=100, wait=2), [])
        self.assertEqual(stats(api, "s74").completed, len(done))

    def test_attempts_after_a_kill(self):
        """S75: never leased, held in attempt 2, waiting for attempt 3."""
        broker = self.start_broker()
        api = broker.api()
        no_wait = pb.RetryPolicy()
        no_wait.initial_delay.FromSeconds(0)
        fresh = enqueue(api, "fresh", count=10)
        enqueue(api, "held", count=10, retry=no_wait)
        waiting = enqueue(api, "waiting", count=10, retry=no_wait)

        def fail_all(queue, retry_after=None):
            for job in lease(api, queue, count=10):
                request = pb.FailJobRequest(job=job.job, token=job.token)
                if retry_after is not None:
                    request.retry_after.FromSeconds(retry_after)
                api.worker.FailJob(request, timeout=DEADLINE)

        fail_all("held")
        held = lease(api, "held", count=10)
        fail_all("waiting")
        fail_all("waiting", retry_after=2)
        broker.restart(check_store=True)

        self.assertEqual([(job.job, job.attempt) for job in lease(api, "fresh", count=10)],
                         [(job, 1) for job in fresh])
        for job in held:
            self.assertEqual(job.attempt, 2)
            self.assertEqual(get(api, job.job).holder.token, job.token)
            complete(api, job)
        third = []
        while len(third) < 10:
            third += lease(api, "waiting", count=10, wait=10)
        self.assertEqual(sorted(job.job for job in third), sorted(waiting))
        self.assertEqual({job.attempt for job in third}, {3})
        self.assertEqual({job.failures for job in third}, {2})

    def test_repeated_request_ids_after_a_kill(self):
        """S71: the call's outcome is unknown when the broker dies; repeating it makes one job."""
        broker = self.start_broker()
        api = broker.api()
        for number in range(20):
            request = pb.EnqueueJobRequest(queue="s71", request_id=f"r{number}",
                                           job=pb.JobSpec(payload=b"x" * 1000))
            unanswered = api.jobs.EnqueueJob.future(request, timeout=DEADLINE)
            # Killed anywhere from before the call arrives to after its answer has left.
            if number % 3:
                stats_call = api.queues.ListQueues.future(pb.ListQueuesRequest(), timeout=DEADLINE)
                if number % 3 == 2:
                    stats_call.exception()
            broker.restart(check_store=True)
            answered = unanswered.exception() is None
            again = api.jobs.EnqueueJob(request, timeout=DEADLINE, wait_for_ready=True)
            self.assertEqual(
                again, api.jobs.EnqueueJob(request, timeout=DEADLINE))
            if answered:
                self.assertEqual(again, unanswered.result())
            self.assertEqual(stats(api, "s71").ready, number + 1)
        taken = lease(api, "s71", count=100)
        self.assertEqual(len({held.job for held in taken}), 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
