"""Wrong, empty, huge, non-UTF-8 and over-limit fields of every call.

Cases S67, S68. Each refusal names the field and nothing is stored by it.
"""

import os
import subprocess
import unittest

import grpc

from broker import BrokerTest, DEADLINE, Refused, STINT, STINTD, enqueue, get, pb
from stint_api import Api

JOB = "queues/q/jobs/j-1"
LONG_ID = "a" * 129
SECONDS = {"day": 86400, "year": 365 * 86400}
TEN_YEARS = 3650 * SECONDS["day"]

# S67 and S68: what is no name, in every call alike.
BAD_NAMES = ("", "a b", "a+b", "a#b", "a/b", "a?b", "100%", "..", ".hidden", "-lead", "trail ",
             "a\tb", "a\x00b", "a|b", "a%3Ab", "ümlaut", "队列", "\U0001f642", "ü" * 127, LONG_ID,
             "a" * 255, "a" * 100000)
GOOD_NAMES = ("a", "A", "0", "Upper", "a.b", "a:b", "a_b", "a-b", "a..b", "x" * 128)

# Method -> (request that is right but for what it names, where the name of a queue stands).
BY_QUEUE = {
    "EnqueueJob": (pb.EnqueueJobRequest, "queue"),
    "BatchEnqueueJobs": (
        lambda **fields: pb.BatchEnqueueJobsRequest(items=[pb.BatchEnqueueItem()], **fields),
        "queue"),
    "ListJobs": (pb.ListJobsRequest, "queue"),
    "BatchCancelJobs": (pb.BatchCancelJobsRequest, "queue"),
    "BatchRedriveJobs": (pb.BatchRedriveJobsRequest, "queue"),
    "BatchDeleteJobs": (pb.BatchDeleteJobsRequest, "queue"),
    "CreateQueue": (pb.CreateQueueRequest, "queue"),
    "GetQueue": (pb.GetQueueRequest, "queue"),
    "UpdateQueue": (
        lambda **fields: pb.UpdateQueueRequest(update_mask={"paths": ["draining"]}, **fields),
        "queue"),
    "DeleteQueue": (pb.DeleteQueueRequest, "queue"),
    "PauseQueue": (pb.PauseQueueRequest, "queue"),
    "ResumeQueue": (pb.ResumeQueueRequest, "queue"),
    "PurgeQueue": (pb.PurgeQueueRequest, "queue"),
    "GetQueueStats": (pb.GetQueueStatsRequest, "queue"),
    "LeaseJobs": (lambda queue: pb.LeaseJobsRequest(queues=[queue], wait={}), "queues[0]"),
}
BY_JOB = {
    "GetJob": (pb.GetJobRequest, "job"),
    "WaitJob": (pb.WaitJobRequest, "job"),
    "CancelJob": (pb.CancelJobRequest, "job"),
    "RedriveJob": (pb.RedriveJobRequest, "job"),
    "DeleteJob": (pb.DeleteJobRequest, "job"),
    "UpdateJob": (lambda job: pb.UpdateJobRequest(
        job=job, spec={"priority": 1}, update_mask={"paths": ["priority"]}), "job"),
    "CompleteJob": (lambda job: pb.CompleteJobRequest(job=job, token=1), "job"),
    "FailJob": (lambda job: pb.FailJobRequest(job=job, token=1), "job"),
    "ReleaseJob": (lambda job: pb.ReleaseJobRequest(job=job, token=1), "job"),
    "Heartbeat": (lambda job: pb.HeartbeatRequest(
        leases=[pb.HeartbeatItem(job=job, token=1)]), "leases[0].job"),
}


def duration(seconds, nanos=0):
    return {"seconds": seconds, "nanos": nanos}


