// Merging that starts from characters instead of bytes, and only where tokens may join them: where
// bpe_char_rules.cc has found that it gives the same ids.
#include "tokenizer/bpe_units.h"
#include "tokenizer/char_at.h"

namespace rose {

// What lies between two cuts of a piece, while its units are found.
struct Merger::Part {
  const Merger& merger;
  const char* begin;
  bool fits = true;  // false: has more than kMostUnits
  Units units;

  Part(const Merger& merger, const char* begin) : merger(merger), begin(begin) {}

  // A character of the part: one unit, or one a byte.
  void Add(std::string_view character, int32_t id, bool spell) {
    const int64_t more = spell ? std::ssize(character) : 1;
    if (!(fits &= units.count + more <= kMostUnits)) return;
    const auto offset = static_cast<uint16_t>(character.data() - begin);
    if (!spell) return units.Add(offset, id);
    for (int64_t i = 0; i < more; ++i) {
      units.Add(offset + i, merger.byte_ids_[static_cast<uint8_t>(character[i])]);
    }
  }

  // `last` is the last character.
  void End(std::string_view last, int32_t id, bool spell, IdWriter& out) {
    const char* end = last.data() + last.size();
    if (last.data() == begin) {
      if (spell) {
        merger.AppendSpelled(last, out);
      } else {
        out.Add(id);
      }
    } else if (Add(last, id, spell); fits) {
      units.bytes = begin;
      units.begin[units.count] = static_cast<uint16_t>(end - begin);
      merger.AppendUnits(units, out);
    } else {
      merger.AppendBytes({begin, static_cast<size_t>(end - begin)}, out);
    }
    begin = end;
    fits = true;
    units.count = 0;
  }
};

void Merger::AppendChars(std::string_view piece, IdWriter& out) const {
  // Of bytes that are no character nothing is known: merged with what is beside them.
  static constexpr CharEntry kUnknown = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, -1};
  Part part(*this, piece.data());
  // The last character, what is known of it, and whether it must be spelled. Nothing is open to the
  // first.
  std::string_view last;
  const CharEntry* entry = &chars_[0];
  const EndEntry* end_entry = &ends_[0];
  bool spell = false;
  for (int64_t pos = 0; pos < std::ssize(piece);) {
    const CharAtPlace next = CharAt(piece, pos);
    const CharEntry& next_entry = next.valid ? EntryOf(next.code_point) : kUnknown;
    const uint64_t bit = CharBit(next.code_point), block = BlockBit(next.code_point);
    bool spell_next = next_entry.id < 0;
    if (((entry->open & bit) | (end_entry->open & block)) != 0 || !next.valid) {
      part.Add(last, entry->id, spell || !next.valid || (entry->spell_this & bit) != 0);
      spell_next |= ((entry->spell_next & bit) | (end_entry->spell_next & block)) != 0;
    } else if (pos > 0) {
      part.End(last, entry->id, spell, out);
    }
    last = piece.substr(pos, next.length);
    entry = &next_entry;
    end_entry = &ends_[static_cast<uint8_t>(last.back())];
    spell = spell_next;
    pos += next.length;
  }
  part.End(last, entry->id, spell, out);
}

// A character that is merged alone, and that merging may not start from.
void Merger::AppendSpelled(std::string_view character, IdWriter& out) const {
  bool joined = false;
  for (int64_t pos = 0; pos + 1 < std::ssize(character); ++pos) {
    joined |= joined_bytes_[PairAt(character.data(), pos)];
  }
  if (joined) return AppendFewBytes(character, out);
  for (const char c : character) out.Add(byte_ids_[static_cast<uint8_t>(c)]);
  out.looked_up += std::ssize(character) - 1;
}

}  // namespace rose
