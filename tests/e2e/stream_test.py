"""Sessions of workers over networks that break, brokers that restart, and readers that stop.

Cases S16, S19, S27, S85, S87.
"""

import collections
import os
import threading
import time
import unittest

from broker import BrokerTest, HOST, enqueue, get, pb, stats, wait_job, wait_until
from stint_api import Api, Refused
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
        """A `stint work` whose commands end when told. The process, a function that waits until so
        many more have begun, and one that ends all."""
        begun = os.path.join(self.folder, f"begun-{queue}")
        os.mkfifo(begun)
        reader = os.open(begun, os.O_RDONLY | os.O_NONBLOCK)
        keeper = os.open(begun, os.O_WRONLY)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, keeper)
        os.set_blocking(reader, True)
        command, end = self.until_told()
        worker = self.worker(self.server, queue, "--concurrency", str(concurrency), "--exec",
                             f"echo x > {begun}; exec {command}", *options)

        def wait_for_begun(count):
            for _ in range(2 * count):
                os.read(reader, 1)

        return worker, wait_for_begun, end

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

    def test_orderly_ends(self):
        """S85: a goodbye, and the end of the worker's half, give the jobs back at once and at no
        cost."""
        for number, leave in enumerate((StreamSession.goodbye, StreamSession.end_half)):
            queue = f"q{number}"
            jobs = enqueue(self.api, queue, count=3)
            leaving = self.session(self.api, "leaving", queues=[queue], credit=3)
            leaving.jobs(3)
            staying = self.session(self.api, "staying", queues=[queue], credit=3)
            leave(leaving)
            self.assertEqual(leaving.ended().name, "OK")
            self.assertEqual([(lease.job, lease.attempt) for lease in staying.jobs(3)],
                             [(job, 1) for job in jobs])

    def test_drain_and_restart(self):
        """Workers are told, settle what ends meanwhile, and go on when the broker is back."""
        jobs = enqueue(self.api, "q", count=6)
        workers = [self.holding_worker(f"q{number}", 3) for number in range(3)]
        for number in range(3):
            jobs += enqueue(self.api, f"q{number}", count=2)
        for _, wait_for_begun, _ in workers:
            wait_for_begun(2)
        session = self.session(self.api, "w", queues=["q"], credit=6)
        leases = session.jobs(6)
        self.server.process.terminate()
        self.assertEqual(session.drained(), pb.DRAIN_REASON_SERVER)
        # Said within the drain or refused with UNAVAILABLE, and then it is repeated.
        session.ended()
        self.assertEqual(session.status.name, "UNAVAILABLE")
        self.server.close_channels()
        self.assertEqual(self.server.wait(), 0)
        # Their settles wait for the broker.
        _, _, end_first = workers[0]
        end_first()

        self.server.start()
        self.api = self.server.api()
        again = self.session(self.api, "w", held=held(leases),
                             previous_session=session.welcome.session)
        self.assertEqual({result.status for result in again.welcome.held},
                         {pb.LEASE_STATUS_RENEWED})
        for lease in leases:
            self.assertEqual(again.complete(lease).complete.state, pb.JOB_STATE_COMPLETED)
        for number, (_, wait_for_begun, _) in enumerate(workers):
            jobs += enqueue(self.api, f"q{number}")
            wait_for_begun(1)
        thief = self.session(self.api, "thief", queues=["q", "q0", "q1", "q2"], credit=20)
        for _, _, end in workers:
            end()
        self.assert_completed_at_once(jobs)
        for worker, _, _ in workers:
            self.assertEqual(worker.terminate(), 0, worker.log())
        thief.heartbeat([])
        self.assertEqual(thief.pushed, [])

    def test_a_session_that_stops_reading(self):
        """It gets no more, whatever room it has; what was written to it, read or not, goes to others
        when its leases lapse."""
        lease_seconds, count = 6, 40
        jobs = [enqueue(self.api, "q", payload=b"x" * 500_000)[0] for _ in range(count)]
        stuck = self.session(self.api, "stuck", queues=["q"], credit=count, credit_bytes=1 << 26,
                             reading=False, lease_duration={"seconds": lease_seconds})
        wait_until(lambda: stats(self.api, "q").leased > 0)
        begin = time.monotonic()
        other = self.session(self.api, "other", queues=["q"], credit=count, credit_bytes=1 << 26)
        taken = []
        while len(taken) < count:
            lease = other.jobs(len(taken) + 1)[len(taken)]
            taken.append(lease)
            self.assertEqual(other.complete(lease).complete.state, pb.JOB_STATE_COMPLETED)
            if lease.attempt == 1:
                free = time.monotonic() - begin
        self.assertEqual({lease.job for lease in taken}, set(jobs))
        attempts = collections.Counter(lease.attempt for lease in taken)
        print(f"stopped reading: {attempts[1]} jobs went to others within {free:.1f} s, "
              f"{attempts[2]} after the lease, {time.monotonic() - begin:.1f} s", flush=True)
        self.assertGreaterEqual(attempts[1], count / 2)
        self.assertEqual(attempts[1] + attempts[2], count)
        # Its stream has been ended, unless everything found room on the way.
        stuck.read_on()

    def test_a_session_that_says_nothing(self):
        """S19, S27: its stream stands and its lease lapses all the same; its late settle is
        refused."""
        [job] = enqueue(self.api, "q")
        silent = self.session(self.api, "silent", queues=["q"], credit=1,
                              lease_duration={"seconds": 2})
        [lease] = silent.jobs(1)
        begin = time.monotonic()
        [taken] = self.session(self.api, "other", queues=["q"], credit=1).jobs(1)
        print(f"silent session with a lease of 2 s: another worker has the job after "
              f"{time.monotonic() - begin:.1f} s", flush=True)
        self.assertEqual((taken.job, taken.attempt), (job, 2))
        refused = Refused.of_status(silent.complete(lease).error)
        self.assertEqual((refused.reason, refused.metadata["worker"]), ("LEASE_LOST", "other"))

    def test_many_sessions_that_stop_reading(self):
        """The broker's memory does not grow with what they ask for."""
        sessions, each, size, count = 40, 64 << 20, 1_000_000, 900
        for _ in range(count):
            enqueue(self.api, "big", payload=b"x" * size)
        before = most = resident_mib(self.server.pid)
        api = self.plain_api(self.server.address)
        for number in range(sessions):
            self.session(api, f"s{number}", queues=["big"], credit=1000, credit_bytes=each,
                         max_reply_bytes=each, reading=False, lease_duration={"seconds": 6})
        for _ in range(32):  # longer than a lease
            most = max(most, resident_mib(self.server.pid))
            threading.Event().wait(0.25)
        print(f"{sessions} sessions that read nothing: {before:.0f} MiB before, {most:.0f} MiB at "
              "most", flush=True)
        # Half of --grpc-memory for answers, as much again for their making, and the store's reads.
        # All jobs together are more, and what was asked for is nearly three times that.
        self.assertLess(most - before, 700)
        reader = self.session(self.api, "reader", queues=["big"], credit=1)
        reader.jobs(1)

    def silence_of(self, name):
        """Seconds since the broker heard of a worker."""
        workers = self.api.admin.ListWorkers(pb.ListWorkersRequest(), timeout=10).workers
        return next(worker.silence.ToMilliseconds() / 1000
                    for worker in workers if worker.name == name)

    def test_an_idle_worker_that_dies_of_its_job_at_once(self):
        """S16: it had said nothing for long, yet is not taken for a slow network: it says that it is
        alive when it gets a job, before the first heartbeat of its lease is due (5 s)."""
        heard = os.path.join(self.folder, "heard")
        os.mkfifo(heard)
        worker = self.worker(self.server, "q", "--exec", f"cat {heard}; kill -9 $PPID",
                             "--worker", "A")
        wait_until(lambda: self.api.admin.GetServerInfo(
            pb.GetServerInfoRequest(), timeout=10).parked_calls == 1)
        threading.Event().wait(10)  # more than a session that breaks may have been silent
        [job] = enqueue(self.api, "q")
        wait_until(lambda: self.silence_of("workers/A") < 4, 4)
        begin = time.monotonic()
        os.close(os.open(heard, os.O_WRONLY))
        worker.wait()
        thief = self.session(self.api, "thief", queues=["q"], credit=1)
        [taken] = thief.jobs(1)
        self.assertEqual((taken.job, taken.attempt), (job, 2))
        self.assertLess(time.monotonic() - begin, 6)


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def worker_of(process):
    return process.wait_for_line(r"working as (\S+),").group(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