# Values of a job that are refused: the fields of JobSpec, and the field the refusal names.
BAD_SPECS = (
    ({"kind": "k" * 129}, "kind"),
    ({"kind": "ü" * 65}, "kind"),
    ({"payload": b"x" * (1024 * 1024 + 1)}, "payload"),
    ({"content_type": "t" * 129}, "content_type"),
    ({"headers": {f"h{n}": "" for n in range(33)}}, "headers"),
    ({"headers": {"h": "x" * 4096}}, "headers"),
    ({"headers": {"": "x"}}, "headers"),
    ({"labels": {f"l{n}": "" for n in range(9)}}, "labels"),
    ({"labels": {"": "x"}}, "labels"),
    ({"labels": {"l" * 64: ""}}, "labels: key"),
    ({"labels": {"l": "x" * 64}}, 'labels["l"]'),
    ({"priority": -1}, "priority"),
    ({"priority": 10}, "priority"),
    ({"priority": -2147483648}, "priority"),
    ({"due_time": {"seconds": 253402300800}}, "due_time"),
    ({"due_time": {"seconds": -62135596801}}, "due_time"),
    ({"due_time": {"nanos": -1}}, "due_time"),
    ({"delay": duration(-1)}, "delay"),
    ({"delay": duration(TEN_YEARS + 1)}, "delay"),
    ({"delay": duration(1, -1)}, "delay"),
    ({"delay": duration(9223372036854775807)}, "delay"),
    ({"expire_time": {"nanos": 1000000000}}, "expire_time"),
    ({"expire_after": duration(0)}, "expire_after"),
    ({"expire_after": duration(0, 999999)}, "expire_after"),
    ({"expire_after": duration(TEN_YEARS, 1)}, "expire_after"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 10001}, "max_attempts"),
    ({"max_losses": -1}, "max_losses"),
    ({"retry": {"initial_delay": duration(SECONDS["day"] + 1)}}, "retry.initial_delay"),
    ({"retry": {"multiplier": 0.5}}, "retry.multiplier"),
    ({"retry": {"multiplier": float("nan")}}, "retry.multiplier"),
    ({"retry": {"multiplier": float("inf")}}, "retry.multiplier"),
    ({"retry": {"max_delay": duration(31 * SECONDS["day"])}}, "retry.max_delay"),
    ({"retry": {"jitter": 1.1}}, "retry.jitter"),
    ({"retry": {"jitter": -0.1}}, "retry.jitter"),
    ({"loss_backoff": duration(601)}, "loss_backoff"),
    ({"run_limit": duration(0)}, "run_limit"),
    ({"run_limit": duration(30 * SECONDS["day"] + 1)}, "run_limit"),
)

# Values of a queue that are refused, and the field the refusal names.
BAD_SETTINGS = (
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_losses": 10001}, "max_losses"),
    ({"retry": {"multiplier": 101}}, "retry.multiplier"),
    ({"loss_backoff": duration(-1)}, "loss_backoff"),
    ({"run_limit": duration(0, 5)}, "run_limit"),
    ({"cancel_grace": duration(3601)}, "cancel_grace"),
    ({"retention": {"finished_age": duration(-1)}}, "retention.finished_age"),
    ({"retention": {"finished_count": -1}}, "retention.finished_count"),
    ({"retention": {"finished_bytes": 10 ** 15 + 1}}, "retention.finished_bytes"),
    ({"retention": {"dead_age": duration(TEN_YEARS + 1)}}, "retention.dead_age"),
    ({"retention": {"dead_count": 10 ** 12 + 1}}, "retention.dead_count"),
    ({"retention": {"dead_bytes": -1}}, "retention.dead_bytes"),
    ({"max_jobs": 0}, "max_jobs"),
    ({"max_bytes": 10 ** 15 + 1}, "max_bytes"),
)

