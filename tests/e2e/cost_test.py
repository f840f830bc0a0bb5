"""What calls cost the broker in processor time and memory, where its state could make them dear.

Cases S59, S61, S62, S63. Costs are compared with those of the same broker before, so that neither
the machine nor its neighbours decide.
"""

import os
import unittest

from broker import BrokerTest, DEADLINE, HOST, enqueue, lease, pb, stats
from scrape import http_address, read_metrics

MIB = 1 << 20


class CostTest(BrokerTest):
    def cpu_seconds(self, broker):
        """Processor time the broker has used, from the sum of its threads."""
        total = 0
        for thread in os.listdir(f"/proc/{broker.pid}/task"):
            with open(f"/proc/{broker.pid}/task/{thread}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def memory_bytes(self, broker):
        with open(f"/proc/{broker.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def allocated_bytes(self, address):
        """What the broker has allocated and not freed, without the store's buffers and cache:
        those fill up to a limit and are emptied when they like."""
        metrics = read_metrics(address)
        store = ("stint_store_memtable_bytes", "stint_store_block_cache_bytes")
        return (metrics["stint_process_allocated_memory_bytes", ()]
                - sum(metrics[name, ()] for name in store))

    def disk_bytes(self, broker):
        """Without the reserve, which is there from the start."""
        total = 0
        for name in os.listdir(broker.folder):
            if name != "RESERVE":
                try:
                    total += os.stat(os.path.join(broker.folder, name)).st_blocks * 512
                except FileNotFoundError:
                    pass  # just removed
        return total

    def cost(self, broker, action, count):
        """Processor seconds of one call."""
        before = self.cpu_seconds(broker)
        for _ in range(count):
            action()
        return (self.cpu_seconds(broker) - before) / count

    def settle_all(self, api, leases, **fields):
        request = pb.SettleJobsRequest(items=[
            {"complete": {"job": held.job, "token": held.token, **fields}} for held in leases])
        answer = api.worker.SettleJobs(request, timeout=DEADLINE)
        self.assertEqual({result.WhichOneof("result") for result in answer.results}, {"complete"})

    def test_leases_after_very_many_removals(self):
        """S62: an emptied queue costs no more than one that was always empty."""
        broker = self.start_broker()
        api = broker.api()
        keep_nothing = {"retention": {"finished_count": 0}}
        for queue in ("old", "new"):
            api.queues.CreateQueue(pb.CreateQueueRequest(queue=queue, settings=keep_nothing),
                                   timeout=DEADLINE)

        def one_job(queue):
            enqueue(api, queue)
            [held] = lease(api, queue)
            self.settle_all(api, [held])

        for queue in ("old", "new"):
            self.cost(broker, lambda queue=queue: one_job(queue), 50)  # warm
        for _ in range(100):
            enqueue(api, "old", count=1000)
            self.settle_all(api, lease(api, "old", count=1000))
        self.assertEqual(stats(api, "old").ready, 0)
        empty = {queue: self.cost(broker, lambda queue=queue: lease(api, queue), 300)
                 for queue in ("old", "new")}
        one = {queue: self.cost(broker, lambda queue=queue: one_job(queue), 300)
               for queue in ("old", "new")}
        print(f"after 100,000 removals: an empty lease {empty['old'] * 1e6:.0f} µs "
              f"(never used: {empty['new'] * 1e6:.0f}), a job {one['old'] * 1e6:.0f} µs "
              f"({one['new'] * 1e6:.0f})")

    def test_a_worker_of_thousands_of_queues(self):
        """S63: jobs come in the last of 5,000 queues of 10,000; waiting costs nothing."""
        broker = self.start_broker()
        api = broker.api()
        names = [f"q{number:05}" for number in range(10000)]
        calls = [api.jobs.EnqueueJob.future(pb.EnqueueJobRequest(queue=name), timeout=DEADLINE)
                 for name in names]
        for call in calls:
            call.result()
        for name in names[:10]:
            self.assertEqual(stats(api, name).ready, 1)
        calls = [api.queues.PurgeQueue.future(pb.PurgeQueueRequest(queue=name), timeout=DEADLINE)
                 for name in names]
        for call in calls:
            call.result()
        request = pb.LeaseJobsRequest(queues=names[:5000], wait={"seconds": 2})
        # The least of some waits: the store still tidies up after what was before.
        idle = min(self.cost(broker, lambda: api.worker.LeaseJobs(request, timeout=DEADLINE), 1)
                   for _ in range(6))

        def one_job():
            enqueue(api, names[4999])
            [held] = api.worker.LeaseJobs(request, timeout=DEADLINE).leases
            self.settle_all(api, [held])

        each = self.cost(broker, one_job, 100)
        print(f"5,000 queues: {idle / 2 * 100:.1f} % of a core idle, {each * 1e3:.1f} ms a job")

    def test_results_of_jobs_that_are_not_kept(self):
        """S59: 10,000 results of 10 KiB leave nothing behind, in memory or on disk."""
        broker = self.start_broker()
        api = broker.api()
        api.queues.CreateQueue(pb.CreateQueueRequest(
            queue="q", settings={"retention": {"finished_age": {}}}), timeout=DEADLINE)
        result = os.urandom(10 << 10)

        def many(count):
            for _ in range(count):
                enqueue(api, "q", count=100)
                self.settle_all(api, lease(api, "q", count=100), result=result)

        many(5)
        memory, disk = self.memory_bytes(broker), self.disk_bytes(broker)
        many(100)
        memory = self.memory_bytes(broker) - memory
        disk = self.disk_bytes(broker) - disk
        print(f"10,000 results: memory {memory / MIB:+.1f} MiB, disk {disk / MIB:+.1f} MiB")
        self.assertLess(memory, 50 * MIB)
        self.assertLess(disk, 50 * MIB)
        counted = stats(api, "q")
        self.assertEqual((counted.completed, counted.ended_bytes, counted.live_bytes), (0, 0, 0))

    def test_workers_that_come_and_go(self):
        """S61: 40,000 workers take a job each and vanish; the broker keeps nothing of them."""
        broker = self.start_broker("--http-listen", f"{HOST}:0")
        address = http_address(broker)
        api = broker.api()

        def vanish(numbers):
            jobs = enqueue(api, "q", count=len(numbers), max_losses=1)
            calls = [api.worker.LeaseJobs.future(
                pb.LeaseJobsRequest(queues=["q"], worker=f"worker-{number}",
                                    request_id=f"call-{number}", wait={},
                                    lease_duration={"seconds": 1}), timeout=DEADLINE)
                     for number in numbers]
            self.assertEqual(sum(len(call.result().leases) for call in calls), len(jobs))
            for job in (jobs[0], jobs[-1]):
                api.jobs.WaitJob(pb.WaitJobRequest(job=job, wait={"seconds": 30}), timeout=60)

        # The list of the workers last heard of is full after the first half.
        memory = []
        for part in range(20):
            vanish(range(part * 2000, (part + 1) * 2000))
            memory.append(self.allocated_bytes(address))
        grown = memory[-1] - memory[9]
        print(f"20,000 workers more: memory {grown / MIB:+.1f} MiB")
        self.assertLess(grown, 20_000 << 9)
        info = api.admin.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE)
        self.assertEqual((info.leases, info.parked_calls), (0, 0))
        self.assertEqual(stats(api, "q").dead, 40000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
