"""A broker that is down for 5, 20 and 60 s under 100 workers on streams and 100 with plain stubs, at
default settings: no lease is lost, and nothing runs twice. Case S86."""

import threading
import unittest

import grpc

from broker import BrokerTest, enqueue, list_jobs, pb, stats, wait_until
from stint_api import Api
from stream_session import StreamSession

WORKERS = 100
# What each lease has at least after a restart, and a little more.
RESTART_GRACE_SECONDS = 32
# PROTOCOL.md, "Channel settings".
PAGE_OPTIONS = (("grpc.keepalive_time_ms", 20000), ("grpc.keepalive_timeout_ms", 5000),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 2000))
OPEN_OUTCOME = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.CANCELLED)


class PlainWorker:
    """Takes one job by unary calls, renews its lease until told to end, and completes it; then asks
    for more until the test is over."""

    def __init__(self, address, name, end):
        self.api = Api(address, options=PAGE_OPTIONS, patient=False)
        self.name = name
        self.end = end
        self.over = threading.Event()
        self.begun = threading.Event()
        self.taken = []
        self.verdicts = set()
        self.failed = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _repeat(self, method, request, timeout):
        while True:
            try:
                return method(request, timeout=timeout)
            except grpc.RpcError as error:
                if error.code() not in OPEN_OUTCOME:
                    raise
            if self.over.wait(0.5):
                return None

    def _lease(self):
        while not self.over.is_set():
            request = pb.LeaseJobsRequest(queues=["plain"], worker=self.name, wait={"seconds": 1},
                                          request_id=f"{self.name}-{len(self.taken)}")
            answer = self._repeat(self.api.worker.LeaseJobs, request, 10)
            if answer is not None and answer.leases:
                self.taken.append(answer.leases[0])
                return

    def _run(self):
        try:
            self._lease()
            self.begun.set()
            item = pb.HeartbeatItem(job=self.taken[0].job, token=self.taken[0].token)
            beat = pb.HeartbeatRequest(worker=self.name, leases=[item])
            while not self.end.wait(self.taken[0].heartbeat_interval.seconds):
                answer = self._repeat(self.api.worker.Heartbeat, beat, 5)
                self.verdicts.add(answer.results[0].status)
            self._repeat(self.api.worker.CompleteJob,
                         pb.CompleteJobRequest(job=item.job, token=item.token), 5)
            self._lease()
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error
            self.begun.set()

    def close(self):
        self.over.set()
        self.thread.join()
        self.api.close()


class OutageTest(BrokerTest):
    def start_workers(self, broker):
        """Half of the `stint work`, and what ends their commands."""
        command, end = self.until_told()
        return [self.worker(broker, "stream", "--concurrency", "1", "--exec", command)
                for _ in range(WORKERS // 2)], end

    def check(self, seconds):
        broker = self.start_broker()
        api = broker.api()
        jobs = {queue: enqueue(api, queue, count=WORKERS) for queue in ("stream", "plain")}
        early, end_early = self.start_workers(broker)
        late, end_late = self.start_workers(broker)
        ends = [threading.Event(), threading.Event()]
        plain = [PlainWorker(broker.address, f"p{number}", ends[number % 2])
                 for number in range(WORKERS)]
        for worker in plain:
            self.addCleanup(worker.close)
        for worker in plain:
            self.assertTrue(worker.begun.wait(60))
        wait_until(lambda: stats(api, "stream").leased == WORKERS)

        broker.kill()
        # Half of the handlers end while the broker is down.
        end_early()
        ends[0].set()
        threading.Event().wait(seconds)
        broker.start()
        api = broker.api()
        # Takes whatever lapses.
        thief = StreamSession(api, "thief", queues=["stream", "plain"], credit=2 * WORKERS)
        threading.Event().wait(RESTART_GRACE_SECONDS)
        for queue in jobs:
            counted = stats(api, queue)
            self.assertEqual((counted.completed, counted.leased), (WORKERS // 2, WORKERS // 2))

        end_late()
        ends[1].set()
        for queue in jobs:
            wait_until(lambda queue=queue: stats(api, queue).completed == WORKERS)
            ended = list_jobs(api, queue)
            self.assertEqual([job.name for job in ended], jobs[queue])
            self.assertEqual({(job.state, job.attempt, len(job.attempts)) for job in ended},
                             {(pb.JOB_STATE_COMPLETED, 1, 0)})
        for worker in early + late:
            self.assertEqual(worker.terminate(), 0, worker.log())
            self.assertNotIn("lease lost", worker.log())
        for worker in plain:
            worker.close()
            self.assertIsNone(worker.failed)
            self.assertEqual(len(worker.taken), 1)
            self.assertLessEqual(worker.verdicts, {pb.LEASE_STATUS_RENEWED})
        thief.heartbeat([])
        self.assertEqual(thief.pushed, [])
        self.assertEqual(thief.goodbye(), grpc.StatusCode.OK)

    def test_5_seconds(self):
        self.check(5)

    def test_20_seconds(self):
        self.check(20)

    def test_60_seconds(self):
        self.check(60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
