"""Packs training documents into rows, in worker processes.

A row is int16 [5, T]: token ids, document numbers, positions, branch numbers (0: prefix, seen by all branches of its
document) and labels (the next token where the model is to write it, else -1).
"""
import multiprocessing
import pathlib
import queue
import threading

import numpy

from noise import noise
from questions import EFFORTS, TASKS, make_group
from render import document
from tokenizer import Tokenizer
from words import Source

TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "models" / "rosebud" / "tokenizer.json"
# share of the tokens, and questions a group
MIX = {"sums": (0.08, 20), "products": (0.03, 16), "memory": (0.03, 6), "talk": (0.04, 10), "lookups": (0.11, 20),
       "columns": (0.07, 20), "calls": (0.07, 10), "two_calls": (0.05, 6), "schemas": (0.06, 12), "forms": (0.05, 8),
       "records": (0.31, 10), "agents": (0.08, 8), "chat": (0.02, 12)}
RAW = 0.004   # of the documents are plain text without messages
LONG = {"memory": 0.1, "calls": 0.1, "schemas": 0.05, "forms": 0.05, "records": 0.03, "agents": 0.12, "chat": 0.1, "products": 0.03,
        "two_calls": 0.05}  # part of the groups that get long instructions


def long_instructions(group, s: Source, limit: int):
    """Now and then, long instructions before the task: mostly up to 6,000 characters, a few as long as a row allows."""
    if s.chance(LONG.get(group.task, 0)):
        characters = s.rng.randint(300, 6000) if s.chance(0.9) else s.rng.randint(6000, max(6001, 17 * limit // 10))
        group.instructions = noise(s, characters) + ("\n\n" + group.instructions if group.instructions else "")
    if s.chance(0.03):
        group.user_name = s.pick("user", "ann", "User", s.word())


class Row:
    """Documents one after the other, up to `length` tokens."""

    def __init__(self, length: int):
        self.length, self.columns, self.docs = length, [[], [], [], [], []], 0
        self.spans = []  # (first label, end, tag) of every answer

    def add(self, head: list[int], tails: list[tuple[list[int], list[int]]], tag=None) -> bool:
        ids, doc, pos, branch, label = self.columns
        free = self.length - len(ids) - len(head)
        if free < len(tails[0][0]):
            return False
        self.docs += 1
        ids += head
        pos += range(len(head))
        branch += [0] * len(head)
        label += [-1] * len(head)
        for number, (tail, wanted) in enumerate(tails, 1):
            free -= len(tail)
            if free < 0:
                break
            asked = len(tail) - len(wanted)
            self.spans.append((len(ids) + asked - 1, len(ids) + len(tail) - 1, tag))
            ids += tail
            pos += range(len(head), len(head) + len(tail))
            branch += [number] * len(tail)
            label += [-1] * (asked - 1) + wanted + [-1]
        doc += [self.docs] * (len(ids) - len(doc))
        return True

    def array(self) -> numpy.ndarray:
        """The row, filled up with a last document of padding."""
        out = numpy.zeros((5, self.length), numpy.int16)
        out[4], out[1] = -1, self.docs + 1
        out[:, :len(self.columns[0])] = self.columns
        return out


def documents(s: Source, cap, encode, shares: dict[str, float], length: int = 8192):
    """Endless (head, tails, (task, effort)), the tasks in the given shares; `cap()` bounds the look-ups' length."""
    written = dict.fromkeys(shares, 1.0)
    while True:
        if not s.test and s.chance(RAW):
            ids = encode([s.pick("", "Once upon a time, ", "Once ", "Twice ", "Q: ") + noise(s.fresh(), s.rng.randint(50, 400))])
            yield ids[:1], [(ids[1:], ids[2:])], ("raw", "")
            continue
        task = min(shares, key=lambda t: written[t] / shares[t])
        effort = s.rng.choice(EFFORTS)
        group = make_group(task, s, effort, MIX[task][1], cap())
        if not s.test:
            long_instructions(group, s, length)
        head, tails = document(group, s, encode)
        written[task] += len(head) + sum(len(t) for t, _ in tails)
        yield head, tails, (task, effort)


def rows(source, length: int):
    """Rows filled from `documents`; a document that does not fit is kept for the next row."""
    kept = None
    while True:
        row = Row(length)
        misses = 0
        while misses < 4 and len(row.columns[0]) < length - 150:
            doc, kept = kept or next(source), None
            if len(doc[0]) + len(doc[1][0][0]) > length:
                continue
            if not row.add(*doc):
                misses += 1
                kept = doc if misses == 4 else kept
        yield row


def worker(out: multiprocessing.Queue, seed, length: int, cap, shares):
    encode = Tokenizer.load(TOKENIZER).encode
    for row in rows(documents(Source(seed), lambda: cap.value, encode, shares, length), length):
        out.put(row.array())


class Loader:
    """Batches [5, B, T] int16 from worker processes, put together by a thread."""

    def __init__(self, batch: int, length: int, workers: int, seed: str, shares: dict[str, float] | None = None):
        shares = shares or {task: share for task, (share, _) in MIX.items()}
        self.cap = multiprocessing.Value("i", 200)
        rows_queue = multiprocessing.Queue(8 * batch)
        self.processes = [multiprocessing.Process(target=worker, daemon=True,
                                                  args=(rows_queue, f"{seed}-{i}", length, self.cap, shares))
                          for i in range(workers)]
        for p in self.processes:
            p.start()
        self.batches: queue.Queue = queue.Queue(8)

        def collect():
            while True:
                self.batches.put(numpy.stack([rows_queue.get() for _ in range(batch)], 1))
        threading.Thread(target=collect, daemon=True).start()

    def next(self) -> numpy.ndarray:
        return self.batches.get()

    def close(self):
        for p in self.processes:
            p.terminate()


def test_rows(length: int, answers: int, seed: str = "evaluation", max_tokens: int = 3000, tasks=TASKS) -> list[Row]:
    """Rows of test words with at least `answers` answers a task."""
    encode, s, out = Tokenizer.load(TOKENIZER).encode, Source(seed, test=True), []
    for task in tasks:
        count, stream = 0, rows(documents(s, lambda: max_tokens, encode, {task: 1.0}), length)
        while count < answers:
            out.append(next(stream))
            count += len(out[-1].spans)
    return out
