"""The wall clock steps by three hours, forward and back, under load: leases, delays and tokens do not
notice. libfaketime changes what the broker sees of it, and leaves the other clocks alone."""

import os
import unittest

from broker import BrokerTest, enqueue, get, lease, pb, state_name
from recorded_load import RecordedLoad

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
HOURS = (3, 0, -3, 0, 3, -3)
HOUR_MS = 3_600_000


class ClockTest(BrokerTest):
    def set_clock(self, hours):
        """What the broker's wall clock is ahead from now on."""
        with open(self.offset + ".new", "w", encoding="ascii") as file:
            file.write(f"{hours:+}h\n")
        os.rename(self.offset + ".new", self.offset)

    def start_with_clock(self):
        self.offset = os.path.join(self.folder, "offset")
        self.set_clock(0)
        return self.start_broker(environment={
            "LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": self.offset, "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"})

    def wall_ms(self, api):
        return api.admin.GetServerInfo(pb.GetServerInfoRequest()).current_time.ToMilliseconds()

    def test_steps_under_load(self):
        broker = self.start_with_clock()
        api = broker.api()
        enqueue(api, "held")
        [held] = lease(api, "held", duration=120, worker="holder")
        load = RecordedLoad(broker)
        [delayed] = enqueue(api, "delayed", delay={"seconds": 600})
        begin_ms = self.wall_ms(api)
        for hours in HOURS:
            self.set_clock(hours)
            # The steps are real to the broker.
            ahead_ms = self.wall_ms(api) - begin_ms
            self.assertLess(abs(ahead_ms - hours * HOUR_MS), HOUR_MS)
            load.wait_for_more(300)
        load.finish(self)
        print(f"{len(HOURS)} steps: {load.summary()}")
        # A delay runs in broker time, and a lease too.
        self.assertEqual(state_name(get(api, delayed).state), "DELAYED")
        job = get(api, held.job)
        self.assertEqual((job.holder.token, len(job.attempts)), (held.token, 0))

    def test_a_due_time_follows_the_wall_clock(self):
        broker = self.start_with_clock()
        api = broker.api()
        due = self.wall_ms(api) + 2 * HOUR_MS
        [job] = enqueue(api, "q", due_time={"seconds": due // 1000})
        self.assertEqual(state_name(get(api, job).state), "DELAYED")
        self.set_clock(3)
        [held] = lease(api, "q", wait=20)
        self.assertEqual(held.job, job)
        # Back again: what was ready stays so, and a restart in the past loses nothing.
        self.set_clock(-3)
        broker.restart(check_store=True)
        api = broker.api()
        self.assertEqual(get(api, job).holder.token, held.token)


if __name__ == "__main__":
    unittest.main(verbosity=2)
