"""Invented words, and the wall between training and test.

Almost every name, key, tool, field and value of the training text is an invented word of two syllables. The tokenizer
has one token a syllable (tokenizer.py), so a word is two tokens, cheap to match and to copy, and there are 173,040 of
them. A word belongs to the training or to the test split by its checksum: test words never occur in training.
"""
import functools
import random
import string
import zlib

ONSETS = "bdfklmnprstv"
VOWELS = "aeiou"
CODAS = ["", "k", "l", "m", "n", "r", "s"]
SYLLABLES = [o + v + c for o in ONSETS for v in VOWELS for c in CODAS]
ENGLISH = {"be", "do", "for", "me", "no", "so", "sum", "to"}  # have a token with the blank before them: never first

COLOURS = "red green blue black white yellow orange purple brown grey pink silver".split()
CITIES = ("Paris London Berlin Rome Madrid Tokyo Oslo Vienna Prague Lisbon Dublin Athens Cairo Delhi Boston Chicago "
          "Denver Seattle Toronto Sydney Lima Zurich Hamburg Munich Warsaw Geneva Milan Kyoto Seoul Dallas").split()
PEOPLE = ("Anna Ben Clara David Emma Felix Greta Hans Ida Jonas Karin Leo Maria Nils Olga Peter Rosa Simon Tina Victor "
          "Alice Bob Carol Eve Frank Grace Henry Julia Kevin Laura Mark Nora Oscar Paul Sarah Tom Alex Sam Max Lena").split()


def is_test(word: str) -> bool:
    """True for the fifth of all invented words that is kept for tests."""
    return zlib.crc32(word.encode()) % 5 == 0


@functools.cache
def vocabulary(test: bool) -> list[str]:
    """All two-syllable words of one split."""
    return [w for a in SYLLABLES if a not in ENGLISH for b in SYLLABLES if is_test(w := a + b) == test]


class Source:
    """Random words and numbers of one split; never gives the same word twice between two calls of `fresh`."""

    def __init__(self, seed, test: bool = False):
        self.rng = random.Random(seed)
        self.test = test
        self.words = vocabulary(test)
        self.used: set[str] = set()

    def fresh(self) -> "Source":
        self.used.clear()
        return self

    def word(self) -> str:
        while True:
            w = self.words[int(self.rng.random() * len(self.words))]
            if w not in self.used:
                self.used.add(w)
                return w

    def person(self) -> str:
        """A word, or (training only) now and then a real or an odd name, so that those are copied as well."""
        p = 1.0 if self.test else self.rng.random()
        if p < 0.1:
            return self.rng.choice(PEOPLE)
        if p < 0.15:
            return self.odd()
        if p < 0.2:
            return self.rng.choice(PEOPLE) + " " + (self.odd() if p < 0.17 else self.word().capitalize())
        return self.word()

    def odd(self) -> str:
        """A capitalised string of letters; never the same twice between two calls of `fresh`."""
        while True:
            w = "".join(self.rng.choices(string.ascii_lowercase, k=self.rng.randint(3, 8))).capitalize()
            if w not in self.used:
                self.used.add(w)
                return w

    def keys(self, n: int) -> list[str]:
        """Distinct keys of a table; in training a tenth of the tables has capitalised ones, and a tenth keys of two words."""
        odd = not self.test and self.chance(0.1)
        if not self.test and not odd and self.chance(0.12):
            capital = self.chance(0.5)
            pair = lambda: (self.word(), self.word())
            return [" ".join(w.capitalize() if capital else w for w in pair()) for _ in range(n)]
        return [(self.odd() if self.chance(0.5) else self.word().capitalize()) if odd else self.word() for _ in range(n)]

    def number(self, low: int, high: int) -> int:
        """A number of `low` to `high` digits, each length as likely as the others."""
        n = self.rng.randint(low, high)
        return self.rng.randrange(10 ** (n - 1) if n > 1 else 0, 10**n)

    def value(self) -> str:
        """What a key of a table or text maps to: mostly a number, else a word or a colour."""
        p = self.rng.random()
        if p < 0.6:
            return str(self.number(1, 5))
        return self.words[int(self.rng.random() * len(self.words))] if p < 0.85 else self.rng.choice(COLOURS)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, *options):
        return options[int(self.rng.random() * len(options))]
