"""The rules of tidy_test.py: each takes (source, tree) and yields (line, message).

A rule is a function decorated with @rule and has bad and good samples in samples.py; a rule
without samples, or one that does not report its bad samples, fails the test.
"""

import posixpath
import re

from source_tree import VENDORED

RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


def matches(lines, pattern, message):
    for number, line in enumerate(lines, 1):
        match = pattern.search(line)
        if match:
            yield number, message.format(match.group(0).strip())


# --- Walls between the layers ----------------------------------------------------------------

GENERATED_API = ("stint/v1/", "google/rpc/", "google/api/")
# For every layer but the engine, which needs no threads.
SYNC = ("sync/",)
# Folder -> what of ours it may include besides itself. The longest matching folder counts;
# a folder with None is a composition root or a test and may include everything.
LAYERS = {
    "sync/": (),
    "storage/": SYNC,
    "server/engine/": ("storage/",),
    "server/runtime/": ("server/engine/", "storage/") + SYNC,
    "server/ops/": ("server/runtime/", "server/engine/") + SYNC,
    # Reads for people go past the engine; the engine's plain values hold records.
    "server/api/": ("server/runtime/", "server/engine/", "server/ops/", "storage/reader.h",
                    "storage/record.pb.h", "storage/job_id.h") + GENERATED_API + SYNC,
    "server/": None,
    "client/": GENERATED_API + SYNC,
    "tests/": None,
    "bench/": None,
}
PACKAGED = ("absl/", "benchmark/", "boost/", "CLI/", "gmock/", "google/protobuf/", "grpc/",
            "grpcpp/", "gtest/", "openssl/", "rocksdb/", "spdlog/", "toml++/")


def layer_of(path):
    folders = [folder for folder in LAYERS if path.startswith(folder)]
    return max(folders, key=len) if folders else None


@rule
def layers(source, tree):
    """Dependencies run one way: api -> runtime -> engine -> storage; client -> proto."""
    layer = layer_of(source.path)
    if not source.is_cpp or layer is None or LAYERS[layer] is None:
        return
    for number, _, path in source.includes:
        ours = layer_of(path) or (path.startswith(GENERATED_API) and GENERATED_API[0])
        if ours and not path.startswith((layer,) + LAYERS[layer]):
            if not tree.excused("layers", f"{source.path}:{path}"):
                yield number, f"{layer} may not include {path}"


ENGINE_FORBIDDEN = re.compile(
    r"(chrono|thread|mutex|shared_mutex|condition_variable|future|atomic|stop_token|semaphore"
    r"|latch|barrier|random|ctime|time\.h|fstream|iostream|filesystem|cstdio|stdio\.h|unistd\.h"
    r"|fcntl\.h|pthread\.h|sys/.*|grpc.*|rocksdb/.*|boost/.*|spdlog/.*|absl/random/.*"
    r"|absl/time/clock\.h|absl/synchronization/.*)")


@rule
def pure_engine(source, tree):
    """The engine decides and nothing else: no threads, no I/O, no clock, no randomness."""
    if source.path.startswith("server/engine/"):
        for number, _, path in source.includes:
            if ENGINE_FORBIDDEN.fullmatch(path):
                yield number, f"the engine has no use for {path}: pass time and chance as arguments"


# Each of these costs seconds to include, so few .cc files may, and no header outside the edge.
HEAVY = {
    re.compile(r"rocksdb/.*"): re.compile(r"storage/rocks_\w+\.(cc|h)"),
    re.compile(r"boost/(asio|beast).*"):
        re.compile(r"server/runtime/asio_\w+\.cc|server/ops/http_\w+\.cc"),
    re.compile(r"grpc(pp)?/.*|.*\.grpc\.pb\.h"):
        re.compile(r"server/api/\w+\.(cc|h)|server/(broker|main)\.cc|client/(cpp|cli)/\w+\.cc"
                   r"|tests/(e2e|support|unit)/.*\.(cc|h)|bench/.*\.cc"),
}


@rule
def heavy_headers(source, tree):
    if not source.is_cpp:
        return
    for number, _, path in source.includes:
        for heavy, allowed in HEAVY.items():
            if heavy.fullmatch(path) and not allowed.fullmatch(source.path):
                if not tree.excused("heavy-headers", source.path):
                    yield number, f"{path} is heavy and not for this file; see tests/tidy/rules.py"


