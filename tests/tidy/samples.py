"""Bad and good samples of every rule: (path, text). The rule must report each bad one and no
good one. A sample is judged in a tree of all its rule's samples plus BACKGROUND."""

LONG = "int F(int a) {\n" + "  a += 1;\n" * 70 + "  return a;\n}\n"
LONG_METHOD = "class A {\n public:\n  A(int b)\n      : b_{b}, c_{b} {\n" + "    ++c_;\n" * 70 + "  }\n};\n"
LONG_CLASS = "namespace n {\nclass A {\n" + "  int F() { return 1; }\n" * 90 + "};\n}  // namespace n\n"

BACKGROUND = [
    ("storage/keys.h", ""), ("server/engine/engine.h", ""), ("server/runtime/clock.h", ""),
    ("server/ops/log.h", ""), ("proto/stint/v1/job.proto", ""), ("storage/record.proto", ""),
    ("README.md", "# Stint\n\n## Two words, `code` & more\n\n## Twice\n\n## Twice\n"),
]


def cc(path, line):
    return path, line + "\n"


SAMPLES = {
    "layers": {
        "bad": [
            cc("storage/a.cc", '#include "server/engine/engine.h"'),
            cc("server/engine/a.cc", '#include "server/runtime/clock.h"'),
            cc("server/engine/b.cc", '#include "stint/v1/job.pb.h"'),
            cc("server/runtime/a.cc", '#include "stint/v1/job.pb.h"'),
            cc("server/runtime/b.cc", '#include "server/ops/log.h"'),
            cc("server/api/a.cc", '#include "storage/keys.h"'),
            cc("client/cpp/a.cc", '#include "storage/keys.h"'),
            cc("client/cpp/b.cc", '#include "server/engine/engine.h"'),
        ],
        "good": [
            cc("server/engine/c.cc", '#include "storage/keys.h"'),
            cc("server/api/c.cc", '#include "server/runtime/clock.h"'),
            cc("server/api/d.cc", '#include "stint/v1/job.pb.h"'),
            cc("server/broker.cc", '#include "storage/keys.h"'),
            cc("client/cli/a.cc", '#include "stint/v1/job.pb.h"'),
            cc("storage/c.cc", '// #include "server/engine/engine.h"'),
        ],
    },
    "pure-engine": {
        "bad": [cc("server/engine/a.cc", f"#include {name}") for name in (
            "<chrono>", "<thread>", "<mutex>", "<random>", "<sys/stat.h>", "<fstream>",
            '"rocksdb/db.h"', '"grpcpp/grpcpp.h"', '"absl/time/clock.h"')],
        "good": [cc("server/engine/b.cc", "#include <vector>"),
                 cc("server/runtime/b.cc", "#include <thread>"),
                 cc("server/engine/c.cc", '#include "absl/time/time.h"')],
    },
    "heavy-headers": {
        "bad": [cc("storage/tables.cc", '#include "rocksdb/db.h"'),
                cc("server/runtime/loop.cc", "#include <boost/asio.hpp>"),
                cc("server/runtime/loop.h", "#include <grpcpp/grpcpp.h>"),
                cc("client/cpp/client.h", '#include "stint/v1/job_service.grpc.pb.h"')],
        "good": [cc("storage/rocks_store.cc", '#include "rocksdb/db.h"'),
                 cc("server/runtime/asio_executor.cc", "#include <boost/asio.hpp>"),
                 cc("server/api/job_service.cc", '#include "stint/v1/job_service.grpc.pb.h"'),
                 cc("server/runtime/loop.cc", '#include "stint/v1/job.pb.h"')],
    },
    "includes-from-root": {
        "bad": [cc("storage/a.cc", '#include "keys.h"'),
                cc("storage/b.cc", '#include "storage/no.pb.h"'),
                cc("storage/c.cc", "#include <storage/keys.h>")],
        "good": [cc("storage/d.cc", '#include "storage/keys.h"'),
                 cc("storage/e.cc", '#include "storage/record.pb.h"'),
                 cc("storage/f.cc", '#include "stint/v1/job.pb.h"'),
                 cc("storage/g.cc", '#include "absl/status/status.h"')],
    },
    "clock": {
        "bad": [cc("server/api/a.cc", "auto t = std::chrono::steady_clock::now();"),
                cc("server/api/b.cc", "auto t = absl::Now();"),
                cc("server/api/c.cc", "clock_gettime(CLOCK_BOOTTIME, &ts);"),
                cc("server/api/d.cc", "auto t = time(nullptr);"),
                cc("tests/unit/e.cc", "auto t = std::time(&u);")],
        "good": [cc("server/runtime/clock.cc", "clock_gettime(CLOCK_BOOTTIME, &ts);"),
                 cc("server/api/f.cc", "// absl::Now() would be wrong here"),
                 cc("server/api/g.cc", "const auto t = job.due_time(); view.time(0);")],
    },
    "sleep": {
        "bad": [cc("tests/unit/a.cc", "std::this_thread::sleep_for(d);"),
                cc("server/runtime/a.cc", "usleep(5);"),
                cc("tests/e2e/b.cc", "absl::SleepFor(absl::Seconds(1));"),
                cc("tests/e2e/a.sh", "kill $pid; sleep 1"),
                cc("tests/e2e/b.sh", "sleep $DELAY"),
                cc("tests/e2e/a.py", "time.sleep(0.1)")],
        "good": [cc("tests/unit/c.cc", "// no sleep_for(here)"),
                 cc("tests/e2e/c.sh", "echo the workers sleep"),
                 cc("deploy/a.sh", "sleep 0.1")],
    },
    "types": {
        "bad": [cc("server/runtime/a.h", "absl::Mutex mutex_;"),
                cc("client/cpp/a.cc", "std::mutex mutex_;"),
                cc("storage/a.h", "const std::lock_guard lock(mutex_);"),
                cc("server/runtime/b.h", "void F(std::string_view s);")],
        "good": [cc("server/runtime/c.h", "void F(absl::string_view s);"),
                 cc("sync/a.h", "std::mutex mutex_;"), cc("tests/unit/a.h", "std::mutex mutex_;"),
                 cc("storage/d.cc", "std::string_view s = slice;")],
    },
    "leftovers": {
        "bad": [cc("storage/a.cc", "// TODO: later"), cc("README.md", "FIXME"),
                cc("tests/unit/a_test.cc", "TEST(A, DISABLED_B) {}"),
                cc("tests/unit/b_test.cc", "GTEST_SKIP();")],
        "good": [cc("storage/b.cc", "int TODOS = 0;")],
    },
    "words": {
        "bad": [cc("server/api/a.cc", "int task_count = 0;"), cc("server/api/b.cc", "void AckJob();"),
                cc("proto/stint/v1/a.proto", "message ConsumerGroup {}"),
                cc("storage/b.h", "class JobReservation;")],
        "good": [cc("server/api/c.cc", "// a task elsewhere"), cc("server/api/d.cc", "int backlog;"),
                 cc("server/api/e.cc", "int stack = multitasking(packet);")],
    },
    "file-names": {
        "bad": [cc("storage/util.cc", ""), cc("server/common/a.cc", ""), cc("tests/helpers.py", ""),
                cc("client/job_manager.h", ""), cc("storage/misc-keys.cc", "")],
        "good": [cc("storage/utility_bill.cc", ""), cc("storage/keys.cc", "")],
    },
    "header-guard": {
        "bad": [("storage/a.h", "// A.\n#pragma once\n"),
                ("storage/b.h", "// B.\n#ifndef STINT_A_H_\n#define STINT_A_H_\n#endif\n"),
                ("storage/c.h", "#ifndef STINT_STORAGE_C_H_\n#define STINT_STORAGE_C_H_\n#endif\n")],
        "good": [("server/engine/d.h", "// D.\n#ifndef STINT_SERVER_ENGINE_D_H_\n"
                                       "#define STINT_SERVER_ENGINE_D_H_\n#endif\n")],
    },
    "text": {
        "bad": [("a.cc", "int a;"), ("b.cc", "int a;\n\n"), ("c.cc", "int a; \n"),
                ("d.cc", "\tint a;\n"), ("e.cc", "int a;\r\n"), ("f.cc", b"\xff\xfe\n")],
        "good": [("g.md", "two blanks  \n"), ("h.cc", "// \u00e9\n"), ("i.cc", "")],
    },
    "length": {
        "bad": [("a.cc", "int a;\n" * 501), ("b.cc", LONG), ("c.cc", LONG_METHOD),
                ("d.cc", "namespace n {\n" + LONG + "}\n")],
        "good": [("e.cc", "int a;\n" * 500), ("f.md", "a\n" * 900), ("g.cc", LONG_CLASS),
                 ("h.cc", "const int kTable[] = {\n" + "    1,\n" * 90 + "};\n"), ],
    },
    "every-source-is-built": {
        "bad": [cc("storage/lost.cc", ""), cc("server/engine/unlisted.cc", "")],
        "good": [cc("storage/CMakeLists.txt", "add_library(s keys.cc)"), cc("storage/keys.cc", ""),
                 cc("server/CMakeLists.txt", "add_library(e engine/engine.cc)"),
                 cc("server/engine/engine.cc", "")],
    },
    "links": {
        "bad": [cc("a.md", "[x](no.md)"), cc("b.md", "[x](README.md#nothing)"),
                cc("storage/c.md", "[x](README.md)"), cc("d.md", "[x]: gone.md")],
        "good": [cc("e.md", "[x](README.md#two-words-code--more) [y](storage/keys.h)"),
                 cc("storage/f.md", "[x](../README.md) [y](..)"), cc("g.md", "`[x](no.md)`"),
                 cc("h.md", "```\n[x](no.md)\n```"), cc("i.md", "[x](https://example.org/#a)"),
                 cc("j.md", "# A b\n[x](#a-b) [y](README.md#twice-1)")],
    },
}
