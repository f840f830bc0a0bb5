"""Plain gRPC stubs of the API, made with protoc when a test begins, and what a refusal says.

  from stint_api import Api, Refused, pb

  api = Api("127.0.0.1:7150")
  job = api.jobs.EnqueueJob(pb.EnqueueJobRequest(queue="q"), timeout=10).job

Every call raises grpc.RpcError as plain stubs do; `Refused(error)` reads its details. `pb` has all
messages and enum values of the API. Thread-safe.
"""

import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import types

import grpc

from watched_process import DEADLINE

SOURCE = os.environ.get("STINT_SOURCE") or os.path.normpath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

_SERVICES = ("job", "worker", "queue", "admin")
_MESSAGES = ("queue", "job", "lease", "error_reason")
CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.keepalive_time_ms", 20000),
    ("grpc.keepalive_timeout_ms", 5000),
    # Channels of one process would otherwise share their connections.
    ("grpc.use_local_subchannel_pool", 1),
)


def make_stubs(folder):
    """Writes the Python stubs of all protos to `folder`."""
    proto = os.path.join(SOURCE, "proto")
    found = []
    for base, _, names in os.walk(proto):
        found += [os.path.relpath(os.path.join(base, name), proto)
                  for name in names if name.endswith(".proto")]
    subprocess.run(
        ["/usr/bin/protoc", f"--proto_path={proto}", f"--python_out={folder}",
         f"--grpc_python_out={folder}",
         "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin", *sorted(found)],
        check=True)


STUBS = tempfile.mkdtemp(prefix="stint-stubs-")
atexit.register(shutil.rmtree, STUBS, ignore_errors=True)
make_stubs(STUBS)
sys.path.insert(0, STUBS)


def _load(name):
    return importlib.import_module(name)


pb = types.SimpleNamespace()
for _name in _MESSAGES + tuple(f"{service}_service" for service in _SERVICES):
    vars(pb).update({key: value for key, value in vars(_load(f"stint.v1.{_name}_pb2")).items()
                     if not key.startswith("_")})
_status_pb2 = _load("google.rpc.status_pb2")
_details_pb2 = _load("google.rpc.error_details_pb2")
_grpc_modules = {service: _load(f"stint.v1.{service}_service_pb2_grpc") for service in _SERVICES}


class Api:
    """Stubs of all services on one channel. `secret` is sent as bearer token. A patient one waits
    for the connection until a call's deadline, so that it can be used again after a restart; else
    a call fails at once when nobody listens."""

    def __init__(self, address, secret=None, options=(), patient=True):
        options = {**dict(CHANNEL_OPTIONS), **dict(options)}
        if patient:
            options["grpc.service_config"] = (
                '{"methodConfig": [{"name": [{}], "waitForReady": true}]}')
        self.channel = grpc.insecure_channel(address, options=tuple(options.items()))
        channel = self.channel
        if secret is not None:
            channel = grpc.intercept_channel(channel, _Bearer(secret))
        self.jobs = _grpc_modules["job"].JobServiceStub(channel)
        self.worker = _grpc_modules["worker"].WorkerServiceStub(channel)
        self.queues = _grpc_modules["queue"].QueueServiceStub(channel)
        self.admin = _grpc_modules["admin"].AdminServiceStub(channel)

    def stub(self, service):
        """The stub that has the methods of `JobService` and so on."""
        return {"JobService": self.jobs, "WorkerService": self.worker,
                "QueueService": self.queues, "AdminService": self.admin}[service]

    def close(self):
        self.channel.close()


class _Bearer(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, secret):
        self._metadata = [("authorization", f"Bearer {secret}")]

    def intercept_unary_unary(self, continuation, details, request):
        class Details(grpc.ClientCallDetails):
            method = details.method
            timeout = details.timeout
            metadata = self._metadata + list(details.metadata or ())
            credentials = details.credentials
            wait_for_ready = details.wait_for_ready
            compression = None

        return continuation(Details(), request)


class Refused:
    """What an error of the broker says. `reason` is "" when the error has no details: then it is
    gRPC's own."""

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details()
        self.reason = ""
        self.metadata = {}
        self.fields = []  # of the bad request, in order
        self.violations = {}  # field -> description
        self.retry_delay = None
        self.resource = None
        self.detail_bytes = 0
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self.detail_bytes = len(value)
                self._read(value)

    @classmethod
    def of_status(cls, status):
        """A refusal inside an answer (google.rpc.Status), as SettleJobs gives."""
        refused = cls.__new__(cls)
        refused.code = {code.value[0]: code for code in grpc.StatusCode}[status.code]
        refused.message = status.message
        refused.reason, refused.metadata = "", {}
        refused.fields, refused.violations = [], {}
        refused.retry_delay = refused.resource = None
        refused.detail_bytes = status.ByteSize()
        refused._read(status.SerializeToString())
        return refused

    def _read(self, data):
        for detail in _status_pb2.Status.FromString(data).details:
            info = _details_pb2.ErrorInfo()
            bad = _details_pb2.BadRequest()
            retry = _details_pb2.RetryInfo()
            resource = _details_pb2.ResourceInfo()
            if detail.Unpack(info):
                assert info.domain == "stint.dev", info.domain
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad):
                self.fields = [violation.field for violation in bad.field_violations]
                self.violations = {violation.field: violation.description
                                   for violation in bad.field_violations}
            elif detail.Unpack(retry):
                self.retry_delay = retry.retry_delay.ToTimedelta().total_seconds()
            elif detail.Unpack(resource):
                self.resource = resource

    def __str__(self):
        return f"{self.code.name} {self.reason} {self.message}"


def health(channel, timeout=DEADLINE, service=""):
    """Health.Check of one channel: the number of the serving status, 1 for SERVING."""
    request = b"" if not service else b"\n" + bytes([len(service)]) + service.encode()
    answer = channel.unary_unary("/grpc.health.v1.Health/Check")(
        request, timeout=timeout, wait_for_ready=True)
    return _serving_status(answer)


def watch_health(channel, timeout=DEADLINE):
    """Health.Watch: a call that can be cancelled, and an iterator of serving statuses."""
    call = channel.unary_stream("/grpc.health.v1.Health/Watch")(
        b"", timeout=timeout, wait_for_ready=True)
    return call, (_serving_status(answer) for answer in call)


def _serving_status(answer):
    return answer[1] if len(answer) == 2 and answer[0] == 8 else 0
