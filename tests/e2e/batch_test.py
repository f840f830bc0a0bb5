"""Changing many jobs by a filter on the real broker, across kill -9; progress of a leased job."""

import json
import unittest

from broker import BrokerTest, DEADLINE, enqueue, get, lease, pb, stats

JOBS = 20000


class BatchTest(BrokerTest):
    def test_twenty_thousand_jobs(self):
        """Half of 20,000 jobs are cancelled, step by step, with the broker killed in between;
        then deleted. What is enqueued meanwhile is not touched."""
        broker = self.start_broker()
        api = broker.api()
        enqueue(api, "q", JOBS // 2, labels={"half": "1"})
        enqueue(api, "q", JOBS // 2, labels={"half": "2"})
        label = ("--label", "half=1")
        counted = broker.stint("jobs", "cancel", "--queue", "q", *label, "--dry-run", "--json")
        self.assertEqual(counted.returncode, 0, counted.stderr)
        self.assertEqual(json.loads(counted.stdout)["changed"], str(JOBS // 2))
        self.assertEqual(stats(api, "q").ready, JOBS)

        token, changed, steps = "", 0, 0
        while True:
            request = pb.BatchCancelJobsRequest(
                queue="q", filter=pb.JobFilter(labels={"half": "1"}), page_token=token,
                request_id=f"step-{steps}")
            result = api.jobs.BatchCancelJobs(request, timeout=DEADLINE).result
            self.assertLessEqual(result.matched, 1000)
            changed += result.changed
            steps += 1
            if steps in (2, 5):
                broker.restart()
                repeated = api.jobs.BatchCancelJobs(request, timeout=DEADLINE).result
                self.assertEqual(repeated, result)
                enqueue(api, "q", 10, labels={"half": "1"})
            token = result.next_page_token
            if not token:
                break
        self.assertEqual(changed, JOBS // 2)
        counted = stats(api, "q")
        self.assertEqual((counted.cancelled, counted.ready), (JOBS // 2, JOBS // 2 + 20))

        deleted = broker.stint("jobs", "delete", "--queue", "q", "--state", "cancelled", "--yes")
        self.assertEqual((deleted.returncode, deleted.stdout), (0, f"deleted {JOBS // 2} jobs\n"),
                         deleted.stderr)
        counted = stats(api, "q")
        self.assertEqual((counted.cancelled, counted.ready), (0, JOBS // 2 + 20))
        broker.kill()
        broker.check_store()

    def test_nobody_can_be_asked(self):
        broker = self.start_broker("--memory")
        enqueue(broker.api(), "q")
        asked = broker.stint("jobs", "cancel", "--queue", "q")
        self.assertEqual((asked.returncode, asked.stdout), (2, ""))
        self.assertIn("--yes", asked.stderr)
        self.assertEqual(stats(broker.api(), "q").ready, 1)

    def test_progress(self):
        """Shown while the job is leased; over 4 KiB it is refused."""
        broker = self.start_broker("--memory")
        api = broker.api()
        enqueue(api, "q")
        [held] = lease(api, "q", worker="w")
        beat = pb.HeartbeatRequest(worker="w", leases=[
            pb.HeartbeatItem(job=held.job, token=held.token, progress=b"7 of 9")])
        api.worker.Heartbeat(beat, timeout=DEADLINE)
        self.assertEqual(get(api, held.job).progress, b"7 of 9")
        shown = broker.stint("jobs", "get", held.job)
        self.assertIn("progress\t7 of 9\n", shown.stdout)
        beat.leases[0].progress = b"x" * 4097
        refused = self.refused(api.worker.Heartbeat, beat)
        self.assertEqual(refused.fields, ["leases[0].progress"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
