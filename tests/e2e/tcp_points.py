"""Stands between clients and a broker: a listener that refuses like a broker that is down, and a
proxy whose connections can fall silent. Both count connections. Daemon threads, closed by the
test."""

import socket
import threading


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class ClosedDoor:
    """Listens where a broker was and hangs up on whoever calls."""

    def __init__(self, address):
        self.attempts = 0
        self._listener = socket.create_server(split(address), backlog=1024)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.attempts += 1
            # A reset, as from a port nobody listens on.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class SilentProxy:
    """Forwards to a broker; after `fall_silent` the connections of before stay open and carry
    nothing any more, as behind a firewall that lost its memory. New ones work."""

    def __init__(self, broker_address, host):
        self.connections = 0
        self._broker = split(broker_address)
        self._listener = socket.create_server((host, 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._silenced = threading.Event()
        self._sockets = []
        threading.Thread(target=self._serve, daemon=True).start()

    def fall_silent(self):
        self._silenced.set()
        self._silenced = threading.Event()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._broker)
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink, self._silenced),
                                 daemon=True).start()

    def _forward(self, source, sink, silenced):
        try:
            while data := source.recv(1 << 16):
                if silenced.is_set():
                    return
                sink.sendall(data)
            if not silenced.is_set():
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed by the test

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            one.close()
