"""Sessions of workers over networks that break, brokers that restart, and readers that stop.

Cases S16, S19, S27, S85, S87.
"""

import os
import threading
import time
import unittest

from broker import (BrokerTest, HOST, complete, enqueue, get, list_jobs, pb, stats, wait_job,
                    wait_until)
from stint_api import Api
from stream_session import StreamSession, held
from tcp_points import Proxy


class StreamTest(BrokerTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_broker()
        self.api = self.server.api()

    def proxy(self):
        proxy = Proxy(self.server.address, HOST)
        self.addCleanup(proxy.close)
        return proxy

    def plain_api(self, address):
        api = Api(address)
        self.addCleanup(api.close)
        return api

    def session(self, api, worker, **options):
        session = StreamSession(api, worker, **options)
        self.addCleanup(session.cancel)
        return session

    def holding_worker(self, queue, concurrency, *options):
        """A `stint work` whose commands say that they have begun and end when told. The process,
        a function that waits for so many to begin, and one that ends all."""
        begun, end = (os.path.join(self.folder, f"{name}-{queue}") for name in ("begun", "end"))
        os.mkfifo(begun)
        os.mkfifo(end)
        reader = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)
        keeper = os.open(begun, os.O_WRONLY)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, keeper)
        os.set_blocking(reader, True)
        worker = self.worker(self.server, queue, "--concurrency", str(concurrency), "--exec",
                             f"echo x > {begun}; cat {end}", *options)

        def wait_for_begun(count):
            text = b""
            while text.count(b"\n") < count:
                text += os.read(reader, 1024)
            return text.count(b"\n")

        return worker, wait_for_begun, lambda: os.close(os.open(end, os.O_WRONLY))

    def assert_completed_at_once(self, jobs):
        """Every job was done by its first holder."""
        for job in jobs:
            ended = wait_job(self.api, job)
            self.assertEqual((ended.state, ended.attempt, len(ended.attempts)),
                             (pb.JOB_STATE_COMPLETED, 1, 0), ended)

    def test_old_stream_that_dies_after_the_new_one_took_over(self):
        """Its end touches only what was not taken over. The new one does not say that it goes on
        with the old one, which so stays open, half."""
        proxy = self.proxy()
        kept, left = enqueue(self.api, "q", count=2)
        old = self.session(self.plain_api(proxy.address), "w", queues=["q"], credit=2)
        leases = {lease.job: lease for lease in old.jobs(2)}
        proxy.fall_silent()
        new = self.session(self.plain_api(proxy.address), "w", held=held([leases[kept]]))
        self.assertEqual([result.status for result in new.welcome.held],
                         [pb.LEASE_STATUS_RENEWED])
        proxy.carry_on()
        proxy_of_new = proxy.connections
        old.heartbeat([])  # so that its end is that of a process, not of a network
        thief = self.session(self.api, "thief", queues=["q"], credit=2)
        begin = time.monotonic()
        old.cancel()
        [taken] = thief.jobs(1)
        self.assertEqual((taken.job, taken.attempt), (left, 2))
        self.assertLess(time.monotonic() - begin, 6.5)
        # Whatever the old stream shortened had the same end as the job that was left.
        self.assertEqual(new.heartbeat([leases[kept]]).results[0].status, pb.LEASE_STATUS_RENEWED)
        self.assertIn("complete", new.complete(leases[kept]).WhichOneof("result"))
        self.assertEqual(get(self.api, kept).attempt, 1)
        self.assertEqual(proxy.connections, proxy_of_new)
        self.assertEqual([lease.job for lease in thief.pushed], [left])

    def test_session_that_goes_on_with_another(self):
        """What never arrived in the old one comes again at no cost; the old one is ended."""
        proxy = self.proxy()
        held_job, lost_job = enqueue(self.api, "q", count=2)
        old = self.session(self.plain_api(proxy.address), "w", queues=["q"], credit=2)
        leases = {lease.job: lease for lease in old.jobs(2)}
        proxy.fall_silent()
        new = self.session(self.plain_api(proxy.address), "w", queues=["q"], credit=1,
                           held=held([leases[held_job]]), previous_session=old.welcome.session)
        [again] = new.jobs(1)
        self.assertEqual((again.job, again.attempt), (lost_job, 1))
        self.assertGreater(again.token, leases[lost_job].token)
        proxy.carry_on()
        self.assertEqual(old.ended().name, "OK")
        for lease in (leases[held_job], again):
            self.assertEqual(new.complete(lease).complete.state, pb.JOB_STATE_COMPLETED)
        self.assert_completed_at_once([held_job, lost_job])

    def test_a_proxy_that_resets(self):
        """`stint work` goes on in a new session each time: no lease lost, nothing run twice."""
        proxy = self.proxy()
        jobs = enqueue(self.api, "q", count=20)
        worker, wait_for_begun, end = self.holding_worker(
            "q", 25, "--address", proxy.address, "--max-jobs", "25", "--verbose")
        wait_for_begun(20)
        for _ in range(5):
            proxy.reset()
            jobs += enqueue(self.api, "q")
            wait_for_begun(1)  # in the next session
        thief = self.session(self.api, "thief", queues=["q"], credit=20)
        threading.Event().wait(6)  # more than the grace of the streams that broke
        end()
        self.assertEqual(worker.wait(), 0, worker.log())
        self.assert_completed_at_once(jobs)
        thief.heartbeat([])
        self.assertEqual(thief.pushed, [])

    def test_a_connection_that_falls_silent(self):
        """S87: `stint work` finds out by its heartbeats, long before keepalive would, and keeps
        its lease, in spite of another worker that waits for it."""
        for mode in ([], ["--unary"]):
            with self.subTest(mode=mode):
                proxy = self.proxy()
                queue = "stream" if not mode else "unary"
                [job] = enqueue(self.api, queue)
                worker, wait_for_begun, end = self.holding_worker(
                    queue, 1, "--address", proxy.address, "--max-jobs", "1", "--verbose", *mode)
                wait_for_begun(1)
                thief = self.session(self.api, "thief", queues=[queue], credit=1)
                first = proxy.connections
                begin = time.monotonic()
                proxy.fall_silent()
                proxy.wait_for_connections(first + 1, 60)
                print(f"silent connection, {queue}: another one after "
                      f"{time.monotonic() - begin:.1f} s", flush=True)
                worker.wait_for_line("is back")
                threading.Event().wait(begin + 20 - time.monotonic())  # more than the lease
                thief.heartbeat([])
                self.assertEqual(thief.pushed, [])
                self.assertEqual(get(self.api, job).holder.worker, worker_of(worker))
                end()
                self.assertEqual(worker.wait(), 0, worker.log())
                self.assert_completed_at_once([job])

    def test_an_idle_worker_that_dies_of_its_job_at_once(self):
        """S16: it had said nothing for long, yet is not taken for a slow network."""
        worker = self.worker(self.server, "q", "--exec", "kill -9 $PPID", "--worker", "A")
        wait_until(lambda: self.api.admin.GetServerInfo(
            pb.GetServerInfoRequest(), timeout=10).parked_calls == 1)
        threading.Event().wait(10)  # more than a session that breaks may have been silent
        thief = self.session(self.api, "thief", credit=1)
        [job] = enqueue(self.api, "q")
        begin = time.monotonic()
        worker.wait()
        thief = self.session(self.api, "thief", queues=["q"], credit=1)
        [taken] = thief.jobs(1)
        self.assertEqual((taken.job, taken.attempt), (job, 2))
        self.assertLess(time.monotonic() - begin, 6)


def worker_of(process):
    return process.wait_for_line(r"working as (\S+),").group(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
