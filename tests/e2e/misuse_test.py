"""Well-formed calls at the wrong time: settling twice, stale tokens, reused ids, old page tokens.

Cases S64, S65, S69, S72, S73, S94, and the issue's list of misuses.
"""

import hashlib
import unittest

import grpc

from broker import (BrokerTest, DEADLINE, complete, enqueue, get, lease, list_jobs, pb, stats,
                    wait_job)
from stint_api import Refused

LIMIT = 1 << 20  # the default payload limit


def mark(data):
    """Stands for large data where a difference is shown to people."""
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"


class SettleTest(BrokerTest):
    def setUp(self):
        super().setUp()
        self.api = self.start_broker("--memory").api()

    def hold_one(self, **spec):
        enqueue(self.api, "q", **spec)
        [held] = lease(self.api, "q", worker="w")
        return held

    def complete_request(self, held, **fields):
        return pb.CompleteJobRequest(job=held.job, token=held.token, **fields)

    def fail_request(self, held, **fields):
        return pb.FailJobRequest(job=held.job, token=held.token, **fields)

    def test_settling_twice(self):
        """The same settle again has the same answer and no second effect."""
        held = self.hold_one()
        first = complete(self.api, held, result=b"one")
        self.assertEqual(complete(self.api, held, result=b"two"), first)
        self.assertEqual(get(self.api, held.job).result, b"one")
        held = self.hold_one()
        request = self.fail_request(held, error="no", retry_after={"seconds": 1000})
        first = self.api.worker.FailJob(request, timeout=DEADLINE)
        self.assertEqual(self.api.worker.FailJob(request, timeout=DEADLINE), first)
        self.assertEqual(get(self.api, held.job).failures, 1)
        held = self.hold_one()
        request = pb.ReleaseJobRequest(job=held.job, token=held.token, delay={"seconds": 1000})
        first = self.api.worker.ReleaseJob(request, timeout=DEADLINE)
        self.assertEqual(self.api.worker.ReleaseJob(request, timeout=DEADLINE), first)
        counted = stats(self.api, "q")
        self.assertEqual((counted.completed, counted.delayed, counted.leased), (1, 2, 0))

    def test_another_settle_with_the_same_token(self):
        """Complete after fail, fail after complete and so on: the first one stands."""
        settles = {
            "COMPLETED": (self.api.worker.CompleteJob, pb.CompleteJobRequest, {}),
            "DEAD": (self.api.worker.FailJob, pb.FailJobRequest, {"no_retry": True}),
            "DELAYED": (self.api.worker.ReleaseJob, pb.ReleaseJobRequest,
                        {"delay": {"seconds": 1000}}),
        }
        for state, (first, make_first, fields) in settles.items():
            for other, (second, make_second, more) in settles.items():
                if other == state:
                    continue
                with self.subTest(first=state, second=other):
                    held = self.hold_one()
                    first(make_first(job=held.job, token=held.token, **fields), timeout=DEADLINE)
                    refused = self.assert_refused(
                        "LEASE_LOST", second, make_second(job=held.job, token=held.token, **more))
                    self.assertEqual(refused.code, grpc.StatusCode.FAILED_PRECONDITION)
                    self.assertEqual(refused.metadata["state"], state)
                    self.assertEqual(get(self.api, held.job).state,
                                     pb.JobState.Value(f"JOB_STATE_{state}"))

    def test_stale_and_invented_tokens(self):
        held = self.hold_one(max_losses=10)
        self.api.worker.ReleaseJob(pb.ReleaseJobRequest(job=held.job, token=held.token),
                                   timeout=DEADLINE)
        [now] = lease(self.api, "q", worker="w2")
        self.assertGreater(now.token, held.token)
        for token in (held.token, 1, now.token - 1, now.token + 1, (1 << 63) - 1):
            for method, request in (
                    (self.api.worker.CompleteJob, pb.CompleteJobRequest(job=now.job, token=token)),
                    (self.api.worker.FailJob, pb.FailJobRequest(job=now.job, token=token)),
                    (self.api.worker.ReleaseJob, pb.ReleaseJobRequest(
                        job=now.job, token=token, delay={"seconds": 1}))):
                if (method, token) == (self.api.worker.ReleaseJob, held.token):
                    continue  # it repeats that settle
                refused = self.assert_refused("LEASE_LOST", method, request)
                self.assertEqual((refused.metadata["worker"], refused.metadata["attempt"],
                                  refused.metadata["state"]), ("w2", "1", "LEASED"))
            beat = self.api.worker.Heartbeat(
                pb.HeartbeatRequest(leases=[{"job": now.job, "token": token}]), timeout=DEADLINE)
            self.assertEqual(beat.results[0].status, pb.LEASE_STATUS_LOST)
        complete(self.api, now)

    def test_zombie_after_redrive(self):
        """A worker of before the redrive can do nothing to the job any more."""
        held = self.hold_one()
        self.api.worker.FailJob(self.fail_request(held, no_retry=True), timeout=DEADLINE)
        self.api.jobs.RedriveJob(pb.RedriveJobRequest(job=held.job), timeout=DEADLINE)
        self.assert_refused("LEASE_LOST", self.api.worker.CompleteJob, self.complete_request(held))
        beat = self.api.worker.Heartbeat(
            pb.HeartbeatRequest(leases=[{"job": held.job, "token": held.token}]), timeout=DEADLINE)
        self.assertEqual(beat.results[0].status, pb.LEASE_STATUS_LOST)
        job = get(self.api, held.job)
        self.assertEqual((job.state, job.failures, job.attempt), (pb.JOB_STATE_READY, 0, 2))
        [again] = lease(self.api, "q")
        self.assertEqual(again.attempt, 2)
        self.assert_refused("LEASE_LOST", self.api.worker.CompleteJob, self.complete_request(held))
        complete(self.api, again)

    def test_heartbeat_after_the_end(self):
        held = self.hold_one()
        complete(self.api, held)
        beat = self.api.worker.Heartbeat(
            pb.HeartbeatRequest(leases=[{"job": held.job, "token": held.token}]), timeout=DEADLINE)
        self.assertEqual(beat.results[0].status, pb.LEASE_STATUS_LOST)
        self.assertEqual(get(self.api, held.job).state, pb.JOB_STATE_COMPLETED)

    def test_settles_of_deleted_jobs(self):
        """Deleted or purged away: refused, and the broker goes on."""
        for remove in (
                lambda job: self.api.jobs.DeleteJob(
                    pb.DeleteJobRequest(job=job, force=True), timeout=DEADLINE),
                lambda job: self.api.queues.PurgeQueue(
                    pb.PurgeQueueRequest(queue="q", force=True), timeout=DEADLINE),
                lambda job: self.api.queues.DeleteQueue(
                    pb.DeleteQueueRequest(queue="q", force=True), timeout=DEADLINE)):
            held = self.hold_one()
            remove(held.job)
            refused = self.refused(self.api.worker.CompleteJob, self.complete_request(held))
            self.assertIn(refused.reason, ("LEASE_LOST", "JOB_NOT_FOUND"))
            beat = self.api.worker.Heartbeat(
                pb.HeartbeatRequest(leases=[{"job": held.job, "token": held.token}]),
                timeout=DEADLINE)
            self.assertEqual(beat.results[0].status, pb.LEASE_STATUS_LOST)

    def test_settle_jobs_judges_each_item_alone(self):
        first, second = self.hold_one(), self.hold_one()
        answer = self.api.worker.SettleJobs(pb.SettleJobsRequest(items=[
            {"complete": {"job": first.job, "token": first.token}},
            {"complete": {"job": "no name", "token": 1}},
            {"fail": {"job": first.job, "token": first.token}},
            {},
            {"release": {"job": "queues/q/jobs/none", "token": 7}},
            {"fail": {"job": second.job, "token": second.token, "no_retry": True}},
        ]), timeout=DEADLINE)
        kinds = [result.WhichOneof("result") for result in answer.results]
        self.assertEqual(kinds, ["complete", "error", "error", "error", "error", "fail"])
        reasons = [Refused.of_status(result.error).reason for result in answer.results
                   if result.HasField("error")]
        self.assertEqual(reasons,
                         ["INVALID_REQUEST", "LEASE_LOST", "INVALID_REQUEST", "JOB_NOT_FOUND"])
        self.assertEqual(get(self.api, first.job).state, pb.JOB_STATE_COMPLETED)
        self.assertEqual(get(self.api, second.job).state, pb.JOB_STATE_DEAD)

    def test_wrong_states(self):
        held = self.hold_one()
        jobs = self.api.jobs
        self.assert_refused("WRONG_STATE", jobs.DeleteJob, pb.DeleteJobRequest(job=held.job))
        self.assert_refused("WRONG_STATE", jobs.RedriveJob, pb.RedriveJobRequest(job=held.job))
        self.assert_refused("WRONG_STATE", self.api.queues.DeleteQueue,
                            pb.DeleteQueueRequest(queue="q"))
        complete(self.api, held)
        self.assert_refused("WRONG_STATE", jobs.CancelJob, pb.CancelJobRequest(job=held.job))
        self.assert_refused("WRONG_STATE", jobs.RedriveJob, pb.RedriveJobRequest(job=held.job))
        self.assert_refused("WRONG_STATE", jobs.UpdateJob, pb.UpdateJobRequest(
            job=held.job, spec={"priority": 1}, update_mask={"paths": ["priority"]}))


