package kql

import (
	"unicode"

	"golang.org/x/text/width"
)

// Width returns the number of terminal columns of a text, so that a caret has the
// right column: two for each wide character of East Asia
// (https://www.unicode.org/reports/tr11/) and most emoji, none for marks that
// combine with the character before. Control characters count as one.
func Width(text string) int {
	columns := 0
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth returns the Width of one character.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
