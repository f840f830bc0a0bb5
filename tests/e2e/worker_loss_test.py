"""Workers that are killed, frozen or kill themselves: the broker alone brings their jobs back.

Cases S16, S17, S22, S27, S35.
"""

import os
import signal
import subprocess
import sys
import unittest

from broker import (BrokerTest, complete, enqueue, get, lease, list_jobs, pb, stats, wait_job)


def milliseconds(timestamp):
    return timestamp.ToNanoseconds() // 1_000_000


# A worker with plain stubs: heartbeats from a thread of their own, and a handler in native code
# that keeps the interpreter lock, so that the thread cannot run.
LOCKED_WORKER = """
import ctypes, sys, threading
from broker import lease, pb
from stint_api import Api, Refused
import grpc

address, seconds, busy_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
api = Api(address)
[held] = lease(api, "s27", duration=seconds, worker="locked")
done = threading.Event()

def heartbeat():
    while not done.wait(seconds / 3):
        api.worker.Heartbeat(pb.HeartbeatRequest(
            worker="locked", leases=[{"job": held.job, "token": held.token}]), timeout=10)

beats = threading.Thread(target=heartbeat)
beats.start()
print("begun", flush=True)
ctypes.PyDLL(None).poll(None, 0, busy_ms)
done.set()
beats.join()
try:
    api.worker.CompleteJob(pb.CompleteJobRequest(job=held.job, token=held.token), timeout=10)
    print("completed", flush=True)
except grpc.RpcError as error:
    print(Refused(error).reason, flush=True)
"""