# Everything else: method, request, the fields it names, in order.
OTHERS = (
    ("EnqueueJob", pb.EnqueueJobRequest(queue="q", request_id="r" * 257), ["request_id"]),
    ("EnqueueJob", pb.EnqueueJobRequest(queue="q", job_id="a b"), ["job_id"]),
    ("EnqueueJob", pb.EnqueueJobRequest(queue="q", job_id="j-000000000000a"), ["job_id"]),
    ("BatchEnqueueJobs", pb.BatchEnqueueJobsRequest(queue="q"), ["items"]),
    ("BatchEnqueueJobs", pb.BatchEnqueueJobsRequest(
        queue="q", items=[pb.BatchEnqueueItem()] * 1001), ["items"]),
    ("BatchEnqueueJobs", pb.BatchEnqueueJobsRequest(
        queue="q", items=[{}, {"job": {"priority": 10}}, {"job_id": "/"}]),
     ["items[1].job.priority", "items[2].job_id"]),
    ("GetJob", pb.GetJobRequest(job=JOB, view=9), ["view"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", states=[0, 99]), ["states[0]", "states[1]"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", states=[3] * 9), ["states"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", kind="k" * 129), ["kind"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", page_size=-1), ["page_size"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", view=-1), ["view"]),
    ("ListJobs", pb.ListJobsRequest(queue="q", created_after={"nanos": -1},
                                    created_before={"nanos": 10 ** 9}),
     ["created_after", "created_before"]),
    ("WaitJob", pb.WaitJobRequest(job=JOB, wait=duration(61)), ["wait"]),
    ("WaitJob", pb.WaitJobRequest(job=JOB, wait=duration(-1)), ["wait"]),
    ("CancelJob", pb.CancelJobRequest(job=JOB, request_id="r" * 257), ["request_id"]),
    ("RedriveJob", pb.RedriveJobRequest(job=JOB, request_id="r" * 257), ["request_id"]),
    ("DeleteJob", pb.DeleteJobRequest(job=JOB, request_id="r" * 257), ["request_id"]),
    ("BatchCancelJobs", pb.BatchCancelJobsRequest(queue="q", limit=-1, request_id="r" * 257),
     ["limit", "request_id"]),
    ("BatchCancelJobs", pb.BatchCancelJobsRequest(queue="q", page_token="x"), ["page_token"]),
    ("BatchRedriveJobs", pb.BatchRedriveJobsRequest(queue="q", filter={"states": [3]}),
     ["filter.states[0]"]),
    ("BatchDeleteJobs", pb.BatchDeleteJobsRequest(queue="q", filter={"states": [4, 0, 99]}),
     ["filter.states[1]", "filter.states[2]", "filter.states[0]"]),
    ("UpdateJob", pb.UpdateJobRequest(job=JOB, spec={"priority": 3}), ["update_mask"]),
    ("UpdateJob", pb.UpdateJobRequest(job=JOB, update_mask={"paths": ["priority"]}),
     ["spec.priority"]),
    ("UpdateJob", pb.UpdateJobRequest(job=JOB, update_mask={"paths": ["payload"]}),
     ["update_mask"]),
    ("UpdateJob", pb.UpdateJobRequest(job=JOB, spec={"priority": 11},
                                      update_mask={"paths": ["priority"]}), ["spec.priority"]),
    ("LeaseJobs", pb.LeaseJobsRequest(), ["queues"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"] * 10001), ["queues"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], max_jobs=1001), ["max_jobs"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], max_jobs=-1), ["max_jobs"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], lease_duration=duration(0, 999999999)),
     ["lease_duration"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], lease_duration=duration(86401)),
     ["lease_duration"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], wait=duration(60, 1)), ["wait"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], worker="w w"), ["worker"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], request_id="r"), ["worker"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], max_reply_bytes=1), ["max_reply_bytes"]),
    ("LeaseJobs", pb.LeaseJobsRequest(queues=["q"], max_reply_bytes=1 << 40), ["max_reply_bytes"]),
    ("Heartbeat", pb.HeartbeatRequest(worker="w w"), ["worker"]),
    ("Heartbeat", pb.HeartbeatRequest(leases=[{"job": JOB, "token": 1}] * 10001), ["leases"]),
    ("Heartbeat", pb.HeartbeatRequest(leases=[{"job": JOB, "token": 1}, {"job": JOB}]),
     ["leases[1].token"]),
    ("CompleteJob", pb.CompleteJobRequest(job=JOB), ["token"]),
    ("CompleteJob", pb.CompleteJobRequest(job=JOB, token=-5), ["token"]),
    ("CompleteJob", pb.CompleteJobRequest(job=JOB, token=1, result=bytes(1024 * 1024 + 1)),
     ["result"]),
    ("FailJob", pb.FailJobRequest(), ["job", "token"]),
    ("FailJob", pb.FailJobRequest(job=JOB, token=1, retry_after=duration(-1)), ["retry_after"]),
    ("ReleaseJob", pb.ReleaseJobRequest(job=JOB, token=1, delay=duration(TEN_YEARS + 1)),
     ["delay"]),
    ("ReleaseJob", pb.ReleaseJobRequest(job=JOB, token=1, reason=17), ["reason"]),
    ("SettleJobs", pb.SettleJobsRequest(), ["items"]),
    ("SettleJobs", pb.SettleJobsRequest(items=[{}] * 1001), ["items"]),
    ("ListQueues", pb.ListQueuesRequest(page_size=-1), ["page_size"]),
    ("ListQueues", pb.ListQueuesRequest(prefix="a b"), ["prefix"]),
    ("UpdateQueue", pb.UpdateQueueRequest(queue="q"), ["update_mask"]),
    ("UpdateQueue", pb.UpdateQueueRequest(queue="q", update_mask={"paths": ["paused"]}),
     ["update_mask"]),
    ("UpdateQueue", pb.UpdateQueueRequest(queue="q", update_mask={"paths": ["settings.nothing"]}),
     ["update_mask"]),
    ("UpdateQueue", pb.UpdateQueueRequest(queue="q", update_mask={"paths": ["draining"]},
                                          etag="mine"), ["etag"]),
    ("CreateQueue", pb.CreateQueueRequest(queue="q", request_id="r" * 257), ["request_id"]),
    ("PurgeQueue", pb.PurgeQueueRequest(queue="q", request_id="r" * 257), ["request_id"]),
)


