"""kill -9 of the broker: nothing acknowledged is lost, nothing completes twice.

Cases S71, S74, S75 and the issue's "20 rounds under load".
"""

import random
import unittest

from broker import BrokerTest, DEADLINE, complete, enqueue, get, lease, pb, stats, wait_job
from recorded_load import RecordedLoad

ROUNDS = 20


class KillTest(BrokerTest):
    def test_kill_under_load(self):
        broker = self.start_broker("--restart-grace", "1s")
        load = RecordedLoad(broker)
        chance = random.Random(1)
        for _ in range(ROUNDS):
            load.wait_for_more(chance.randrange(100, 500))
            broker.restart(check_store=True)
        load.wait_for_more(50)
        load.finish(self)
        self.assertEqual(broker.stop(), 0)
        print(f"{ROUNDS} kills: {load.summary()}")

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