@rule
def includes_from_root(source, tree):
    if not source.is_cpp:
        return
    for number, quote, path in source.includes:
        if quote == '"':
            known = path in tree.sources or path.startswith(PACKAGED)
            generated = re.sub(r"(\.grpc)?\.pb\.h$", ".proto", path)
            if not known and generated not in tree.paths and f"proto/{generated}" not in tree.paths:
                yield number, f'"{path}" is no file from the root and no known package'
        elif path in tree.sources:
            yield number, f"<{path}> is ours: include it in quotes"


# --- Time, threads, types --------------------------------------------------------------------

CLOCK = re.compile(
    r"\b(clock_gettime|clock_getres|gettimeofday|timespec_get)\s*\(|_clock::now\s*\("
    r"|\babsl::(Now|GetCurrentTimeNanos)\s*\(|(?<![\w.>:])(std::)?time\s*\(\s*(NULL|nullptr|0|&\w+)\s*\)")


@rule
def clock(source, tree):
    """Time comes from one place, so that tests and the simulator can move it."""
    if source.is_cpp and not re.match(r"(server/runtime|client/cpp)/clock\.|bench/", source.path):
        if not tree.excused("clock", source.path):
            yield from matches(source.code, CLOCK, "'{}' outside clock.*: take the time from there")


SLEEPS = {
    "cpp": re.compile(r"\b(u|nano|clock_nano)?sleep\s*\(|\bsleep_(for|until)\b|\bSleepFor\b"),
    ".py": re.compile(r"\bsleep\s*\("),
    ".sh": re.compile(r"(^|[\s;&|(`'\"])u?sleep\s+[\d.$\"']"),
}


@rule
def sleep(source, tree):
    """A sleep is a guess: wait for the event or move the clock. Scripts outside tests may poll."""
    kind = "cpp" if source.is_cpp else source.ending
    if kind in SLEEPS and (source.is_cpp or source.path.startswith("tests/")):
        if source.path.startswith("tests/tidy/"):
            return
        yield from matches(source.code if source.is_cpp else source.lines, SLEEPS[kind],
                           "'{}': wait for the event or move the clock")


UNANNOTATED = re.compile(r"\bstd::(mutex|lock_guard|scoped_lock|condition_variable)\b")


@rule
def types(source, tree):
    if not source.is_cpp:
        return
    yield from matches(source.code, re.compile(r"\babsl::(Mutex\w*|CondVar)\b"),
                       "'{}' cannot be checked by the thread sanitizer here: use sync/mutex.h")
    if source.path.startswith(("storage/", "server/", "client/")):
        yield from matches(source.code, UNANNOTATED, "'{}' is not seen by -Wthread-safety: "
                                                     "use sync/mutex.h")
    if source.ending == ".h":
        yield from matches(source.code, re.compile(r"\bstd::string_view\b"),
                           "'{}' in an interface: use absl::string_view")


# --- Words and names -------------------------------------------------------------------------

LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK|DISABLED_\w+|GTEST_SKIP)\b")


@rule
def leftovers(source, tree):
    if not source.path.startswith(("tests/tidy/",) + VENDORED):
        yield from matches(source.lines, LEFTOVERS, "'{}': do it now or file an issue")


# One word per thing: what these are called here stands in PROTOCOL.md.
NOT_OUR_WORDS = {"task": "job", "tasks": "jobs", "ack": "settle", "acks": "settles",
                 "nack": "release", "reservation": "lease", "reservations": "leases",
                 "consumer": "worker", "consumers": "workers"}
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@rule
def words(source, tree):
    if not (source.is_cpp or source.ending == ".proto") or source.path.startswith(VENDORED):
        return
    for number, line in enumerate(source.code, 1):
        for word in WORD.findall(line):
            if word.lower() in NOT_OUR_WORDS:
                yield number, f"'{word}' in a name: it is called {NOT_OUR_WORDS[word.lower()]} here"


BAD_NAME = re.compile(r"(^|_|-)(utils?|common|helpers?|managers?|misc)(_|-|$)")


