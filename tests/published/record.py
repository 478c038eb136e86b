"""Runs one of mpi4py's test modules in every rank of a job and writes down how each test ended.

    record.py TESTS MODULE OUTPUT

TESTS is the directory of the modules. Rank N writes OUTPUT.N, one JSON object a line: {"begin": TEST} before
a test, and {"end": TEST, "how": "passed" | "skipped" | "failed", "why": TEXT} after it, so that a test that
never ends can be named. It decides nothing: who compares the files knows what may fail.
"""

import json
import sys
import unittest


class Recorder(unittest.TestResult):
    """Writes one line for the begin and one for the end of each test."""

    def __init__(self, path):
        super().__init__()
        self._out = open(path, "w", encoding="utf-8", buffering=1)
        self._open = {}

    @staticmethod
    def _name(test):
        # A module that cannot be loaded is a test of the loader, and what is done for a class has the
        # class in brackets.
        name = test.id().replace("unittest.loader._FailedTest.", "load.")
        what, bracket, owner = name.rstrip(")").partition(" (")
        return f"{owner}.{what}" if bracket else name

    def _line(self, **what):
        self._out.write(json.dumps(what) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self._open[self._name(test)] = ("passed", "")
        self._line(begin=self._name(test))

    def stopTest(self, test):
        super().stopTest(test)
        how, why = self._open.pop(self._name(test))
        self._line(end=self._name(test), how=how, why=why)

    def _note(self, test, how, why):
        if self._name(test) in self._open:
            self._open[self._name(test)] = (how, why)
        else:
            # The setup of a class or a module, which is no test.
            self._line(end=self._name(test), how=how, why=why)

    @staticmethod
    def _reason(error):
        kind, value, _ = error
        text = " ".join(str(value).split())
        # What was wrong stands at the end, behind the way to a module that cannot be loaded.
        return f"{kind.__name__}: {text[-300:]}"

    def addSkip(self, test, reason):
        self._note(test, "skipped", reason)

    def addExpectedFailure(self, test, error):
        self._note(test, "skipped", "fails as its author expects")

    def addUnexpectedSuccess(self, test):
        self._note(test, "failed", "passes although its author expects a failure")

    def addError(self, test, error):
        self._note(test, "failed", self._reason(error))

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._note(test, "failed", self._reason(error))


def main():
    tests, module, output = sys.argv[1:]
    sys.path.insert(0, tests)
    # What a machine may have beside numpy changes which tests there are.
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None
    from mpi4py import MPI

    # By discovery a module that cannot be loaded, or asks to be left out, is a test that says so.
    suite = unittest.TestLoader().discover(tests, pattern=f"{module}.py", top_level_dir=tests)
    suite.run(Recorder(f"{output}.{MPI.COMM_WORLD.Get_rank()}"))


if __name__ == "__main__":
    main()
