"""SIGSTOP of the broker: a stall of the broker lapses nobody."""

import threading
import unittest

from broker import BrokerTest, DEADLINE, enqueue, get, lease, pb, stats

LEASES = 1000


class FreezeTest(BrokerTest):
    def check_freeze(self, seconds, duration):
        """The broker is stopped while it has much to write, most likely in the middle of it."""
        broker = self.start_broker()
        api = broker.api()
        enqueue(api, "q", count=LEASES)
        held = lease(api, "q", count=LEASES, duration=duration, worker="holder")
        self.assertEqual(len(held), LEASES)
        # Another worker that would take each lapsed job at once.
        request = pb.LeaseJobsRequest(queues=["q"], max_jobs=LEASES, worker="thief")
        request.wait.FromSeconds(60)
        # On a connection that does not find out that nobody answers.
        steady = broker.api(options=[("grpc.keepalive_time_ms", 3_600_000)])
        thief = steady.worker.LeaseJobs.future(request, timeout=seconds + DEADLINE + 60)

        for _ in range(100):
            steady.jobs.EnqueueJob.future(pb.EnqueueJobRequest(queue="noise"))
        broker.freeze()
        threading.Event().wait(seconds)
        broker.thaw()

        counted = stats(api, "q")
        self.assertEqual((counted.leased, counted.ready, counted.delayed), (LEASES, 0, 0))
        beat = api.worker.Heartbeat(
            pb.HeartbeatRequest(worker="holder", leases=[
                pb.HeartbeatItem(job=item.job, token=item.token) for item in held]),
            timeout=DEADLINE)
        self.assertEqual({result.status for result in beat.results}, {pb.LEASE_STATUS_RENEWED})
        self.assertEqual(len(beat.results), LEASES)
        for item in held[:: LEASES // 10]:
            job = get(api, item.job)
            self.assertEqual((job.attempt, job.holder.token, len(job.attempts)),
                             (1, item.token, 0))
        answer = api.worker.SettleJobs(pb.SettleJobsRequest(items=[
            pb.SettleItem(complete=pb.CompleteJobRequest(job=item.job, token=item.token))
            for item in held]), timeout=DEADLINE)
        self.assertEqual({result.WhichOneof("result") for result in answer.results}, {"complete"})
        self.assertEqual(stats(api, "q").completed, LEASES)
        if thief.done():
            self.assertEqual(len(thief.result().leases), 0)
        else:
            thief.cancel()
        broker.wait_for_line("stood still for")

    def test_a_minute(self):
        """60 s: every lease gets the restart grace."""
        self.check_freeze(60, duration=15)

    def test_three_seconds(self):
        """A short stall, longer than the leases: every lease gets the gap added."""
        self.check_freeze(3, duration=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
