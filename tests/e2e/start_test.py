"""How the broker starts, refuses to start, and stops: data folders in every condition."""

import glob
import os
import re
import shutil
import signal
import socket
import threading
import unittest

import grpc

from broker import (BrokerTest, DEADLINE, Refused, complete, count_states, enqueue, get, lease,
                    list_jobs, pb, stats, wait_for_parked_calls, wait_job)

DRAINED, USAGE, STORE_REFUSED, CANNOT_LISTEN = 0, 2, 3, 5


class DataFolderTest(BrokerTest):
    """Cases S79, S80, and the issue's damaged logs and folders in use."""

    def refuse(self, broker, code):
        """Starts the broker, which must end by itself; what it said."""
        broker.launch()
        self.assertEqual(broker.wait(), code, broker.log())
        return "\n".join(broker.lines[broker.first_line:])

    def test_crash_of_an_empty_broker(self):
        """S79: killed at any moment of its first starts; works in every round."""
        broker = self.broker()
        never = threading.Event()
        for round_ in range(50):
            broker.launch()
            # A moment, not a condition: the point is to hit every part of a start.
            never.wait((0, 0.001, 0.01, 0.1, 1)[round_ % 5] if round_ < 10 else round_ % 5 / 50)
            broker.kill()
            if round_ % 5 == 4:
                broker.start()
                api = broker.api()
                [job] = enqueue(api, "q", payload=b"first")
                [held] = lease(api, "q")
                self.assertEqual((held.job, held.payload), (job, b"first"))
                complete(api, held)
                self.assertEqual(count_states(list_jobs(api, "q")), {"COMPLETED": round_ // 5 + 1})
                broker.kill()

    def make_folder(self):
        """A data folder as a killed broker leaves it, with 300 jobs; the jobs."""
        broker = self.start_broker(folder=os.path.join(self.folder, "original"))
        api = broker.api()
        jobs = []
        for number in range(30):
            jobs += enqueue(api, "q", count=10, payload=f"payload {number}".encode() * 50)
        broker.kill()
        return broker.folder, jobs

    def test_check_store(self):
        """--check-store counts what is there, and stays away from a broker's folder."""
        folder, jobs = self.make_folder()
        broker = self.broker(folder=folder)
        self.assertRegex(broker.check_store(),
                         rf"^1 queues, {len(jobs)} jobs, 0 leases, \d+ rows: sound\n$")
        broker.start()
        checker = self.broker("--check-store", folder=folder)
        self.assertIn("is in use by a broker", self.refuse(checker, STORE_REFUSED))
        nowhere = self.broker("--check-store", folder=os.path.join(self.folder, "nowhere"))
        self.assertIn("there is no store", self.refuse(nowhere, STORE_REFUSED))
        self.assertFalse(os.path.exists(nowhere.folder))
        self.refuse(self.broker("--check-store", "--memory"), USAGE)

    def copy_of(self, original, name):
        return shutil.copytree(original, os.path.join(self.folder, name))

    def active_log(self, folder):
        logs = [path for path in glob.glob(os.path.join(folder, "*.log")) if os.path.getsize(path)]
        self.assertTrue(logs, os.listdir(folder))
        return max(logs)

    def assert_jobs(self, broker, jobs):
        self.assertEqual([job.name for job in list_jobs(broker.api(), "q")], jobs)

    def test_zeros_behind_the_log(self):
        """S80: as a file system may leave them after a crash."""
        original, jobs = self.make_folder()
        with open(self.active_log(original), "ab") as file:
            file.write(bytes(4096))
        broker = self.start_broker(folder=original)
        self.assert_jobs(broker, jobs)

    def test_torn_record_behind_the_log(self):
        original, jobs = self.make_folder()
        log = self.active_log(original)
        with open(log, "ab") as file:
            file.write(os.urandom(100))
        broker = self.start_broker(folder=original)
        self.assert_jobs(broker, jobs)
        self.assertIn(os.path.basename(log), broker.log())

    def test_side_files_empty_or_missing(self):
        """S80: starts with all jobs, or says which file is wrong; never empty in silence."""
        original, jobs = self.make_folder()
        names = [name for name in os.listdir(original)
                 if not name.endswith((".log", ".sst"))]
        for known in ("CURRENT", "IDENTITY", "LOCK", "OWNER", "PAGE_KEY", "RESERVE", "STORE"):
            self.assertIn(known, names)
        refused = []
        for number, (name, missing) in enumerate(
                (name, missing) for name in sorted(names) for missing in (False, True)):
            folder = self.copy_of(original, f"copy{number}")
            path = os.path.join(folder, name)
            os.unlink(path)
            if not missing:
                open(path, "wb").close()
            with self.subTest(name=name, missing=missing):
                self.check_starts_or_says(folder, name, jobs, refused)
            shutil.rmtree(folder)
        # What the store cannot be read without is refused, and little else is.
        self.assertIn("CURRENT", refused)
        self.assertLessEqual({name.split("-")[0] for name in refused},
                             {"CURRENT", "MANIFEST", "PAGE_KEY"})

    def check_starts_or_says(self, folder, name, jobs, refused):
        broker = self.broker(folder=folder)
        broker.launch()
        try:
            broker.wait_until_ready()
        except AssertionError:
            self.assertEqual(broker.wait(), STORE_REFUSED, broker.log())
            errors = [line for line in broker.lines if " ERROR " in line]
            self.assertEqual(len(errors), 1, broker.log())
            self.assertIn(name, errors[0])
            refused.append(name)
        else:
            self.assert_jobs(broker, jobs)
            broker.kill()

    def test_leftover_temporary_files(self):
        original, jobs = self.make_folder()
        for name in ("000999.dbtmp", "PAGE_KEY.new", "OWNER.tmp", "001000.sst"):
            open(os.path.join(original, name), "wb").close()
        self.assert_jobs(self.start_broker(folder=original), jobs)

    def test_damage_in_the_middle_of_a_log(self):
        """Acknowledged groups behind the damage: refused, with file and offset, again and again."""
        original, jobs = self.make_folder()
        log = self.active_log(original)
        position = os.path.getsize(log) // 3
        with open(log, "r+b") as file:
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 1]))
        before = self.sizes(original)
        broker = self.broker(folder=original)
        for _ in range(2):
            said = self.refuse(broker, STORE_REFUSED)
            self.assertIn("CORRUPT_RECORD", said)
            self.assertIn(os.path.basename(log), said)
            offset = int(re.search(r"offset (\d+)", said).group(1))
            self.assertLessEqual(offset, position)
            self.assertGreater(offset, position - 32768)
        self.assertEqual(self.sizes(original), before)
        with open(log, "r+b") as file:
            file.seek(position)
            file.write(byte)
        broker.start()
        self.assert_jobs(broker, jobs)

    def sizes(self, folder):
        """Of all files but the one that names the process."""
        return {name: os.path.getsize(os.path.join(folder, name))
                for name in os.listdir(folder) if name != "OWNER"}

    def test_missing_table(self):
        original, _ = self.make_folder()
        broker = self.start_broker(folder=original)
        broker.terminate()
        [table, *_] = glob.glob(os.path.join(original, "*.sst"))
        os.unlink(table)
        said = self.refuse(broker, STORE_REFUSED)
        self.assertIn(os.path.basename(table).removesuffix("sst"), said)

    def test_two_brokers_on_one_folder(self):
        first = self.start_broker()
        api = first.api()
        enqueue(api, "q")
        second = self.broker(folder=first.folder)
        said = self.refuse(second, STORE_REFUSED)
        self.assertIn(f"on host {socket.gethostname()}, pid {first.pid}, started 20", said)
        self.assertEqual(stats(api, "q").ready, 1)
        self.assertEqual(first.stop(), DRAINED)
        second.start()
        self.assertEqual(stats(second.api(), "q").ready, 1)

    def test_folder_without_parent_or_rights(self):
        said = self.refuse(self.broker(folder=os.path.join(self.folder, "no", "such")),
                           STORE_REFUSED)
        self.assertIn(os.path.join(self.folder, "no", "such"), said)
        file = os.path.join(self.folder, "file")
        open(file, "wb").close()
        self.assertIn(file, self.refuse(self.broker(folder=file), STORE_REFUSED))

    def test_address_in_use(self):
        first = self.start_broker()
        second = self.broker(folder=os.path.join(self.folder, "other"))
        second.address = first.address
        self.assertIn(first.address, self.refuse(second, CANNOT_LISTEN))