@rule
def file_names(source, tree):
    for part in source.path.split("/"):
        if BAD_NAME.search(part.split(".")[0].lower()):
            yield 1, f"'{part}' says nothing: name it for what a reader looks for"


@rule
def header_guard(source, tree):
    if source.ending != ".h" or source.path.startswith(VENDORED):
        return
    guard = "STINT_" + re.sub(r"[^A-Z0-9]", "_", source.path.upper()) + "_"
    directives = [line.strip() for line in source.lines if line.startswith("#")]
    if directives[:2] != [f"#ifndef {guard}", f"#define {guard}"]:
        yield 1, f"the guard of this header is {guard}"
    if not source.text.startswith("//"):
        yield 1, "a header opens with what the thing is, how it is used and its thread rule"


# --- Form ------------------------------------------------------------------------------------

@rule
def text(source, tree):
    if source.text is None:
        yield 1, "not UTF-8"
        return
    if source.data and (not source.data.endswith(b"\n") or source.data.endswith(b"\n\n")):
        yield len(source.lines), "ends without a newline or with an empty line"
    yield from matches(source.lines, re.compile(r"\r"), "carriage return")
    if source.ending not in (".md", ".go") and source.name != "LICENSE":
        yield from matches(source.lines, re.compile(r"\t|[ ]+$"), "tab or trailing blank")


LONG_FILE = 500
LONG_FUNCTION = 70
COUNTED = (".cc", ".h", ".proto", ".py", ".sh", ".cmake", ".js", ".ts", ".go")


@rule
def length(source, tree):
    """Over the limits only with a reason in exceptions.txt."""
    if source.ending not in COUNTED or source.path.startswith(VENDORED):
        return
    count = len(source.lines) - 1
    if count > LONG_FILE and not tree.excused("length", source.path):
        yield 1, f"{count} lines, over {LONG_FILE}"
    for name, first, last in source.functions:
        if last - first + 1 > LONG_FUNCTION:
            if not tree.excused("length", f"{source.path}:{name}"):
                yield first, f"{name} has {last - first + 1} lines, over {LONG_FUNCTION}"


@rule
def every_source_is_built(source, tree):
    """A .cc file that no CMake list names is dead code."""
    if source.ending != ".cc":
        return
    for path, other in tree.sources.items():
        if path.endswith(("CMakeLists.txt", ".cmake")):
            folder = posixpath.dirname(path)
            if source.path.startswith(folder):
                inside = posixpath.relpath(source.path, folder or ".")
                if re.search(rf"(?<![\w.-]){re.escape(inside)}(?![\w.])", other.text or ""):
                    return
    yield 1, "no CMakeLists.txt names this file: nothing builds it"


# --- Documents -------------------------------------------------------------------------------

def prose_of(source):
    """Lines of Markdown without code."""
    fence = None
    for line in source.lines:
        match = re.match(r"\s*(```+|~~~+)", line)
        if match and (fence is None or match.group(1).startswith(fence)):
            fence = match.group(1) if fence is None else None
            yield ""
        else:
            yield "" if fence else re.sub(r"`[^`]*`", "", line)


def anchors_of(source):
    """The anchors a heading gets when the document is shown: lower case, blanks to hyphens."""
    anchors, fence = set(), False
    for line in source.lines:
        if re.match(r"\s*(```|~~~)", line):
            fence = not fence
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if match and not fence:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            candidate, count = slug, 0
            while candidate in anchors:
                count += 1
                candidate = f"{slug}-{count}"
            anchors.add(candidate)
        anchors.update(re.findall(r'<a (?:name|id)="([^"]+)"', line))
    return anchors


LINK = re.compile(r"\]\(\s*<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\s*\)|^\s*\[[^\]]+\]:\s*(\S+)")


@rule
def links(source, tree):
    if source.ending != ".md":
        return
    for number, line in enumerate(prose_of(source), 1):
        for match in LINK.finditer(line):
            target = match.group(1) or match.group(2)
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            folder = posixpath.dirname(source.path)
            path = posixpath.normpath(posixpath.join(folder, path)) if path else source.path
            if path not in tree.paths and path != ".":
                yield number, f"{target}: there is no {path}"
            elif anchor and path in tree.sources and anchor not in anchors_of(tree.sources[path]):
                yield number, f"{target}: {path} has no heading for #{anchor}"
