"""Connections as a network full of strangers makes them: none may cost other callers anything.

Bytes that are no HTTP/2, metadata beyond every limit, handshakes that never end, two thousand
connections that come and go, and peers that vanish without a word. Beside all of it one honest
client works, and the broker's files and memory are looked at.
"""

import os
import random
import socket
import struct
import threading
import unittest

import grpc

from broker import BrokerTest, DEADLINE, complete, enqueue, lease, pb, wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CONNECTIONS = 2000


def frame(kind, flags, stream, payload, length=None):
    """One HTTP/2 frame (RFC 9113, section 4.1); `length` says another than the true one."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


SETTINGS = frame(4, 0, 0, b"")


class ConnectionTest(BrokerTest):
    def setUp(self):
        super().setUp()
        self.broker_process = self.start_broker()
        self.at_work = self.broker_process.api()
        self.work()

    def work(self):
        """What every honest caller wants: it must go on throughout."""
        enqueue(self.at_work, "q")
        [held] = lease(self.at_work, "q", wait=5)
        complete(self.at_work, held)

    def connect(self):
        host, port = self.broker_process.address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=DEADLINE)
        self.addCleanup(connection.close)
        return connection

    def files(self):
        return len(os.listdir(f"/proc/{self.broker_process.pid}/fd"))

    def closes(self, connection):
        """Reads until the broker has closed it."""
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass

    def test_bytes_that_are_no_http2(self):
        chance = random.Random(5)
        bad = {
            "HTTP/1": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            "TLS": bytes.fromhex("16030100c8010000c40303") + chance.randbytes(100),
            "noise": chance.randbytes(4096),
            "a frame before the settings": PREFACE + frame(0, 1, 1, b"x"),
            "a frame that says 16 MiB": PREFACE + SETTINGS + frame(0, 0, 1, b"", 0xFFFFFF),
            "headers that cannot be unpacked": PREFACE + SETTINGS + frame(1, 4, 1, b"\xff" * 200),
            "an even stream": PREFACE + SETTINGS + frame(1, 4, 2, b""),
            "a continuation of nothing": PREFACE + SETTINGS + frame(9, 4, 1, b"x"),
            "settings of a wrong size": PREFACE + frame(4, 0, 0, b"abc"),
            "a window beyond the limit": PREFACE + SETTINGS + frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2,
        }
        for what, data in bad.items():
            with self.subTest(what):
                connection = self.connect()
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    self.closes(connection)
                except ConnectionError:
                    pass  # closed before it had read all
                self.work()

    def test_metadata_beyond_the_limit(self):
        for metadata in ([("x-large", "x" * (1 << 20))],
                         [(f"x-{n}", "y" * 1000) for n in range(1000)]):
            # On a channel of its own: the broker may close the connection while it is still sent.
            hostile = self.broker_process.api()
            with self.assertRaises(grpc.RpcError) as raised:
                hostile.jobs.EnqueueJob(pb.EnqueueJobRequest(queue="q"), timeout=DEADLINE,
                                        metadata=metadata)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.work()
        self.assertEqual(len(lease(self.at_work, "q")), 0)  # none of them added a job

    def test_handshakes_that_never_end(self):
        before = self.files()
        slow = [self.connect() for _ in range(300)]
        for n, connection in enumerate(slow):
            connection.sendall((PREFACE + SETTINGS)[:n % len(PREFACE)])
        self.work()
        for connection in slow:
            connection.close()
        wait_until(lambda: self.files() <= before + 2, 2 * DEADLINE)
        self.work()

    def test_two_thousand_that_come_and_go(self):
        before = self.files()
        stop = threading.Event()
        errors = []

        def come_and_go(seed):
            chance = random.Random(seed)
            for _ in range(CONNECTIONS // 4):
                if stop.is_set():
                    return
                try:
                    connection = self.connect()
                    if chance.random() < 0.7:
                        connection.sendall(PREFACE + SETTINGS)
                    if chance.random() < 0.3:
                        connection.recv(100)
                    if chance.random() < 0.5:
                        # A reset instead of an end.
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                              struct.pack("ii", 1, 0))
                    connection.close()
                except OSError as error:
                    errors.append(error)

        threads = [threading.Thread(target=come_and_go, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.work()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        wait_until(lambda: self.files() <= before + 2, 2 * DEADLINE)
        self.work()


if __name__ == "__main__":
    unittest.main(verbosity=2)