class StopTest(BrokerTest):
    def test_drain(self):
        """SIGTERM: waiting calls end empty, what is under way is done, exit code 0 within 10 s."""
        broker = self.start_broker()
        api = broker.api()
        enqueue(api, "held")
        [held] = lease(api, "held")
        request = pb.LeaseJobsRequest(queues=["empty"], wait={"seconds": 60})
        polls = [api.worker.LeaseJobs.future(request, timeout=90) for _ in range(20)]
        wait = api.jobs.WaitJob.future(
            pb.WaitJobRequest(job=held.job, wait={"seconds": 60}), timeout=90)
        wait_for_parked_calls(api, 21)
        self.assertEqual(broker.terminate(timeout=10), DRAINED)
        for poll in polls:
            self.assertEqual(len(poll.result().leases), 0)
        self.assertEqual(wait.result().job.state, pb.JOB_STATE_LEASED)
        # The lease lives on: the worker settles when the broker is back.
        broker.start()
        complete(api, held)
        self.assertEqual(get(api, held.job).attempt, 1)

    def test_the_end_of_a_terminal(self):
        """SIGHUP ends it in order as well; under nohup it is not heard."""
        broker = self.start_broker("--memory")
        os.kill(broker.pid, signal.SIGHUP)
        self.assertEqual(broker.wait(), 0)
        deaf = self.start_broker("--memory", command=["nohup"])
        os.kill(deaf.pid, signal.SIGHUP)
        enqueue(deaf.api(), "q")
        self.assertEqual(deaf.stop(), 0)

    def test_drain_by_a_call(self):
        broker = self.start_broker()
        api = broker.api()
        poll = api.worker.LeaseJobs.future(
            pb.LeaseJobsRequest(queues=["empty"], wait={"seconds": 60}), timeout=90)
        wait_for_parked_calls(api, 1)
        api.admin.DrainServer(pb.DrainServerRequest(), timeout=DEADLINE)
        self.assertEqual(len(poll.result().leases), 0)
        self.assertEqual(broker.wait(10), DRAINED)

    def test_acknowledged_under_drain(self):
        """What was answered while the broker drained is there afterwards."""
        broker = self.start_broker()
        acknowledged, ends = [], []
        counted = threading.Semaphore(0)

        def produce(api):
            try:
                while True:
                    acknowledged.extend(enqueue(api, "q", count=5))
                    counted.release()
            except grpc.RpcError as error:
                ends.append(Refused(error))

        producers = [threading.Thread(target=produce, args=(broker.api(patient=False),))
                     for _ in range(4)]
        for producer in producers:
            producer.start()
        for _ in range(50):
            self.assertTrue(counted.acquire(timeout=DEADLINE))
        self.assertEqual(broker.terminate(timeout=10), DRAINED)
        for producer in producers:
            producer.join(DEADLINE)
        self.assertEqual(len(ends), 4)
        broker.start()
        listed = {job.name for job in list_jobs(broker.api(), "q")}
        self.assertLessEqual(set(acknowledged), listed)

    def test_memory(self):
        broker = self.start_broker("--memory")
        self.assertIn("NOTHING SURVIVES", broker.log())
        api = broker.api()
        info = api.admin.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE)
        self.assertEqual(info.store, "memory")
        [job] = enqueue(api, "q", payload=b"x")
        [held] = lease(api, "q")
        complete(api, held, result=b"y")
        self.assertEqual(wait_job(api, job).result, b"y")
        self.assertEqual(broker.stop(), DRAINED)
        self.assertFalse(os.path.exists(broker.folder))
        broker.start()
        self.assert_refused("QUEUE_NOT_FOUND", broker.api().queues.GetQueue,
                            pb.GetQueueRequest(queue="q"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
