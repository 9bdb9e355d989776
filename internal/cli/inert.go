package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// inertJSON escapes in JSON what a terminal obeys and what changes how the text
// around it is read, as JSON itself does with the control characters of ASCII. The
// values stay the same.
func inertJSON(text []byte) []byte {
	const firstDangerous = 0x7f // below are only those that JSON escapes
	var safe []byte
	kept := 0
	for i := 0; i < len(text); {
		if text[i] < firstDangerous {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError || harmless(r) == r {
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

// writeJSON writes a value on a line.
func writeJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = out.Write(append(inertJSON(text), '\n'))
	return err
}

// writeIndentedJSON writes a value on lines of its own.
func writeIndentedJSON(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(inertJSON(text), '\n'))
	return err
}

// inertLines takes out of a text what could steer a terminal, but for the ends of lines.
func inertLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return harmless(r)
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// steers says whether a terminal may do more with a text than show it.
func steers(text []byte) bool {
	lines := strings.ReplaceAll(string(text), "\r\n", "\n")
	return !utf8.ValidString(lines) || strings.ContainsFunc(lines, func(r rune) bool { return r != '\n' && r != '\t' && harmless(r) != r })
}

// inertWriter is for lines of JSON that others write.
type inertWriter struct{ out io.Writer }

func (w inertWriter) Write(line []byte) (int, error) {
	if _, err := w.out.Write(inertJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// complain says what is wrong where a command goes on.
func (t terminal) complain(format string, args ...any) {
	fmt.Fprintln(t.err, inertLines("watership: "+fmt.Sprintf(format, args...)))
}
