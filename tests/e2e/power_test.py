"""Power loss and failing syncs: an acknowledged job is there afterwards, and the broker says why
it stopped."""

import errno
import os
import random
import subprocess
import threading
import unittest

from mounts import PowerDisk, enter_mount_namespace

enter_mount_namespace()  # the rest of this program runs once it is inside

import grpc  # noqa: E402

from broker import (BrokerTest, DEADLINE, Refused, complete, enqueue, get, lease, list_jobs, pb,
                    wait_until)

STORE_FAILED = 4
PRODUCERS = 4
# How a call can end with a broker whose store fails: told so, cut off, or met by the shutdown.
OUTCOME_OPEN = (("UNAVAILABLE", "STORE_FAILED"), ("UNAVAILABLE", ""), ("CANCELLED", ""))


class Producer(threading.Thread):
    """Enqueues until the broker is gone, completes every third job, keeps what was answered."""

    def __init__(self, broker, name, round_, counted):
        super().__init__(daemon=True)
        self.api = broker.api(patient=False)
        self.random = random.Random(name)
        self.prefix = f"{name}-{round_}"
        self.counted = counted
        self.enqueued = {}  # job name -> payload
        self.completed = {}  # job name -> result
        # Of both, what was answered while the machine certainly had power.
        self.certain = self.enqueued, self.completed
        self.end = None

    def run(self):
        number = 0
        try:
            while True:
                number += 1
                payload = self.random.randbytes(self.random.randrange(2000))
                job = self.api.jobs.EnqueueJob(pb.EnqueueJobRequest(
                    queue=self.prefix, job=pb.JobSpec(payload=payload)), timeout=DEADLINE).job
                self.enqueued[job] = payload
                self.counted.release()
                if number % 3 == 0:
                    [held] = lease(self.api, self.prefix)
                    complete(self.api, held, result=payload[:100])
                    self.completed[held.job] = payload[:100]
        except grpc.RpcError as error:
            self.end = Refused(error)


class PowerTest(BrokerTest):
    def load(self, broker, round_, acknowledgements):
        """Producers that have had so many answers and go on."""
        counted = threading.Semaphore(0)
        producers = [Producer(broker, f"producer{n}", round_, counted) for n in range(PRODUCERS)]
        for producer in producers:
            producer.start()
        for _ in range(acknowledgements):
            self.assertTrue(counted.acquire(timeout=DEADLINE), "no progress")
        return producers

    def check_end(self, broker, producers):
        """The broker ends with its own exit code and one line; each call was told so."""
        self.assertEqual(broker.wait(), STORE_FAILED)
        lines = [line for line in broker.lines[broker.first_line:]
                 if "the store failed; the broker stops" in line]
        self.assertEqual(len(lines), 1, broker.log())
        for producer in producers:
            producer.join(DEADLINE)
            self.assertFalse(producer.is_alive())
            self.assertIn((producer.end.code.name, producer.end.reason), OUTCOME_OPEN)
        return lines[0]

    def check_kept(self, api, producers):
        for producer in producers:
            if not producer.certain[0]:
                continue  # it may not have come as far as a queue
            listed = {job.name: job for job in list_jobs(api, producer.prefix,
                                                         view=pb.JOB_VIEW_FULL)}
            for name, payload in producer.certain[0].items():
                self.assertIn(name, listed)
                self.assertEqual(listed[name].spec.payload, payload)
            for name, result in producer.certain[1].items():
                self.assertEqual(listed[name].state, pb.JOB_STATE_COMPLETED)
                self.assertEqual(listed[name].result, result)
            # At most the one call that was under way.
            self.assertLessEqual(len(listed), len(producer.enqueued) + 1)

    def check_power_loss(self, kind):
        disk = PowerDisk(self.folder, kind)
        self.addCleanup(disk.close)
        broker = self.broker(folder=os.path.join(disk.path, "data"))
        all_producers = []
        for round_ in range(3):
            broker.start()
            producers = self.load(broker, round_, 150)
            # A shut-down is not quite a cut: a sync that is under way may return as if it had
            # written. A bare program on xfs that only appends and calls fdatasync lost its last
            # record so in 13 of 401 shut-downs, and never one whose sync had returned before.
            # A machine without power lets nothing return.
            for producer in producers:
                producer.certain = dict(producer.enqueued), dict(producer.completed)
            disk.cut_power()
            self.check_end(broker, producers)
            all_producers += producers
            disk.power_again()
            broker.check_store()
            broker.start()
            self.check_kept(broker.api(), all_producers)
            broker.kill()
        jobs = sum(len(producer.enqueued) for producer in all_producers)
        print(f"{kind}: {jobs} acknowledged jobs, none lost in 3 cuts of power")

    def test_power_loss_on_ext4(self):
        self.check_power_loss("ext4")

    def test_power_loss_on_xfs(self):
        self.check_power_loss("xfs")

    # --- System calls that fail: fiu tells them to ---------------------------------------------

    def faulty_broker(self):
        self.control = os.path.join(self.folder, "fiu")
        return self.broker(command=["fiu-run", "-x", "-f", self.control]).start()

    def inject(self, broker, command):
        subprocess.run(["fiu-ctrl", "-f", self.control, "-c", command, str(broker.pid)],
                       check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE)

    def check_failing_call(self, call, number):
        broker = self.faulty_broker()
        producers = self.load(broker, 0, 100)
        self.inject(broker, f"enable name={call},failinfo={number}")
        line = self.check_end(broker, producers)
        self.assertIn(os.strerror(number), line)
        broker.command = []
        broker.start()
        self.check_kept(broker.api(), producers)

    def test_sync_fails(self):
        self.check_failing_call("posix/io/sync/fdatasync", errno.EIO)

    def test_write_fails(self):
        self.check_failing_call("posix/io/rw/write", errno.EIO)

    def test_sync_finds_the_disk_full(self):
        """Whichever call says that space is out: the broker goes on."""
        broker = self.faulty_broker()
        api = broker.api()
        enqueue(api, "q")
        [held] = lease(api, "q")
        self.inject(broker, f"enable name=posix/io/sync/fdatasync,failinfo={errno.ENOSPC}")
        request = pb.CompleteJobRequest(job=held.job, token=held.token, result=b"r")
        refused = self.refused(api.worker.CompleteJob, request)
        self.assertEqual(refused.reason, "STORE_RECOVERING", str(refused))
        self.inject(broker, "disable name=posix/io/sync/fdatasync")
        wait_until(lambda: self.is_accepted(api.worker.CompleteJob, request))
        self.assertEqual(get(api, held.job).result, b"r")
        self.assertTrue(broker.is_running())

    def is_accepted(self, method, request):
        try:
            method(request, timeout=DEADLINE)
            return True
        except grpc.RpcError as error:
            self.assertEqual(Refused(error).reason, "STORE_RECOVERING")
            return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
