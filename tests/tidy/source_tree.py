"""The files of the project as the tidy rules see them.

A Source is one text file; its views (lines, code without comments and strings, includes) are
computed once and kept. A Tree is all of them. Files in folders of raw test data are not read.
"""

import functools
import os
import re
import subprocess

CPP = (".cc", ".h", ".def")
# Bytes kept for tests, not text of ours.
DATA_FOLDERS = ("tests/fuzz/corpus/", "tests/compat/", "tests/golden/data/")
BINARY_ENDINGS = (".png", ".ico", ".svg", ".gz", ".binpb")
VENDORED = ("proto/google/", "proto/grpc/")

_TOKEN = re.compile(
    r'R"(?P<delimiter>[^ ()\\\t\n]{0,16})\(.*?\)(?P=delimiter)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'  # string
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"  # character, but no digit separator
    r"|//[^\n]*"
    r"|/\*.*?\*/",
    re.S,
)


def blank(match):
    """The same number of lines, nothing else."""
    text = match.group(0)
    return ('""' if text[0] in "\"R'" else "") + "\n" * text.count("\n")


class Source:
    """One file: `path` from the root with slashes, and its text (None if not UTF-8)."""

    def __init__(self, path, data):
        self.path = path
        self.data = data if isinstance(data, bytes) else data.encode()
        self.name = os.path.basename(path)
        self.ending = os.path.splitext(path)[1]
        try:
            self.text = self.data.decode()
        except UnicodeDecodeError:
            self.text = None

    @property
    def is_cpp(self):
        return self.ending in CPP

    @functools.cached_property
    def lines(self):
        return (self.text or "").split("\n")

    @functools.cached_property
    def code(self):
        """Lines of C++ or proto without comments and with strings emptied."""
        return _TOKEN.sub(blank, self.text or "").split("\n")

    @functools.cached_property
    def includes(self):
        """[(line number, '"' or '<', path)]"""
        found = []
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                found.append((number, match.group(1), match.group(2)))
        return found

    @functools.cached_property
    def functions(self):
        """[(name, first line, last line)] of the C++ functions, nested ones not counted."""
        if not self.is_cpp:
            return []
        lines = ["" if line.lstrip().startswith("#") else line for line in self.code]
        return list(find_functions("\n".join(lines)))


def find_functions(code):
    """Pairs braces; a brace after a head with parentheses outside a function opens one."""
    stack, head, line = [], "", 1  # stack of (kind, name, first line); head: text since ; { or }
    for position, char in enumerate(code):
        if char == "{":
            inside = stack and stack[-1][0] != "scope"
            if inside or not re.search(r"\)|^\s*(namespace|class|struct|enum|union|extern)\b", head):
                kind = "scope" if not inside and "extern" in head else "block"
            elif re.match(r"\s*(template\s*<.*?>\s*)?(namespace|class|struct|enum|union)\b", head, re.S):
                kind = "scope"
            else:
                kind = "function"
            name = re.search(r"TEST\w*\(\s*\w+,\s*\w+|[\w:~]+(?=\s*\()", head)
            first = line - head.lstrip().count("\n")
            name = re.sub(r"TEST\w*\(\s*(\w+),\s*", r"\1.", name.group(0)) if name else "?"
            stack.append((kind, name, first))
            head = ""
        elif char == "}" and stack:
            kind, name, first = stack.pop()
            if kind == "function":
                if re.match(r"\s*[,{]", code[position + 1:position + 200]):
                    head = f"{name}()" + "\n" * (line - first)  # a member initialised in braces
                    continue
                yield name, first, line
            head = ""
        elif char == ";":
            head = ""
        else:
            head += char
            line += char == "\n"


class Tree:
    """All sources by path, and the paths of all files and folders."""

    def __init__(self, sources, exceptions=None, other_paths=()):
        self.sources = {source.path: source for source in sources}
        self.paths = set(self.sources) | set(other_paths)
        for path in list(self.paths):
            while "/" in path:
                path = path.rsplit("/", 1)[0]
                self.paths.add(path)
        self.exceptions = exceptions or {}
        self.used_exceptions = set()

    def excused(self, rule, subject):
        """True if exceptions.txt excuses `subject` from `rule`."""
        if (rule, subject) in self.exceptions:
            self.used_exceptions.add((rule, subject))
            return True
        return False


def read_exceptions(text):
    """Lines `rule subject: reason`; # starts a comment line."""
    exceptions = {}
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            match = re.fullmatch(r"(\S+) (\S+): (\S.*)", line)
            if not match:
                raise SystemExit(f"exceptions.txt: not 'rule subject: reason': {line}")
            exceptions[match.group(1), match.group(2)] = match.group(3)
    return exceptions


def list_files(root):
    """What git tracks or would track; in an exported tree, everything but the build folders."""
    if os.path.exists(os.path.join(root, ".git")):
        # The owner of a checkout may differ from the user who tests it, as in a container.
        out = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached",
             "--others", "--exclude-standard"],
            check=True, capture_output=True).stdout.decode()
        return sorted(path for path in set(out.split("\0"))
                      if path and os.path.isfile(os.path.join(root, path)))
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders
                         if name not in ("node_modules", "__pycache__")
                         and not (folder == root and name.startswith("build"))]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def load_tree(root):
    with open(os.path.join(root, "tests/tidy/exceptions.txt"), encoding="utf-8") as file:
        exceptions = read_exceptions(file.read())
    sources, others = [], []
    for path in list_files(root):
        if path.startswith(DATA_FOLDERS) or path.endswith(BINARY_ENDINGS):
            others.append(path)
            continue
        with open(os.path.join(root, path), "rb") as file:
            sources.append(Source(path, file.read()))
    return Tree(sources, exceptions, others)
