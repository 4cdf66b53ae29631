// What NFC asks of a code point, from tables of Unicode 9.0 (tools/make_nfc_tables.pl). Hangul
// syllables are not in them: they are arithmetic.
#pragma once

#include <cstdint>

namespace rose {

struct NfcClass {
  uint32_t first, last;
  uint32_t value;  // canonical combining class, not 0
};
// One step of a canonical decomposition; `second` is 0 for a single character.
struct NfcPair {
  uint32_t whole, first, second;
};
struct NfcRange {
  uint32_t first, last;
};

extern const NfcClass kNfcClasses[333];         // by code point
extern const NfcPair kNfcDecompositions[2060];  // by `whole`
extern const NfcPair kNfcCompositions[940];     // by `first`, then `second`
// What may change a text, alone or by what is before it: marks, what composes with a character
// before it, what NFC replaces. Text without these is in NFC.
extern const NfcRange kNfcActive[247];

}  // namespace rose
