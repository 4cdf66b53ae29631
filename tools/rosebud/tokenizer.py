"""The tokenizer: a small byte-level BPE in the form of gpt-oss' tokenizer.json.

    python tokenizer.py OUT_DIR        # trains on generated text, writes tokenizer.json and tokenizer_config.json

Same split rule and special tokens as the published one. The merges are not plain frequency BPE: first the syllables of
the invented words (so every such word is two tokens, with or without a blank before it), then frequent words and
punctuation, last the common English words with their blank. Digits never merge.
"""
import collections
import functools
import itertools
import json
import pathlib
import sys

import regex

from render import Special
from words import ENGLISH, SYLLABLES

SPLIT = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
SPECIALS = {0: "startoftext", 1: "endoftext", 4: "return", 5: "constrain", 7: "channel", 8: "start", 9: "end",
            10: "message", 14: "call", 20: "endofprompt"}  # the others of the 21 are reserved
VOCAB_SIZE = 1536
BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES += [b for b in range(256) if b not in BYTES]                  # id -> byte
LETTER = {b: chr(b) if i < 188 else chr(256 + i - 188) for i, b in enumerate(BYTES)}  # byte -> GPT-2's printable letter


def special_names() -> list[str]:
    """The 21 special strings, in the order of their ids; reserved ones keep the published numbers in their names."""
    return [f"<|{SPECIALS.get(i, f'reserved_{199998 + i}')}|>" for i in range(21)]


class Tokenizer:
    """Rank BPE: the lowest id among the joined neighbours merges first, leftmost on ties."""

    def __init__(self, tokens: list[bytes]):
        self.tokens = tokens
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.special = {name[2:-2]: len(tokens) + i for i, name in enumerate(special_names())}
        self.piece = functools.lru_cache(1 << 18)(self._piece)
        self.text = functools.lru_cache(1 << 12)(self._text)
        self.split = regex.compile(SPLIT).findall

    @staticmethod
    def load(path) -> "Tokenizer":
        vocab = json.loads(pathlib.Path(path).read_text())["model"]["vocab"]
        letters = {c: b for b, c in LETTER.items()}
        return Tokenizer([bytes(letters[c] for c in t) for t in sorted(vocab, key=vocab.get)])

    def _piece(self, piece: str) -> tuple[int, ...]:
        parts = [bytes([b]) for b in piece.encode()]
        while len(parts) > 1:
            rank, i = min((self.ids.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1))
            if rank == 1 << 30:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        return tuple(self.ids[p] for p in parts)

    def _text(self, text: str) -> tuple[int, ...]:
        return tuple(itertools.chain.from_iterable(map(self.piece, self.split(text))))

    def encode(self, fragments: list[str]) -> list[int]:
        """Ids of Harmony fragments, each encoded on its own (render.py)."""
        out = []
        for f in fragments:
            if isinstance(f, Special):
                out.append(self.special[f])
            else:
                out += self.text(f) if len(f) < 40 else self._text(f)
        return out

    def decode(self, ids) -> str:
        names = special_names()
        return b"".join(self.tokens[i] if i < len(self.tokens) else names[i - len(self.tokens)].encode()
                        for i in ids).decode(errors="replace")


def train(texts: list[str], size: int = VOCAB_SIZE - 21) -> list[bytes]:
    """The vocabulary in the order of ids: bytes, syllables, frequent joins inside words, words with a blank."""
    tokens = [bytes([b]) for b in BYTES] + [s.encode() for s in sorted(SYLLABLES, key=len)]
    pieces = collections.Counter(p for t in texts for p in regex.findall(SPLIT, t) if not p[0].isdigit())
    bare, blanks = collections.Counter(), collections.Counter()
    for piece, n in pieces.items():
        word = piece[1:] if len(piece) > 1 and piece[1].isalpha() and not piece[0].isalnum() else piece
        bare[word] += n
        if piece[0] == " " and word != piece:
            blanks[word] += n
    base = Tokenizer(tokens)
    parts = {w: [base.tokens[i] for i in base.piece(w)] for w, n in bare.items() if n >= 30}
    while len(tokens) < size:
        pairs = collections.Counter()
        for w, p in parts.items():
            for pair in zip(p, p[1:]):
                pairs[pair] += bare[w]
        (a, b), n = pairs.most_common(1)[0]
        whole = [w for w, p in parts.items() if len(p) == 1 and blanks[w] > n / 2]  # words that deserve a blank by now
        if len(tokens) + len(whole) >= size:
            break
        tokens.append(a + b)
        for p in parts.values():
            for i in range(len(p) - 1, 0, -1):
                if p[i - 1:i + 1] == [a, b]:
                    p[i - 1:i + 1] = [a + b]
    ranked = sorted((w for w, p in parts.items() if len(p) == 1 and (" " + w).encode() not in tokens),
                    key=lambda w: -blanks[w])
    tokens += [(" " + w).encode() for w in ranked[:size - len(tokens)]]
    blank_syllables = {s for s in SYLLABLES if (" " + s).encode() in tokens}
    assert blank_syllables <= ENGLISH, f"words that begin so would differ after a blank: {blank_syllables - ENGLISH}"
    return tokens


def tokenizer_json(tokens: list[bytes]) -> dict:
    """tokenizer.json; like the published one it lists every split of every token as a merge."""
    show = lambda token: "".join(LETTER[b] for b in token)
    known = set(tokens)
    merges = [[show(t[:i]), show(t[i:])] for t in tokens for i in range(1, len(t)) if t[:i] in known and t[i:] in known]
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(tokens) + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, name in enumerate(special_names())],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {show(t): i for i, t in enumerate(tokens)}, "merges": merges}}


TOKENIZER_CONFIG = {
    "bos_token": "<|startoftext|>", "clean_up_tokenization_spaces": False, "eos_token": "<|return|>",
    "extra_special_tokens": {}, "model_input_names": ["input_ids", "attention_mask"],
    "model_max_length": 1000000000000000019884624838656, "pad_token": "<|endoftext|>",
    "tokenizer_class": "PreTrainedTokenizerFast"}


def sample_texts(groups: int = 3000) -> list[str]:
    from questions import EFFORTS, TASKS, Source, make_group
    from render import branches, prefix, random_date
    s, texts = Source("tokenizer"), []
    for i in range(groups):
        group = make_group(TASKS[i % len(TASKS)], s, EFFORTS[i // len(TASKS) % 3], 4, 600)
        parts = [prefix(group, random_date(s))] + [f for pair in branches(group, True) for f in pair]
        texts += [f for fragments in parts for f in fragments if not isinstance(f, Special)]
    return texts


def main(out: str):
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    tokens = train(sample_texts())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(tokens), ensure_ascii=False, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
