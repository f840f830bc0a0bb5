"""A full disk: the process goes on, nothing acknowledged is lost, and people can make room.

Cases S77 and S78, on a small file system of the test's own.
"""

import os
import threading
import unittest

from mounts import SmallDisk, enter_mount_namespace

enter_mount_namespace()  # the rest of this program runs once it is inside

import grpc  # noqa: E402

from broker import BrokerTest, DEADLINE, Refused, enqueue, get, lease, pb, stats, wait_until
from stint_api import health

PAYLOAD_BYTES = 10 << 10
BATCH = 20
PRODUCERS = 3


def repeat_while_recovering(method, request):
    """The answer. "Outcome unknown, repeat" is repeated, as PROTOCOL.md says."""
    for _ in range(1000):
        try:
            return method(request, timeout=DEADLINE)
        except grpc.RpcError as error:
            if Refused(error).reason != "STORE_RECOVERING":
                raise
    raise AssertionError("the broker does not get out of STORE_RECOVERING")


class Filler(threading.Thread):
    """Enqueues payloads that cannot be compressed until it is refused."""

    def __init__(self, broker, name, queue):
        super().__init__(daemon=True)
        self.api = broker.api()
        self.name = name
        self.queue = queue
        self.enqueued = {}  # job name -> payload
        self.refused = None

    def run(self):
        for number in range(100000):
            request = pb.BatchEnqueueJobsRequest(queue=self.queue,
                                                 request_id=f"{self.name}-{number}")
            for _ in range(BATCH):
                request.items.add().job.payload = os.urandom(PAYLOAD_BYTES)
            try:
                answer = repeat_while_recovering(self.api.jobs.BatchEnqueueJobs, request)
            except grpc.RpcError as error:
                self.refused = Refused(error)
                return
            for item, result in zip(request.items, answer.results):
                self.enqueued[result.job] = item.job.payload


