package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/render/wording"
)

// SafeJSON escapes in JSON the control characters of Unicode and those that change how
// the text around them is read, as JSON itself does with the control characters of ASCII. The
// values stay the same.
func SafeJSON(text []byte) []byte {
	const firstDangerous = 0x7f // below are only those that JSON escapes
	var safe []byte
	kept := 0
	for i := 0; i < len(text); {
		if text[i] < firstDangerous {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError || wording.SafeRune(r) == r {
			i += size
			continue
		}
		safe = append(safe, text[kept:i]...)
		safe = appendEscaped(safe, r)
		i += size
		kept = i
	}
	if kept == 0 {
		return text
	}
	return append(safe, text[kept:]...)
}

// appendEscaped writes a rune as JSON does, in UTF-16.
func appendEscaped(text []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(text, `\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Appendf(text, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
}

// WriteJSON writes a value on a line.
func WriteJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = out.Write(append(SafeJSON(text), '\n'))
	return err
}

// WriteIndentedJSON writes a value on its own lines.
func WriteIndentedJSON(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(SafeJSON(text), '\n'))
	return err
}

// SafeLines removes control characters from a text, but for the ends of lines.
func SafeLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return wording.SafeRune(r)
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// HasControls reports whether a text has control characters besides tabs and ends of
// lines, or is not UTF-8.
func HasControls(text []byte) bool {
	lines := strings.ReplaceAll(string(text), "\r\n", "\n")
	return !utf8.ValidString(lines) || strings.ContainsFunc(lines, func(r rune) bool { return r != '\n' && r != '\t' && wording.SafeRune(r) != r })
}

// SafeWriter applies SafeJSON to each line of JSON that is written to it.
type SafeWriter struct{ Out io.Writer }

// Write implements io.Writer; each call has a whole line.
func (w SafeWriter) Write(line []byte) (int, error) {
	if _, err := w.Out.Write(SafeJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Escaped writes control characters, and those that change how the text around them
// is read, as the escape sequences of a Go string.
func Escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\t', unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
