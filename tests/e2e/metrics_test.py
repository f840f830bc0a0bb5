"""Metrics, health and logs of a real broker: read by hand, by promtool and by Prometheus."""

import http.client
import json
import os
import re
import subprocess
import threading
import unittest
import urllib.parse

from broker import (BrokerTest, DEADLINE, HOST, complete, enqueue, lease, pb, wait_until)
from scrape import get, http_address, read_metrics
from watched_process import WatchedProcess

# What every scrape must find, one of each part.
SCRAPED = ("stint_jobs", "stint_jobs_enqueued_total", "stint_job_wait_seconds_count",
           "stint_rpc_requests_total", "stint_refusals_total", "stint_commit_seconds_bucket",
           "stint_store_file_bytes", "stint_process_cpu_seconds_total", "stint_build_info")


class MetricsTest(BrokerTest):
    def watched(self, *arguments, **options):
        """A broker with HTTP, started; and the address of that."""
        broker = self.start_broker("--http-listen", f"{HOST}:0", *arguments, **options)
        return broker, http_address(broker)

    def value(self, address, name, **labels):
        return read_metrics(address).get((name, tuple(sorted(labels.items()))))

    def gauges(self, address, queue):
        return {dict(labels)["state"]: int(value)
                for (name, labels), value in read_metrics(address).items()
                if name == "stint_jobs" and dict(labels)["queue"] == queue}

    def assert_gauges(self, address, queue, **expected):
        states = dict.fromkeys(("delayed", "held", "ready", "leased", "completed", "cancelled",
                                "dead"), 0)
        self.assertEqual(self.gauges(address, queue), {**states, **expected})

    def test_S92_gauges_after_a_restart(self):
        broker, address = self.watched()
        api = broker.api()
        enqueue(api, "q", count=7)
        for held in lease(api, "q", count=7):
            api.worker.FailJob(pb.FailJobRequest(job=held.job, token=held.token, no_retry=True),
                               timeout=DEADLINE)
        enqueue(api, "q", count=105)
        leased = lease(api, "q", count=5, duration=3600)
        later = pb.JobSpec()
        later.delay.FromSeconds(3600)
        api.jobs.BatchEnqueueJobs(pb.BatchEnqueueJobsRequest(
            queue="q", items=[pb.BatchEnqueueItem(job=later)] * 20), timeout=DEADLINE)
        broker.restart()
        address = http_address(broker)
        self.assert_gauges(address, "q", ready=100, delayed=20, leased=5, dead=7)

        api = broker.api()
        over = threading.Event()
        lowest = []

        def watch():
            while not over.is_set():
                lowest.append(min(self.gauges(address, "q").values()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for held in leased + lease(api, "q", count=100):
                complete(api, held)
        finally:
            over.set()
            watcher.join()
        self.assertEqual(min(lowest), 0)
        self.assert_gauges(address, "q", delayed=20, completed=105, dead=7)
        self.assertEqual(self.value(address, "stint_jobs_granted_total", queue="q"), 100)
        self.assertEqual(self.value(address, "stint_jobs_completed_total", queue="q"), 105)
        self.assertEqual(self.value(address, "stint_jobs_enqueued_total", queue="q"), 0)

    def test_an_answer_is_counted_before_it_is_given(self):
        broker, address = self.watched("--memory")
        api = broker.api()
        for count in range(1, 20):
            enqueue(api, "q")
            self.assertEqual(self.value(address, "stint_jobs_enqueued_total", queue="q"), count)
        self.assertEqual(self.value(address, "stint_rpc_requests_total",
                                    method="BatchEnqueueJobs", code="OK"), 19)

    def test_promtool_has_nothing_to_say(self):
        broker, address = self.watched()
        api = broker.api()
        # Labels that need care, and every histogram with something in it.
        for queue in ("other", "a.b:c-d_e", "q"):
            enqueue(api, queue, count=2)
            complete(api, lease(api, queue)[0])
        ended = subprocess.run(["promtool", "check", "metrics"], input=get(address, "/metrics")[1],
                               capture_output=True, text=True, timeout=DEADLINE, check=False)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))

    def test_prometheus_scrapes_it(self):
        secret = os.path.join(self.folder, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("s3cret\n")
        broker, address = self.watched("--metrics-token-file", secret)
        enqueue(broker.api(), "q", count=3)
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [{
                "job_name": "stint", "static_configs": [{"targets": [address]}],
                "authorization": {"credentials_file": secret}}]}, file)
        prometheus = WatchedProcess()
        self.addCleanup(prometheus.close)
        prometheus.launch_command(
            ["prometheus", f"--config.file={config}", "--web.listen-address=127.0.0.1:0",
             f"--storage.tsdb.path={self.folder}/tsdb"], dict(os.environ))
        there = prometheus.wait_for_line(r'msg="Listening on" address=(\S+)').group(1)

        def query(expression):
            path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
            status, text = get(there, path)
            return json.loads(text)["data"]["result"] if status == 200 else []

        wait_until(lambda: query('up{job="stint"} == 1'), 2 * DEADLINE)
        for name in SCRAPED:
            self.assertTrue(query(name), name)
        ready = query('stint_jobs{queue="q",state="ready"}')
        self.assertEqual([series["value"][1] for series in ready], ["3"])
        self.assertEqual(get(address, "/metrics")[0], 401)
        self.assertEqual(get(address, "/metrics",
                             headers={"Authorization": "Bearer s3cret"})[0], 200)

    def test_many_queues_make_a_small_page(self):
        """The page of S61."""
        broker, address = self.watched("--memory", "--metrics-queues", "8")
        api = broker.api()
        calls = [api.jobs.EnqueueJob.future(pb.EnqueueJobRequest(queue=f"q{i}"), timeout=DEADLINE)
                 for i in range(2000)]
        for call in calls:
            call.result()
        text = get(address, "/metrics")[1]
        self.assertLess(len(text), 200_000)
        self.assertEqual(self.value(address, "stint_jobs", queue="(other)", state="ready"), 1992)
        self.assertEqual(self.value(address, "stint_queues"), 2000)

    def test_health_through_the_life_of_a_broker(self):
        broker, address = self.watched()
        self.assertEqual(get(address, "/healthz"), (200, "alive\n"))
        self.assertEqual(get(address, "/readyz"), (200, "ready\n"))
        self.assertEqual(get(address, "/")[0], 200)
        broker.process.terminate()
        broker.wait_for_line("draining")
        try:
            self.assertEqual(get(address, "/readyz"), (503, "draining\n"))
        except (ConnectionError, http.client.HTTPException):
            pass  # the process has ended already: not ready either
        self.assertEqual(broker.wait(), 0)

    def test_http_that_cannot_be_had(self):
        broker, address = self.watched("--memory")
        second = self.broker("--memory", "--http-listen", address).launch()
        self.assertEqual(second.wait(), 5)
        self.assertIn("http_listen", second.log())
        self.assertIn(address, second.log())
        none = self.start_broker("--memory", "--http-listen", "none")
        self.assertNotIn("HTTP", none.log())
        missing = self.broker("--memory", "--metrics-token-file", "/no/such/secret").launch()
        self.assertEqual(missing.wait(), 2)
        self.assertIn("/no/such/secret", missing.log())
        self.assertEqual(get(address, "/healthz")[0], 200)

    def test_jobs_and_refusals_are_counted_and_not_logged(self):
        broker, address = self.watched("--memory", "--log-format", "json")
        api = broker.api()
        before = len(broker.lines)
        enqueue(api, "q", count=200)
        for held in lease(api, "q", count=100):
            complete(api, held)
            self.assert_refused("LEASE_LOST", api.worker.CompleteJob,
                                pb.CompleteJobRequest(job=held.job, token=held.token + 1))
        for _ in range(50):
            self.assert_refused("INVALID_REQUEST", api.jobs.EnqueueJob,
                                pb.EnqueueJobRequest(queue="/"))
        self.assertEqual(self.value(address, "stint_refusals_total", reason="LEASE_LOST"), 100)
        self.assertEqual(self.value(address, "stint_refusals_total", reason="INVALID_REQUEST"), 50)
        self.assertEqual(self.value(address, "stint_rpc_requests_total", method="EnqueueJob",
                                    code="INVALID_ARGUMENT"), 50)
        self.assertEqual(self.value(address, "stint_stale_tokens_refused_total", queue="q"), 100)
        self.assertEqual(broker.stop(), 0)
        logged = [json.loads(line) for line in broker.lines]
        for line in logged:
            self.assertLessEqual({"time", "level", "message"}, set(line))
        # The end of the broker, and nothing of what was done.
        self.assertEqual([line["message"] for line in logged[before:]], ["draining", "drained"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