class DiskTest(BrokerTest):
    def start_on_small_disk(self, size):
        self.disk = SmallDisk(os.path.join(self.folder, "disk"), size)
        self.addCleanup(self.disk.close)
        broker = self.start_broker(folder=os.path.join(self.disk.path, "data"))
        return broker, broker.api()

    def fill(self, broker, queue):
        """Fills until the broker refuses; the acknowledged payloads by job."""
        fillers = [Filler(broker, f"{queue}{n}", queue) for n in range(PRODUCERS)]
        for filler in fillers:
            filler.start()
        kept = {}
        for filler in fillers:
            filler.join(4 * DEADLINE)
            self.assertFalse(filler.is_alive())
            self.assertEqual(filler.refused.reason, "STORE_LOW_SPACE", str(filler.refused))
            self.assertEqual(filler.refused.code, grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertGreater(filler.refused.retry_delay, 0)
            kept.update(filler.enqueued)
        self.assertGreater(len(kept), 1000)
        return kept

    def check_reads(self, api, kept):
        name, payload = next(iter(kept.items()))
        self.assertEqual(get(api, name).spec.payload, payload)
        self.assertEqual(len(api.jobs.ListJobs(pb.ListJobsRequest(queue="full", page_size=10),
                                               timeout=DEADLINE).jobs), 10)
        self.assertEqual(stats(api, "full").ready, len(kept))
        self.assertTrue(api.admin.GetServerInfo(pb.GetServerInfoRequest(),
                                                timeout=DEADLINE).low_space)
        self.assertEqual(health(api.channel), 1)

    def check_heartbeats(self, api, held):
        beat = api.worker.Heartbeat(pb.HeartbeatRequest(worker="w", leases=[
            pb.HeartbeatItem(job=item.job, token=item.token) for item in held]), timeout=DEADLINE)
        self.assertEqual([result.status for result in beat.results],
                         [pb.LEASE_STATUS_RENEWED] * len(held))

    def check_settles(self, api, held, waiting):
        """Complete, fail, release, cancel, delete and purge."""
        repeat_while_recovering(api.worker.CompleteJob, pb.CompleteJobRequest(
            job=held[0].job, token=held[0].token, result=b"done"))
        repeat_while_recovering(api.worker.FailJob, pb.FailJobRequest(
            job=held[1].job, token=held[1].token, error="no", no_retry=True))
        repeat_while_recovering(api.worker.ReleaseJob, pb.ReleaseJobRequest(
            job=held[2].job, token=held[2].token))
        repeat_while_recovering(api.jobs.CancelJob, pb.CancelJobRequest(
            job=waiting[0], request_id="cancel"))
        repeat_while_recovering(api.jobs.DeleteJob, pb.DeleteJobRequest(
            job=waiting[1], request_id="delete"))
        repeat_while_recovering(api.queues.PurgeQueue, pb.PurgeQueueRequest(
            queue="purged", request_id="purge"))
        self.check_settled(api, held, waiting)

    def check_settled(self, api, held, waiting):
        self.assertEqual(get(api, held[0].job).result, b"done")
        self.assertEqual(get(api, held[1].job).state, pb.JOB_STATE_DEAD)
        self.assertEqual(get(api, held[2].job).state, pb.JOB_STATE_READY)
        self.assertEqual(get(api, waiting[0]).state, pb.JOB_STATE_CANCELLED)
        self.assert_refused("JOB_NOT_FOUND", api.jobs.GetJob, pb.GetJobRequest(job=waiting[1]))
        self.assertEqual(stats(api, "purged").ready, 0)

    def check_refused(self, api, attempts):
        for number in range(attempts):
            request = pb.EnqueueJobRequest(queue="full", request_id=f"refused-{number}",
                                           job=pb.JobSpec(payload=os.urandom(PAYLOAD_BYTES)))
            refused = self.refused(api.jobs.EnqueueJob, request)
            self.assertIn(refused.reason, ("STORE_LOW_SPACE", "STORE_RECOVERING"), str(refused))

    def check_normal(self, broker, api, kept):
        """After space has come back: enqueue works, and all is there, also after a kill."""
        # An error of the time without space may come up once more; several jobs, since a grant
        # whose outcome is unknown is nobody's until it lapses.
        for _ in range(5):
            wait_until(lambda: self.is_accepted(api, "after"))
        [held] = repeat_while_recovering(api.worker.LeaseJobs,
                                         pb.LeaseJobsRequest(queues=["after"])).leases
        repeat_while_recovering(api.worker.CompleteJob,
                                pb.CompleteJobRequest(job=held.job, token=held.token))
        self.check_kept(api, kept)
        broker.restart()
        self.check_kept(api, kept)
        self.assertEqual(get(api, held.job).state, pb.JOB_STATE_COMPLETED)

    def check_kept(self, api, kept):
        listed = {}
        token = ""
        while True:
            page = api.jobs.ListJobs(
                pb.ListJobsRequest(queue="full", page_size=1000, page_token=token,
                                   view=pb.JOB_VIEW_FULL), timeout=DEADLINE, wait_for_ready=True)
            listed.update((job.name, job.spec.payload) for job in page.jobs)
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(listed, kept)

    def test_filled_by_producers(self):
        """S77: jobs until it is refused, then another program eats every byte that is left."""
        broker, api = self.start_on_small_disk("200m")
        waiting = enqueue(api, "waiting", count=10)
        enqueue(api, "purged", count=10)
        enqueue(api, "held", count=10)
        held = lease(api, "held", count=10, worker="w", duration=60)
        kept = self.fill(broker, "full")
        self.check_reads(api, kept)
        self.check_heartbeats(api, held)
        self.check_refused(api, 100)

        self.disk.eat_all()
        self.assertLess(self.disk.free_bytes(), 4096)
        self.check_reads(api, kept)
        self.check_heartbeats(api, held)
        self.check_refused(api, 100)
        # Hardly a byte is left for what has to be written: done, or said and to be repeated.
        result = os.urandom(1 << 19)
        for item in held[3:]:
            request = pb.CompleteJobRequest(job=item.job, token=item.token, result=result)
            try:
                api.worker.CompleteJob(request, timeout=DEADLINE)
            except grpc.RpcError as error:
                self.assertIn(Refused(error).reason, ("STORE_RECOVERING", "STORE_LOW_SPACE"))
        self.check_reads(api, kept)
        self.check_heartbeats(api, held[:3])

        self.disk.give_back(8 << 20)
        for item in held[3:]:
            repeat_while_recovering(api.worker.CompleteJob, pb.CompleteJobRequest(
                job=item.job, token=item.token, result=result))
        self.check_settles(api, held, waiting)
        self.check_refused(api, 10)
        self.disk.give_back()
        self.disk.grow("400m")
        self.check_normal(broker, api, kept)
        self.check_settled(api, held, waiting)

    def test_filled_by_another_program(self):
        """S77: all is eaten while the reserve stands; what makes room works from the reserve."""
        broker, api = self.start_on_small_disk("200m")
        waiting = enqueue(api, "waiting", count=10)
        enqueue(api, "purged", count=10)
        enqueue(api, "held", count=10)
        held = lease(api, "held", count=10, worker="w", duration=60)
        names = enqueue(api, "full", count=200, payload=os.urandom(PAYLOAD_BYTES))
        kept = {name: get(api, name).spec.payload for name in names}
        self.disk.eat_all()
        broker.wait_for_line("space is low")
        self.check_heartbeats(api, held)
        self.check_settles(api, held, waiting)
        self.check_reads(api, kept)
        self.check_refused(api, 100)
        self.disk.give_back()
        self.check_normal(broker, api, kept)
        self.check_settled(api, held, waiting)

    def test_purge_gives_space_back(self):
        """S78: filled to the threshold by one queue; purged, the space is there again."""
        broker, api = self.start_on_small_disk("200m")
        # A compaction under way may take as much again as there is.
        self.assertGreater(len(self.fill(broker, "full")) * PAYLOAD_BYTES, 30 << 20)
        repeat_while_recovering(api.queues.PurgeQueue,
                                pb.PurgeQueueRequest(queue="full", request_id="purge"))
        self.assertEqual(stats(api, "full").ready, 0)
        wait_until(lambda: self.is_accepted(api, "other"))
        reserve = 25 << 20  # an eighth of the volume
        wait_until(lambda: self.is_accepted(api, "other")
                   and self.disk.used_bytes() < (50 << 20) + reserve, 2 * DEADLINE)
        self.assertTrue(broker.is_running())

    def is_accepted(self, api, queue):
        """Whether a job is accepted now; the only other answer is that space is low."""
        try:
            enqueue(api, queue, payload=os.urandom(PAYLOAD_BYTES))
            return True
        except grpc.RpcError as error:
            self.assertIn(Refused(error).reason, ("STORE_LOW_SPACE", "STORE_RECOVERING"))
            return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
