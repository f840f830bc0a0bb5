"""Stands between clients and a broker: a listener that refuses like a broker that is down, and a
proxy whose connections can fall silent or break. Both count connections. Daemon threads, closed by the
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


class Proxy:
    """Forwards to a broker. The connections of before `fall_silent` stay open and carry nothing,
    as behind a firewall that lost its memory, until `carry_on`; `reset` breaks all there are. New
    ones always work."""

    def __init__(self, broker_address, host):
        self.connections = 0
        self._broker = split(broker_address)
        self._listener = socket.create_server((host, 0), backlog=1024)
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._changed = threading.Condition()
        self._carries = [threading.Event()]  # the last is that of new connections
        self._carries[-1].set()
        self._sockets = []
        threading.Thread(target=self._serve, daemon=True).start()

    def fall_silent(self):
        with self._changed:
            silent = self._carries[-1]
            self._carries.append(threading.Event())
            self._carries[-1].set()
            silent.clear()

    def carry_on(self):
        for carries in self._carries:
            carries.set()

    def reset(self):
        with self._changed:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
            except OSError:
                pass  # it has ended by itself
            one.close()
        self.carry_on()

    def wait_for_connections(self, count, timeout):
        """Waits until so many have been made."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.connections >= count, timeout), \
                f"{self.connections} connections"

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._broker)
            except OSError:
                client.close()  # the broker is down
                continue
            with self._changed:
                self.connections += 1
                self._sockets += [client, server]
                carries = self._carries[-1]
                self._changed.notify_all()
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink, carries),
                                 daemon=True).start()

    def _forward(self, source, sink, carries):
        try:
            while data := source.recv(1 << 16):
                carries.wait()
                sink.sendall(data)
            carries.wait()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # reset, or closed by the test

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()