class WorkerLossTest(BrokerTest):
    def start_holding_worker(self, broker, queue, *options):
        """A `stint work` that has begun one job and will not end it by itself."""
        pipe = os.path.join(self.folder, f"begun-{queue}")
        os.mkfifo(pipe)
        worker = self.worker(broker, queue, "--concurrency", "1", "--lease", "2s", "--worker", "A",
                             "--exec", f"echo $$ > {pipe}; exec tail -f /dev/null", *options)
        with open(pipe, encoding="ascii") as begun:
            command = int(begun.read())
        self.addCleanup(self.end, command)
        return worker, command

    def end(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_killed_worker(self):
        """S16: the job goes to the next worker as attempt 2, with the reason of attempt 1."""
        broker = self.start_broker()
        api = broker.api()
        [job] = enqueue(api, "s16", payload=b"work")
        worker, _ = self.start_holding_worker(broker, "s16")
        self.assertEqual(get(api, job).holder.worker, "A")
        worker.kill()
        [taken] = lease(api, "s16", wait=20, worker="B")
        self.assertEqual((taken.job, taken.attempt, taken.payload), (job, 2, b"work"))
        self.assertEqual(taken.last_attempt.outcome, pb.ATTEMPT_OUTCOME_LEASE_LAPSED)
        self.assertEqual((taken.last_attempt.attempt, taken.last_attempt.worker), (1, "A"))
        state = get(api, job)
        self.assertEqual(state.consecutive_losses, 1)
        self.assertGreaterEqual(
            milliseconds(taken.last_attempt.end_time) - milliseconds(state.create_time), 2000,
            "taken away before its lease had passed")
        complete(api, taken)
        self.assertEqual(get(api, job).state, pb.JOB_STATE_COMPLETED)

    def test_recovery_without_any_worker(self):
        """S17: jobs of a dead worker lapse while nobody polls; the next poll gets one at once."""
        broker = self.start_broker()
        api = broker.api()
        # Told to end with its first loss, so that its end says when the lapse has come.
        [witness] = enqueue(api, "s17", max_losses=1)
        [job] = enqueue(api, "s17")
        worker, _ = self.start_holding_worker(broker, "s17")
        [second] = lease(api, "s17", duration=1)
        self.assertEqual(second.job, job)
        worker.kill()
        ended = wait_job(api, witness)
        self.assertEqual((ended.state, ended.end_reason),
                         (pb.JOB_STATE_DEAD, pb.END_REASON_LEASES_LOST))
        counted = stats(api, "s17")
        self.assertEqual((counted.leased, counted.ready, counted.dead), (0, 1, 1))
        [taken] = lease(api, "s17", wait=0)
        self.assertEqual((taken.job, taken.attempt), (job, 2))

    def test_frozen_worker(self):
        """S22: a worker wakes up after its job went to another: it stops, and cannot settle."""
        broker = self.start_broker()
        api = broker.api()
        [job] = enqueue(api, "s22")
        worker, command = self.start_holding_worker(broker, "s22", "--kill-grace", "1s")
        old = get(api, job).holder.token
        worker.freeze()
        [taken] = lease(api, "s22", wait=20, duration=60, worker="B")
        self.assertEqual((taken.job, taken.attempt), (job, 2))
        self.assertGreater(taken.token, old)
        worker.thaw()
        worker.wait_for_line("lease lost")
        refused = self.assert_refused("LEASE_LOST", api.worker.CompleteJob,
                                      pb.CompleteJobRequest(job=job, token=old))
        self.assertEqual((refused.metadata["worker"], refused.metadata["attempt"]), ("B", "2"))
        self.assertEqual(worker.terminate(), 0)
        self.assertRaises(ProcessLookupError, os.kill, command, 0)
        complete(api, taken)
        self.assertEqual(get(api, job).state, pb.JOB_STATE_COMPLETED)

    def start_locked_worker(self, broker, seconds, busy_ms):
        worker = subprocess.Popen(
            [sys.executable, "-B", "-c", LOCKED_WORKER, broker.address, str(seconds),
             str(busy_ms)],
            cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.PIPE, text=True)
        self.addCleanup(worker.stdout.close)
        self.addCleanup(worker.wait)
        self.assertEqual(worker.stdout.readline(), "begun\n")
        return worker

    def test_handler_that_holds_the_interpreter_lock(self):
        """S27: heartbeats starve; it is clean when it happens, and a longer lease avoids it."""
        broker = self.start_broker()
        api = broker.api()
        [job] = enqueue(api, "s27")
        worker = self.start_locked_worker(broker, seconds=1, busy_ms=4000)
        [taken] = lease(api, "s27", wait=20, duration=60, worker="B")
        self.assertEqual((taken.job, taken.attempt), (job, 2))
        self.assertEqual(worker.stdout.readline(), "LEASE_LOST\n")
        complete(api, taken)
        ended = get(api, job)
        self.assertEqual((ended.state, ended.attempt, len(ended.attempts)),
                         (pb.JOB_STATE_COMPLETED, 2, 1))

        [job] = enqueue(api, "s27")
        worker = self.start_locked_worker(broker, seconds=60, busy_ms=2000)
        self.assertEqual(worker.stdout.readline(), "completed\n")
        self.assertEqual(get(api, job).attempt, 1)

    def test_job_that_kills_its_worker(self):
        """S35: exactly max_losses deaths, then a dead letter; the others are done."""
        broker = self.start_broker()
        api = broker.api()
        [poison] = enqueue(api, "s35", payload=b"poison\n", max_losses=5,
                           loss_backoff={"seconds": 0})
        others = enqueue(api, "s35", count=20, payload=b"harmless\n")

        def supervised_worker():
            return self.worker(
                broker, "s35", "--concurrency", "1", "--lease", "1s", "--exec",
                'read line; test "$line" = harmless || kill -9 $PPID; echo ok')

        for _ in range(5):
            self.assertEqual(supervised_worker().wait(), -signal.SIGKILL)
        survivor = supervised_worker()
        job = wait_job(api, poison)
        for other in others:
            wait_job(api, other)
        self.assertEqual(survivor.terminate(), 0)
        self.assertEqual((job.state, job.end_reason, job.attempt, job.failures),
                         (pb.JOB_STATE_DEAD, pb.END_REASON_LEASES_LOST, 6, 0))
        self.assertEqual([attempt.outcome for attempt in job.attempts],
                         [pb.ATTEMPT_OUTCOME_LEASE_LAPSED] * 5)
        done = {item.name: item for item in list_jobs(api, "s35", states=[pb.JOB_STATE_COMPLETED])}
        self.assertEqual(sorted(done), sorted(others))
        self.assertEqual({item.attempt for item in done.values()}, {1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
