"""One session of a worker on StreamJobs, as a test drives it by hand.

  session = StreamSession(api, "w", queues=["q"], credit=2)
  session.jobs(2)                            # waits until so many were pushed
  session.complete(job)                      # and waits for the answer
  session.goodbye()

Messages are sent from a queue and read by a thread; with `reading=False` nothing is read after the
welcome, until `read_on`. Thread-safe.
"""

import queue
import threading

import grpc

from stint_api import pb
from watched_process import DEADLINE


class StreamSession:
    def __init__(self, api, worker, queues=(), credit=0, reading=True, credit_bytes=0, **hello):
        self.messages = []
        self.status = None  # of the stream, when it has ended
        self._pushed = []
        self._answers = {}
        self._next_id = 1
        self._changed = threading.Condition()
        self._may_read = threading.Event()
        if reading:
            self._may_read.set()
        self._outgoing = queue.SimpleQueue()
        self.send(hello=pb.Hello(worker=worker, queues=queues, **hello),
                  credit=pb.Credit(jobs=credit, bytes=credit_bytes))
        self._call = api.worker.StreamJobs(iter(self._outgoing.get, None))
        threading.Thread(target=self._read, daemon=True).start()
        self.welcome = self._wait(lambda: self.messages and self.messages[0].welcome)

    def _read(self):
        status = grpc.StatusCode.OK
        try:
            for message in self._call:
                with self._changed:
                    self.messages.append(message)
                    self._pushed += message.jobs
                    self._answers.update((answer.id, answer) for answer in message.answers)
                    self._changed.notify_all()
                self._may_read.wait()
        except grpc.RpcError as error:
            status = error.code()
        with self._changed:
            self.status = status
            self._changed.notify_all()

    def _wait(self, condition, timeout=DEADLINE):
        with self._changed:
            found = self._changed.wait_for(lambda: condition() or self.status is not None, timeout)
            assert found, f"nothing came in time; so far: {self.messages}"
            found = condition()
            assert found, f"the stream ended with {self.status}: {self.messages}"
            return found

    def read_on(self):
        self._may_read.set()

    def send(self, **fields):
        self._outgoing.put(pb.StreamJobsRequest(**fields))

    def jobs(self, count, timeout=DEADLINE):
        """The leases pushed so far, when there are `count` of them."""
        return self._wait(lambda: len(self._pushed) >= count and
                          [pushed.lease for pushed in self._pushed], timeout)

    @property
    def pushed(self):
        """All that has come, without waiting."""
        with self._changed:
            return [pushed.lease for pushed in self._pushed]

    def verdicts(self, count, timeout=DEADLINE):
        def told():
            found = [verdict for message in self.messages for verdict in message.verdicts]
            return len(found) >= count and found

        return self._wait(told, timeout)

    def drained(self, timeout=DEADLINE):
        """Waits for the drain; its reason."""
        return self._wait(lambda: [message.drain.reason for message in self.messages
                                   if message.HasField("drain")], timeout)[0]

    def ask(self, field, timeout=DEADLINE, **operation):
        """Sends one operation and waits for its answer."""
        with self._changed:
            number = self._next_id
            self._next_id += 1
        self.send(**{field: [{"id": number, **operation}]})
        return self._wait(lambda: self._answers.get(number), timeout)

    def settle(self, timeout=DEADLINE, **item):
        return self.ask("settles", timeout, item=pb.SettleItem(**item)).settle

    def complete(self, lease, timeout=DEADLINE):
        return self.settle(timeout, complete=pb.CompleteJobRequest(job=lease.job,
                                                                   token=lease.token))

    def heartbeat(self, leases=(), timeout=DEADLINE):
        return self.ask("heartbeats", timeout, leases=held(leases)).heartbeat

    def goodbye(self):
        self.send(goodbye=pb.Goodbye())
        return self.ended()

    def end_half(self):
        """No more messages from this side."""
        self._outgoing.put(None)

    def cancel(self):
        self.end_half()
        self._call.cancel()

    def ended(self, timeout=DEADLINE):
        """Waits for the end of the stream; its status code."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.status is not None, timeout), self.messages
        self.end_half()
        return self.status


def held(leases):
    """As a hello and a heartbeat list them."""
    return [pb.HeartbeatItem(job=lease.job, token=lease.token) for lease in leases]