class ProducerTest(BrokerTest):
    def test_batch_with_one_bad_item(self):
        """All or none: for a bad field, a taken id, and an id twice in the batch."""
        api = self.start_broker("--memory").api()
        api.jobs.EnqueueJob(pb.EnqueueJobRequest(queue="q", job_id="taken"), timeout=DEADLINE)
        good = [{"job": {"payload": b"x"}}] * 10
        for bad, reason in (({"job": {"priority": 77}}, "INVALID_REQUEST"),
                            ({"job_id": "taken"}, "JOB_EXISTS")):
            self.assert_refused(reason, api.jobs.BatchEnqueueJobs, pb.BatchEnqueueJobsRequest(
                queue="q", items=good + [bad] + good, request_id="r"))
            self.assertEqual(stats(api, "q").ready, 1)
        refused = self.refused(api.jobs.BatchEnqueueJobs, pb.BatchEnqueueJobsRequest(
            queue="q", items=good + [{"job_id": "twice"}, {"job_id": "twice"}]))
        self.assertIn(refused.reason, ("JOB_EXISTS", "INVALID_REQUEST"))
        self.assertEqual(stats(api, "q").ready, 1)
        # A refused call has not used up its request id.
        api.jobs.BatchEnqueueJobs(
            pb.BatchEnqueueJobsRequest(queue="q", items=good, request_id="r"), timeout=DEADLINE)
        self.assertEqual(stats(api, "q").ready, 11)

    def test_largest_batch(self):
        """S69: as many as the limit says are stored, one more is refused before any is."""
        api = self.start_broker("--memory").api()
        for count in (1001, 10000):
            refused = self.assert_refused(
                "INVALID_REQUEST", api.jobs.BatchEnqueueJobs, pb.BatchEnqueueJobsRequest(
                    queue="q", items=[{"job": {"payload": b"x" * 100}}] * count))
            self.assertIn("1000", refused.violations["items"])
        self.assert_refused("QUEUE_NOT_FOUND", api.queues.GetQueueStats,
                            pb.GetQueueStatsRequest(queue="q"))
        names = enqueue(api, "q", count=1000, payload=b"x" * 100)
        self.assertEqual((len(set(names)), stats(api, "q").ready), (1000, 1000))

    def test_request_ids(self):
        """S72, S73: the same content again, other content, after the job has ended."""
        broker = self.start_broker()
        api = broker.api()
        request = pb.EnqueueJobRequest(queue="q", request_id="R", job={
            "payload": b"{a:1}", "headers": {"a": "1", "b": "2"}, "labels": {"x": "y"}})
        first = api.jobs.EnqueueJob(request, timeout=DEADLINE)
        for change in (lambda other: other.job.MergeFrom(pb.JobSpec(payload=b"{a:2}")),
                       lambda other: other.MergeFrom(pb.EnqueueJobRequest(queue="p")),
                       lambda other: other.job.headers.update({"c": "3"}),
                       lambda other: other.MergeFrom(pb.EnqueueJobRequest(job_id="mine")),
                       lambda other: other.job.MergeFrom(pb.JobSpec(priority=5))):
            other = pb.EnqueueJobRequest()
            other.CopyFrom(request)
            change(other)
            refused = self.assert_refused("REQUEST_ID_REUSED", api.jobs.EnqueueJob, other)
            self.assertIn("R", refused.message)
            self.assertEqual(refused.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assert_refused("REQUEST_ID_REUSED", api.jobs.BatchEnqueueJobs,
                            pb.BatchEnqueueJobsRequest(queue="q", items=[{}], request_id="R"))
        self.assert_refused("REQUEST_ID_REUSED", api.jobs.CancelJob,
                            pb.CancelJobRequest(job=first.job, request_id="R"))
        self.check_order_of_fields(api, request, first)
        [held] = lease(api, "q")
        complete(api, held)
        self.assertEqual(api.jobs.EnqueueJob(request, timeout=DEADLINE), first)
        api.jobs.DeleteJob(pb.DeleteJobRequest(job=first.job), timeout=DEADLINE)
        self.assertEqual(api.jobs.EnqueueJob(request, timeout=DEADLINE), first)
        broker.restart()
        self.assertEqual(api.jobs.EnqueueJob(request, timeout=DEADLINE, wait_for_ready=True), first)
        self.assertEqual(lease(api, "q"), [])

    def check_order_of_fields(self, api, request, first):
        """S73: the same fields in another order are the same call, whatever the bytes."""
        parts = [pb.EnqueueJobRequest(queue="q"), pb.EnqueueJobRequest(request_id="R"),
                 pb.EnqueueJobRequest(job=request.job)]
        call = api.channel.unary_unary("/stint.v1.JobService/EnqueueJob",
                                       response_deserializer=pb.EnqueueJobResponse.FromString)
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
            data = b"".join(parts[number].SerializeToString() for number in order)
            self.assertEqual(call(data, timeout=DEADLINE), first)

    def test_job_ids(self):
        api = self.start_broker("--memory").api()
        request = pb.EnqueueJobRequest(queue="q", job_id="order-17")
        name = api.jobs.EnqueueJob(request, timeout=DEADLINE).job
        refused = self.assert_refused("JOB_EXISTS", api.jobs.EnqueueJob, request)
        self.assertEqual(refused.code, grpc.StatusCode.ALREADY_EXISTS)
        self.assertEqual(refused.resource.resource_name, name)
        api.jobs.DeleteJob(pb.DeleteJobRequest(job=name), timeout=DEADLINE)
        self.assertEqual(api.jobs.EnqueueJob(request, timeout=DEADLINE).job, name)

    def test_queues_that_refuse(self):
        api = self.start_broker("--memory").api()
        api.queues.CreateQueue(
            pb.CreateQueueRequest(queue="q", settings={"max_jobs": 2}), timeout=DEADLINE)
        self.assert_refused("QUEUE_EXISTS", api.queues.CreateQueue, pb.CreateQueueRequest(queue="q"))
        enqueue(api, "q", count=2)
        refused = self.assert_refused("QUEUE_FULL", api.jobs.EnqueueJob,
                                      pb.EnqueueJobRequest(queue="q"))
        self.assertGreater(refused.retry_delay, 0)
        self.assert_refused("QUEUE_FULL", api.jobs.BatchEnqueueJobs,
                            pb.BatchEnqueueJobsRequest(queue="q", items=[{}]))
        etag = api.queues.GetQueue(pb.GetQueueRequest(queue="q"), timeout=DEADLINE).queue.etag
        update = pb.UpdateQueueRequest(queue="q", draining=True, etag=etag,
                                       update_mask={"paths": ["draining"]})
        api.queues.UpdateQueue(update, timeout=DEADLINE)
        self.assert_refused("ETAG_MISMATCH", api.queues.UpdateQueue, update)
        self.assert_refused("QUEUE_DRAINING", api.jobs.EnqueueJob, pb.EnqueueJobRequest(queue="q"))
        self.assertEqual(len(lease(api, "q", count=5)), 2)


class PageTokenTest(BrokerTest):
    def page(self, api, token, **fields):
        request = pb.ListJobsRequest(page_size=50, page_token=token, **{"queue": "q", **fields})
        return api.jobs.ListJobs(request, timeout=DEADLINE, wait_for_ready=True)

    def test_listing_while_jobs_come_and_go(self):
        """S94: each job that was there throughout is shown once, over a restart too."""
        broker = self.start_broker()
        api = broker.api()
        before = enqueue(api, "q", count=1000)
        shown, token, first_token = [], "", None
        for number in range(100):
            page = self.page(api, token)
            shown += [job.name for job in page.jobs]
            token = page.next_page_token
            first_token = first_token or token
            if not token:
                break
            if number == 10:
                broker.restart()
                api = broker.api()
            elif number < 20:
                for held in lease(api, "q", count=30)[:25]:
                    complete(api, held)
                enqueue(api, "q", count=30)
        self.assertEqual(token, "")
        self.assertEqual(len(shown), len(set(shown)))
        self.assertLessEqual(set(before), set(shown))
        # A token of before the restart is as good as one of after it.
        self.assertEqual([job.name for job in self.page(api, first_token).jobs], before[50:100])
        self.check_bad_tokens(api, first_token)

    def check_bad_tokens(self, api, token):
        enqueue(api, "other", count=100)
        foreign = self.page(api, "", queue="other").next_page_token
        bad = {"of another queue": foreign, "empty text": " ", "no base64": "!!!!",
               "shortened": token[:-4], "longer": token + "AAAA", "twice": token + token,
               "huge": "A" * 100000, "changed": token[:-1] + ("A" if token[-1] != "A" else "B"),
               "first letter": ("A" if token[0] != "A" else "B") + token[1:]}
        for what, value in bad.items():
            with self.subTest(what=what):
                refused = self.assert_refused(
                    "INVALID_REQUEST", api.jobs.ListJobs,
                    pb.ListJobsRequest(queue="q", page_size=50, page_token=value))
                self.assertEqual(refused.fields, ["page_token"])
        for what, fields in {"states": {"states": [pb.JOB_STATE_READY]}, "kind": {"kind": ""},
                             "labels": {"labels": {"a": "b"}},
                             "time": {"created_after": {"seconds": 1}}}.items():
            with self.subTest(filter=what):
                self.assert_refused("INVALID_REQUEST", api.jobs.ListJobs,
                                    pb.ListJobsRequest(queue="q", page_token=token, **fields))
        self.assert_refused("INVALID_REQUEST", api.queues.ListQueues,
                            pb.ListQueuesRequest(page_token=token))

    def test_token_of_another_broker(self):
        token = None
        for name in ("one", "two"):
            api = self.start_broker(folder=f"{self.folder}/{name}").api()
            enqueue(api, "q", count=100)
            if token is not None:
                self.assert_refused("INVALID_REQUEST", api.jobs.ListJobs,
                                    pb.ListJobsRequest(queue="q", page_size=50, page_token=token))
            token = self.page(api, "").next_page_token


class SizeTest(BrokerTest):
    def test_payloads_at_the_limit(self):
        """S64: what is accepted goes through every step, with the stock settings of gRPC."""
        api = self.start_broker().api()
        for size in (LIMIT - 1, LIMIT):
            self.check_every_step(api, str(size)[-3:] + "q" * 125, size)
        refused = self.assert_refused(
            "INVALID_REQUEST", api.jobs.EnqueueJob,
            pb.EnqueueJobRequest(queue="over", job={"payload": bytes(LIMIT + 1)}))
        self.assertIn(str(LIMIT), refused.message)
        self.assertIn(str(LIMIT + 1), refused.message)

    def check_every_step(self, api, queue, size):
        payload, result = bytes([1]) * size, bytes([2]) * size
        spec = pb.JobSpec(payload=payload, kind="k" * 128, content_type="t" * 128,
                          headers={f"h{n:02}": "x" * 125 for n in range(32)},
                          labels={f"{n}" + "l" * 62: "v" * 63 for n in range(8)},
                          retry={"initial_delay": {}, "max_delay": {}})
        jobs = [api.jobs.EnqueueJob(
            pb.EnqueueJobRequest(queue=queue, job=spec, job_id="i" * 128, request_id=f"{size:0256}"),
            timeout=DEADLINE).job]
        jobs += [made.job for made in api.jobs.BatchEnqueueJobs(
            pb.BatchEnqueueJobsRequest(queue=queue, items=[{"job": spec}] * 3),
            timeout=DEADLINE).results]

        for held in self.lease_all(api, queue, 4):
            self.assertEqual((mark(held.payload), held.attempt), (mark(payload), 1))
            api.worker.FailJob(pb.FailJobRequest(job=held.job, token=held.token, error="e" * 8192),
                               timeout=DEADLINE)
        again = self.lease_all(api, queue, 4)
        self.assertEqual(sorted(held.job for held in again), sorted(jobs))
        for held in again:
            self.assertEqual((mark(held.payload), held.attempt), (mark(payload), 2))
            complete(api, held, result=result)
        for job in jobs:
            ended = wait_job(api, job)
            self.assertEqual(self.marks(ended), (mark(b""), mark(result)))
            self.assertEqual(self.marks(get(api, job)), (mark(payload), mark(result)))
            self.assertEqual(mark(ended.last_error.encode()), mark(b"e" * 8192))
        listed = list_jobs(api, queue, view=pb.JOB_VIEW_FULL)
        self.assertEqual([job.name for job in listed], jobs)
        self.assertEqual({self.marks(job) for job in listed}, {(mark(payload), mark(result))})

    def marks(self, job):
        return mark(job.spec.payload), mark(job.result)

    def lease_all(self, api, queue, count):
        leases = []
        while len(leases) < count:
            some = lease(api, queue, count=1000)
            self.assertNotEqual(some, [])
            leases += some
        return leases

    def test_too_large_results_and_errors(self):
        """S65: the result is refused and says why, the error text is shortened and kept."""
        broker = self.start_broker("--memory")
        api = broker.api(options=[("grpc.max_send_message_length", -1)])
        enqueue(api, "q", count=2)
        first, second = lease(api, "q", count=2)
        refused = self.assert_refused(
            "INVALID_REQUEST", api.worker.CompleteJob,
            pb.CompleteJobRequest(job=first.job, token=first.token, result=bytes(20 << 20)))
        self.assertEqual(get(api, first.job).state, pb.JOB_STATE_LEASED)
        self.assertTrue(refused.message)
        request = pb.FailJobRequest(job=second.job, token=second.token, no_retry=True,
                                    error="cause first " + "ü" * (10 << 20))
        self.assertEqual(api.worker.FailJob(request, timeout=DEADLINE).state, pb.JOB_STATE_DEAD)
        error = get(api, second.job).last_error
        self.assertLessEqual(len(error.encode()), 8192)
        self.assertTrue(error.startswith("cause first ü"))
        self.assertIn("shortened from", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
