"""`kill -9` of `stint work` at default settings: how soon another worker has the job. Case S16."""

import random
import threading
import time
import unittest

from broker import BrokerTest, enqueue, pb, stats, wait_job, wait_until
from stream_session import StreamSession

WORKERS = 25
TIMES = 2
# Longer than two frames of a worker that holds a lease, so that kills meet every moment between.
KILLED_WITHIN_SECONDS = 12
AT_MOST_SECONDS = 6


class StreamKillTest(BrokerTest):
    def kill_and_take(self, api, worker, queue, job, delay, seconds):
        """Kills the worker at its moment; notes when a session that waits has the job."""
        session = StreamSession(api, f"thief-{queue}", queues=[queue], credit=1)
        threading.Event().wait(delay)
        begin = time.monotonic()
        worker.kill()
        [taken] = session.jobs(1)
        seconds.append(time.monotonic() - begin)
        assert (taken.job, taken.attempt) == (job, 2), taken
        assert taken.last_attempt.outcome == pb.ATTEMPT_OUTCOME_LEASE_LAPSED, taken
        session.complete(taken)
        session.goodbye()

    def test_time_until_another_worker_has_the_job(self):
        broker = self.start_broker()
        api = broker.api()
        chance = random.Random(16)
        seconds = []
        for round_number in range(TIMES):
            rounds = []
            for number in range(WORKERS):
                queue = f"q{round_number}-{number}"
                [job] = enqueue(api, queue)
                worker = self.worker(broker, queue, "--exec",
                                     "exec tail -f /dev/null --pid $PPID")
                rounds.append((worker, queue, job))
            for _, queue, _ in rounds:
                wait_until(lambda queue=queue: stats(api, queue).leased == 1)
            threads = [threading.Thread(target=self.kill_and_take, args=(
                api, worker, queue, job, chance.uniform(0, KILLED_WITHIN_SECONDS), seconds))
                       for worker, queue, job in rounds]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for _, _, job in rounds:
                self.assertEqual(wait_job(api, job).state, pb.JOB_STATE_COMPLETED)
        seconds.sort()
        self.assertEqual(len(seconds), WORKERS * TIMES)
        print(f"taken over after kill -9, {len(seconds)} rounds: min {seconds[0]:.2f} s, "
              f"p50 {seconds[len(seconds) // 2]:.2f} s, "
              f"p95 {seconds[int(len(seconds) * 0.95)]:.2f} s, max {seconds[-1]:.2f} s", flush=True)
        self.assertLess(seconds[-1], AT_MOST_SECONDS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
