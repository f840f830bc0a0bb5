"""A process whose output is read line by line and whose end is awaited, never polled."""

import os
import re
import signal
import subprocess
import threading

DEADLINE = 60  # seconds any single step may take on a busy machine


def environment_without_ours(more=None):
    """This environment without STINT_ variables, so that the test's own never leak into it; and
    without HTTP unless a test asks for it, since all brokers have the same default port."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("STINT_")}
    environment["STINT_HTTP_LISTEN"] = "none"
    environment.update(more or {})
    return environment


class WatchedProcess:
    """One command that can be started again after it ended. Thread-safe where it waits."""

    def __init__(self):
        self.process = None
        self.lines = []  # of all runs, oldest first; standard output and error together
        self.first_line = 0  # of the run that goes on now
        self._changed = threading.Condition()
        self._reader = None

    def launch_command(self, command, environment, stdin=None):
        assert self.process is None
        self.first_line = len(self.lines)
        self.process = subprocess.Popen(
            command, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream):
        for line in iter(stream.readline, b""):
            with self._changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def output_ended(self, timeout=None):
        """Waits until nobody can write to the output any more."""
        self._reader.join(timeout)

    def wait_for_line(self, pattern, timeout=DEADLINE, count=1):
        """Waits for `count` lines of this run that match; the match of the newest."""
        expression = re.compile(pattern)

        def find():
            found = [match for match in map(expression.search, self.lines[self.first_line:])
                     if match]
            if len(found) >= count:
                return found[-1]
            return None if self._reader.is_alive() else False

        with self._changed:
            match = self._changed.wait_for(lambda: find() is not None, timeout) and find()
        if not match:
            raise AssertionError(f"no line of the output matches {pattern}:\n{self.log()}")
        return match

    def log(self):
        return "\n".join(self.lines)

    def signal(self, number):
        """To the process and what it started."""
        os.killpg(self.process.pid, number)

    def kill(self):
        """kill -9. Returns when the process is gone."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def terminate(self, timeout=DEADLINE):
        """SIGTERM to the process alone; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout=DEADLINE):
        """Waits for the end of the process; its exit code, negative for a signal."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        self.process.stdout.close()
        self.process = None
        return code

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def close(self):
        """Ends whatever still runs."""
        if self.process is not None:
            try:
                self.thaw()
                self.signal(signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended by itself
            self.wait()
