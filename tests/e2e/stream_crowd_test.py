"""2,000 sessions at once: each gets a job, and what the broker spends on them."""

import os
import subprocess
import threading
import time
import unittest

from broker import (BIN, BrokerTest, enqueue, list_jobs, pb, stats, wait_for_parked_calls)
from watched_process import WatchedProcess, environment_without_ours

STREAMS = 2000
CONNECTIONS = 500
MEASURED_SECONDS = 10
TICKS = os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class StreamCrowdTest(BrokerTest):
    def measure(self, broker, what):
        begin, spent = time.monotonic(), processor_seconds(broker.pid)
        threading.Event().wait(MEASURED_SECONDS)
        share = (processor_seconds(broker.pid) - spent) / (time.monotonic() - begin)
        print(f"{STREAMS} sessions, {what}: {share * 100:.1f} % of a processor, "
              f"{resident_mib(broker.pid):.0f} MiB", flush=True)

    def test_two_thousand(self):
        broker = self.start_broker()
        api = broker.api()
        before = resident_mib(broker.pid)
        crowd = WatchedProcess()
        self.addCleanup(crowd.close)
        crowd.launch_command([os.path.join(BIN, "stream_crowd"), broker.address, "q",
                              str(CONNECTIONS), str(STREAMS)], environment_without_ours(),
                             stdin=subprocess.PIPE)
        crowd.wait_for_line("^up$", 120)
        self.measure(broker, "idle")
        jobs = enqueue(api, "q", count=STREAMS)
        crowd.wait_for_line("^held$", 120)
        self.assertEqual(stats(api, "q").leased, len(jobs))
        self.measure(broker, "each with a lease")
        crowd.process.stdin.write(b"complete\n")
        crowd.process.stdin.flush()
        crowd.wait_for_line("^completed$", 120)
        ended = list_jobs(api, "q")
        self.assertEqual([job.name for job in ended], jobs)
        self.assertEqual({(job.state, job.attempt) for job in ended},
                         {(pb.JOB_STATE_COMPLETED, 1)})
        grown = resident_mib(broker.pid) - before
        print(f"memory: {before:.0f} MiB without sessions, {grown:.0f} MiB more with them",
              flush=True)
        self.assertLess(grown, 0.2 * STREAMS)  # 200 KiB each
        crowd.process.stdin.close()
        crowd.wait_for_line("^left$", 120)
        self.assertEqual(crowd.wait(), 0, crowd.log())
        wait_for_parked_calls(api, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