class BadInputTest(BrokerTest):
    @classmethod
    def setUpClass(cls):
        cls.methods = {}
        for file in (pb.EnqueueJobRequest, pb.LeaseJobsRequest, pb.CreateQueueRequest,
                     pb.GetServerInfoRequest):
            for service in file.DESCRIPTOR.file.services_by_name.values():
                for method in service.methods:
                    cls.methods[method.name] = (service.name, method)

    def setUp(self):
        super().setUp()
        self.server = self.start_broker("--memory")
        self.api = self.server.api()

    def tearDown(self):
        # Nothing was stored, and the broker is in good health.
        queues = self.api.queues.ListQueues(pb.ListQueuesRequest(), timeout=DEADLINE).queues
        self.assertEqual([queue.name for queue in queues], [])
        self.assertEqual(self.server.stop(), 0)

    def method(self, name):
        return getattr(self.api.stub(self.methods[name][0]), name)

    def assert_invalid(self, name, request):
        refused = self.assert_refused("INVALID_REQUEST", self.method(name), request)
        self.assertEqual(refused.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertLess(refused.detail_bytes, 4096)
        self.assertLess(len(refused.message), 2000)
        return refused

    def test_names_of_queues(self):
        """S67, S68: every call says the same about the same name."""
        for name in BAD_NAMES:
            said = set()
            for method, (make, field) in BY_QUEUE.items():
                with self.subTest(method=method, name=name[:20]):
                    refused = self.assert_invalid(method, make(queue=name))
                    self.assertEqual(refused.fields, [field])
                    said.add(refused.violations[field])
            self.assertEqual(len(said), 1, said)
            if name:
                refused = self.assert_invalid(
                    "LeaseJobs", pb.LeaseJobsRequest(queues=["q"], worker=name))
                self.assertEqual((refused.fields, set(refused.violations.values())),
                                 (["worker"], said))
                refused = self.assert_invalid(
                    "EnqueueJob", pb.EnqueueJobRequest(queue="q", job_id=name))
                self.assertEqual((refused.fields, set(refused.violations.values())),
                                 (["job_id"], said))

    def test_names_on_the_command_line(self):
        """S67, S68: refused there as well, whoever refuses."""
        for name in BAD_NAMES:
            if "\x00" in name or len(name) > 1000:
                continue
            for command in (("enqueue", "--timeout", "5s", "--payload", "x", "--", name),
                            ("queues", "pause", "--timeout", "5s", "--", name),
                            ("jobs", "list", "--timeout", "5s", "--", name)):
                with self.subTest(command=command[0], name=name):
                    ended = self.server.stint(*command)
                    self.assertIn(ended.returncode, (1, 2), ended.stderr)
                    self.assertIn("queue", ended.stderr)

    def test_output_that_cannot_be_written(self):
        """Is not passed over; a reader that has gone is."""
        enqueue(self.api, "printed", count=1000)
        command = [STINT, "jobs", "list", "printed", "--all"]
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(command, env=self.server.client_environment(), stdout=full,
                                   stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("could not be written", ended.stderr)
        reader, writer = os.pipe()
        os.close(reader)
        ended = subprocess.run(command, env=self.server.client_environment(), stdout=writer,
                               stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False)
        os.close(writer)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.server.stint("queues", "delete", "printed", "--force")

    def test_closed_standard_descriptors(self):
        """Never become a file or a connection of the program, into which it would print. gRPC has
        taken the lowest before the program begins, for an event descriptor that it does not use."""
        printed = (1, 2)
        [job] = enqueue(self.api, "closed")
        links = " ".join(f"/proc/$PPID/fd/{number}" for number in printed)
        subprocess.run(
            ["/bin/sh", "-c", f'exec {STINT} work closed --max-jobs 1 --exec "$0" <&- >&- 2>&-',
             f"readlink {links}"],
            env=self.server.client_environment(), timeout=DEADLINE, check=True)
        self.assertEqual(get(self.api, job).result.split(), [b"/dev/null"] * len(printed))
        self.server.stint("queues", "delete", "closed", "--force")

        settings = os.path.join(self.folder, "settings.toml")
        os.mkfifo(settings)
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {STINTD} --config {settings} <&- >&- 2>&-"])
        with open(settings, "w", encoding="ascii") as text:  # once stintd has opened it
            self.assertEqual([os.readlink(f"/proc/{process.pid}/fd/{number}")
                              for number in printed], ["/dev/null"] * len(printed))
            text.write("wrong")
        self.assertEqual(process.wait(DEADLINE), 2)

    def test_names_of_jobs(self):
        wrong = {"", "j-1", "queues/q", "queues/q/jobs/", "queues//jobs/j", "queues/q/jobs/j/",
                 "/queues/q/jobs/j", "Queues/q/jobs/j", "queues/q/jobs/a b", "queues/a b/jobs/j",
                 f"queues/{LONG_ID}/jobs/j", f"queues/q/jobs/{LONG_ID}", "queues/q/jobs/../j",
                 "x" * 100000}
        for name in sorted(wrong):
            said = set()
            for method, (make, field) in BY_JOB.items():
                with self.subTest(method=method, name=name[:20]):
                    refused = self.assert_invalid(method, make(job=name))
                    self.assertEqual(refused.fields, [field])
                    said.add(refused.violations[field])
            self.assertEqual(len(said), 1, said)

    def test_unknown_names(self):
        for method, (make, _) in BY_QUEUE.items():
            if method in ("EnqueueJob", "BatchEnqueueJobs", "CreateQueue", "PauseQueue",
                          "LeaseJobs"):
                continue  # they make the queue, or wait for it
            with self.subTest(method=method):
                refused = self.assert_refused("QUEUE_NOT_FOUND", self.method(method),
                                              make(queue="nowhere"))
                self.assertEqual(refused.code, grpc.StatusCode.NOT_FOUND)
                self.assertIn("nowhere", refused.resource.resource_name)
        for method, (make, _) in BY_JOB.items():
            if method == "Heartbeat":
                continue
            with self.subTest(method=method):
                refused = self.assert_refused("JOB_NOT_FOUND", self.method(method), make(job=JOB))
                self.assertEqual(refused.resource.resource_name, JOB)
        beat = self.api.worker.Heartbeat(
            pb.HeartbeatRequest(leases=[{"job": JOB, "token": 1}]), timeout=DEADLINE)
        self.assertEqual([result.status for result in beat.results], [pb.LEASE_STATUS_LOST])

    def test_values_of_jobs(self):
        for fields, field in BAD_SPECS:
            spec = pb.JobSpec(**fields)
            with self.subTest(field=field, value=str(fields)[:60]):
                refused = self.assert_invalid("EnqueueJob",
                                              pb.EnqueueJobRequest(queue="q", job=spec))
                self.assertEqual(len(refused.fields), 1, refused.fields)
                self.assertTrue(refused.fields[0].startswith(f"job.{field}"), refused.fields)
                batch = self.assert_invalid("BatchEnqueueJobs", pb.BatchEnqueueJobsRequest(
                    queue="q", items=[{}, {"job": spec}]))
                self.assertEqual(batch.fields,
                                 [refused.fields[0].replace("job.", "items[1].job.", 1)])
                self.assertEqual(list(batch.violations.values()),
                                 list(refused.violations.values()))

    def test_values_of_queues(self):
        for fields, field in BAD_SETTINGS:
            settings = pb.QueueSettings(**fields)
            with self.subTest(field=field, value=str(fields)[:60]):
                made = self.assert_invalid("CreateQueue",
                                           pb.CreateQueueRequest(queue="q", settings=settings))
                changed = self.assert_invalid("UpdateQueue", pb.UpdateQueueRequest(
                    queue="q", settings=settings, update_mask={"paths": ["settings"]}))
                self.assertEqual(made.fields, [f"settings.{field}"])
                self.assertEqual(made.violations, changed.violations)

    def test_other_values(self):
        for method, request, fields in OTHERS:
            with self.subTest(method=method, fields=fields):
                self.assertEqual(self.assert_invalid(method, request).fields, fields)

    def test_all_violations_at_once(self):
        refused = self.assert_invalid("EnqueueJob", pb.EnqueueJobRequest(
            queue="a b", job_id="/", request_id="r" * 300,
            job={"kind": "k" * 200, "priority": 10, "max_attempts": 0, "delay": duration(-1)}))
        self.assertEqual(set(refused.fields), {"queue", "job_id", "request_id", "job.kind",
                                               "job.priority", "job.max_attempts", "job.delay"})
        many = self.assert_invalid("BatchEnqueueJobs", pb.BatchEnqueueJobsRequest(
            queue="a b", items=[{"job": {"priority": 10}}] * 100))
        self.assertLessEqual(len(many.fields), 20)
        self.assertEqual(int(many.metadata["violationsOmitted"]), 101 - len(many.fields))

    def test_text_that_is_not_utf8(self):
        """Each text field of each call, as bytes no stub would send."""
        for name, (service, method) in self.methods.items():
            call = self.api.channel.unary_unary(f"/stint.v1.{service}/{name}")
            for field in method.input_type.fields:
                if field.type != field.TYPE_STRING:
                    continue
                with self.subTest(method=name, field=field.name):
                    with self.assertRaises(grpc.RpcError) as raised:
                        call(bytes([field.number << 3 | 2, 2]) + b"\xff\xfe", timeout=DEADLINE)
                    refused = Refused(raised.exception)
                    self.assertEqual(refused.reason, "INVALID_REQUEST", str(refused))
                    self.assertEqual(refused.fields, [field.name])
        self.assertNotIn("UTF-8", self.server.log())

    def test_bytes_that_are_no_message(self):
        for name, (service, method) in self.methods.items():
            if not method.input_type.fields:
                continue  # anything is unknown fields to it
            call = self.api.channel.unary_unary(f"/stint.v1.{service}/{name}")
            for data in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", b"\x00\x00"):
                with self.subTest(method=name, data=data):
                    with self.assertRaises(grpc.RpcError) as raised:
                        call(data, timeout=DEADLINE)
                    self.assertEqual(Refused(raised.exception).reason, "INVALID_REQUEST")

    def test_calls_over_the_limit(self):
        large = pb.BatchEnqueueJobsRequest(
            queue="q", items=[{"job": {"payload": bytes(1 << 20)}}] * 4)
        refused = self.assert_invalid("BatchEnqueueJobs", large)
        self.assertIn("3670016", refused.message)
        api = Api(self.server.address, options=[("grpc.max_send_message_length", -1)])
        self.addCleanup(api.close)
        with self.assertRaises(grpc.RpcError) as raised:
            api.jobs.EnqueueJob(pb.EnqueueJobRequest(queue="q", job={"payload": bytes(40 << 20)}),
                                timeout=DEADLINE)
        self.assertIn(raised.exception.code(), (grpc.StatusCode.RESOURCE_EXHAUSTED,
                                                grpc.StatusCode.INVALID_ARGUMENT))


class GoodNamesTest(BrokerTest):
    def test_accepted_names_work_everywhere(self):
        """S67: accepted once, accepted by every call; and none touches another's jobs."""
        api = self.start_broker("--memory").api()
        for name in GOOD_NAMES:
            made = api.jobs.EnqueueJob(
                pb.EnqueueJobRequest(queue=name, job_id=name, job={"payload": name.encode()}),
                timeout=DEADLINE)
            self.assertEqual(made.job, f"queues/{name}/jobs/{name}")
        for name in GOOD_NAMES:
            [held] = api.worker.LeaseJobs(
                pb.LeaseJobsRequest(queues=[name], worker=name, wait={}), timeout=DEADLINE).leases
            self.assertEqual(held.payload, name.encode())
            api.worker.CompleteJob(pb.CompleteJobRequest(job=held.job, token=held.token),
                                   timeout=DEADLINE)
            api.queues.PauseQueue(pb.PauseQueueRequest(queue=name), timeout=DEADLINE)
            api.queues.PurgeQueue(pb.PurgeQueueRequest(queue=name), timeout=DEADLINE)
            [job] = api.jobs.ListJobs(pb.ListJobsRequest(queue=name), timeout=DEADLINE).jobs
            self.assertEqual(job.name, f"queues/{name}/jobs/{name}")
        listed = api.queues.ListQueues(pb.ListQueuesRequest(), timeout=DEADLINE).queues
        self.assertEqual([queue.name for queue in listed],
                         [f"queues/{name}" for name in sorted(GOOD_NAMES)])
        self.assertTrue(all(queue.paused for queue in listed))


if __name__ == "__main__":
    unittest.main(verbosity=2)
