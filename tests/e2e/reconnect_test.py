"""Workers whose broker goes away, and connections that die without a word. Cases S86, S87."""

import os
import threading
import unittest

import grpc

from broker import (BrokerTest, HOST, complete, enqueue, list_jobs, pb, stats,
                    wait_for_parked_calls, wait_job)
from stint_api import Api
from tcp_points import ClosedDoor, Proxy

WORKERS = 50
DOWN_SECONDS = 5


class ReconnectTest(BrokerTest):
    def test_many_workers_and_a_broker_that_was_down(self):
        """S86: all come back, no lease is lost, and nobody hammers meanwhile."""
        broker = self.start_broker()
        api = broker.api()
        begun, end = os.path.join(self.folder, "begun"), os.path.join(self.folder, "end")
        os.mkfifo(begun)
        os.mkfifo(end)
        jobs = enqueue(api, "q", count=WORKERS)
        reader = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        workers = [self.worker(broker, "q", "--concurrency", "1", "--max-jobs", "1",
                               "--exec", f"echo x > {begun}; cat {end}")
                   for _ in range(WORKERS)]
        os.set_blocking(reader, True)
        self.read_lines(reader, WORKERS)
        self.assertEqual(stats(api, "q").leased, WORKERS)

        broker.kill()
        door = ClosedDoor(broker.address)
        threading.Event().wait(DOWN_SECONDS)
        door.close()
        broker.start()
        api = broker.api()
        enqueue(api, "at-once")
        # Each tries again and again, none more than every quarter of a second.
        self.assertGreaterEqual(door.attempts, WORKERS)
        self.assertLessEqual(door.attempts, WORKERS * (DOWN_SECONDS * 4 + 1))

        for worker in workers:
            worker.wait_for_line("is back")
        # All handlers end at once, by the end of the file they read.
        os.close(os.open(end, os.O_WRONLY))
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.log())
        ended = list_jobs(api, "q")
        self.assertEqual([job.name for job in ended], jobs)
        self.assertEqual({(job.state, job.attempt) for job in ended},
                         {(pb.JOB_STATE_COMPLETED, 1)})

    def read_lines(self, descriptor, count):
        text = b""
        while text.count(b"\n") < count:
            text += os.read(descriptor, 1024)

    def test_connections_that_fall_silent(self):
        """S87: a worker in a long poll finds out and asks again; the broker forgets the old
        poll. `stint work`, and plain stubs with the settings of PROTOCOL.md."""
        broker = self.start_broker()
        api = broker.api()
        proxy = Proxy(broker.address, HOST)
        self.addCleanup(proxy.close)
        worker = self.worker(broker, "cli", "--address", proxy.address, "--exec", "cat",
                             "--concurrency", "1", "--max-jobs", "1")
        plain = Api(proxy.address)
        self.addCleanup(plain.close)
        request = pb.LeaseJobsRequest(queues=["plain"], wait={"seconds": 60})
        poll = plain.worker.LeaseJobs.future(request, timeout=90)
        wait_for_parked_calls(api, 2)
        proxy.fall_silent()
        # Enqueued once the old polls are forgotten, or the jobs would be granted into nowhere.
        with self.assertRaises(grpc.RpcError) as raised:
            poll.result()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        again = plain.worker.LeaseJobs.future(request, timeout=90)
        [job] = enqueue(api, "cli", payload=b"x")
        enqueue(api, "plain")
        self.assertEqual(wait_job(api, job, wait=60).state, pb.JOB_STATE_COMPLETED)
        self.assertEqual(worker.wait(), 0)
        leases = again.result().leases
        while not leases:  # it was granted to the old poll, and lapses
            leases = plain.worker.LeaseJobs(request, timeout=90).leases
        complete(plain, leases[0])
        wait_for_parked_calls(api, 0)
        self.assertGreaterEqual(proxy.connections, 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
