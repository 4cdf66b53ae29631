#!/usr/bin/perl
# Writes src/tokenizer/unicode_nfc_tables.cc from the Unicode data that come with Perl: what NFC does
# with every character that Unicode 9.0 has. That is the version of the reference (Hugging Face
# tokenizers 0.23), and what is assigned keeps its decomposition and class for ever, so any Perl of
# 5.26 or newer gives the same file.
#
#   tools/make_nfc_tables.pl > src/tokenizer/unicode_nfc_tables.cc
use strict;
use warnings;
use Unicode::Normalize qw(NFC NFD getCombinClass);
use Unicode::UCD qw(charinfo);

my (@classes, @pairs, @compositions, %second, %active);
for my $c (0 .. 0x10FFFF) {
  next if $c >= 0xD800 && $c < 0xE000;
  next if $c >= 0xAC00 && $c < 0xD7A4;  # Hangul syllables are arithmetic
  my $s = chr($c);
  next unless $s =~ /\p{Present_In: 9.0}/;
  my $class = getCombinClass($c);
  push @classes, [$c, $class] if $class;
  $active{$c} = 1 if $class;
  next if NFD($s) eq $s;
  my @parts = map { hex } split / /, charinfo($c)->{decomposition};
  push @pairs, [$c, $parts[0], $parts[1] // 0];
  if (NFC($s) eq $s) {
    push @compositions, [$parts[0], $parts[1], $c];
    $active{$parts[1]} = 1;
  } else {
    $active{$c} = 1;
  }
}
$active{$_} = 1 for 0x1161 .. 0x1175, 0x11A8 .. 0x11C2;  # Hangul vowels and finals
@compositions = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @compositions;

# [first, last, value] for runs of neighbours with one value.
sub ranges {
  my @out;
  for my $entry (@_) {
    my ($c, $value) = @$entry;
    if (@out && $out[-1][1] == $c - 1 && $out[-1][2] == $value) { $out[-1][1] = $c }
    else { push @out, [$c, $c, $value] }
  }
  return @out;
}

sub table {
  my ($type, $name, $per_line, @rows) = @_;
  print "const $type $name\[", scalar(@rows), "] = {\n";
  while (my @line = splice @rows, 0, $per_line) {
    print "    ", join(" ", map { "{" . join(", ", map { sprintf "0x%x", $_ } @$_) . "}," } @line), "\n";
  }
  print "};\n\n";
}

print "// clang-format off\n";
print "// Written by tools/make_nfc_tables.pl: NFC of Unicode 9.0. Do not edit.\n";
print "#include \"tokenizer/unicode_nfc_tables.h\"\n\nnamespace rose {\n\n";
table("NfcClass", "kNfcClasses", 5, ranges(@classes));
table("NfcPair", "kNfcDecompositions", 4, @pairs);
table("NfcPair", "kNfcCompositions", 4, map { [$_->[2], $_->[0], $_->[1]] } @compositions);
table("NfcRange", "kNfcActive", 7, map { [@$_[0, 1]] } ranges(map { [$_, 0] } sort { $a <=> $b } keys %active));
print "}  // namespace rose\n";
