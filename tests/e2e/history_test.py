"""Whether the judge of recorded histories can tell a broken one."""

import unittest

from recorded_load import History, Told


def violations(*calls):
    """Calls as (what, token, begin, end), all of one job."""
    return History(Told(what, "j", token, begin, end)
                   for what, token, begin, end in calls).violations()


class HistoryTest(unittest.TestCase):
    def test_sound_histories(self):
        self.assertEqual(violations(("granted", 1, 0, 1), ("renewed", 1, 2, 3), ("failed", 1, 4, 5),
                                    ("granted", 2, 6, 7), ("completed", 2, 8, 9)), [])
        # What overlaps may have come in either order.
        self.assertEqual(violations(("granted", 1, 0, 1), ("granted", 2, 2, 6),
                                    ("renewed", 1, 3, 4)), [])
        self.assertEqual(violations(("granted", 1, 0, 1), ("completed", 1, 2, 9),
                                    ("renewed", 1, 3, 4)), [])

    def test_broken_histories(self):
        for calls in (
                [("granted", 1, 0, 1), ("granted", 2, 2, 3), ("renewed", 1, 4, 5)],
                [("granted", 1, 0, 1), ("granted", 2, 2, 3), ("completed", 1, 4, 5)],
                [("granted", 2, 0, 1), ("granted", 1, 2, 3)],
                [("granted", 1, 0, 1), ("granted", 1, 2, 3)],
                [("failed", 1, 0, 1), ("renewed", 1, 2, 3)],
                [("failed", 1, 0, 1), ("completed", 1, 2, 3)],
                [("renewed", 2, 0, 1), ("completed", 1, 2, 3)],
                [("completed", 1, 0, 1), ("granted", 2, 2, 3)]):
            self.assertEqual(len(violations(*calls)), 1, calls)


if __name__ == "__main__":
    unittest.main(verbosity=2)
