package errorgroup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxDepth = 3 // of messages within messages
	maxLines = 4 // that tell one error
)

// clean returns a message without escapes of terminals, frames of boxes and other characters that
// are not shown, and as UTF-8.
func clean(message string) string {
	if isClean(message) {
		return message
	}
	var out strings.Builder
	out.Grow(len(message))
	for i := 0; i < len(message); {
		if message[i] == '\x1b' {
			i += escapeLength(message[i:])
			continue
		}
		r, size := utf8.DecodeRuneInString(message[i:])
		switch {
		case r == utf8.RuneError && size == 1:
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case r == '\r':
			if i+1 == len(message) || message[i+1] != '\n' {
				out.WriteByte('\n')
			}
		case r >= 0x2500 && r <= 0x259f: // boxes
			out.WriteByte(' ')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
		default:
			out.WriteString(message[i : i+size])
		}
		i += size
	}
	return out.String()
}

func isClean(message string) bool {
	for i := range len(message) {
		if c := message[i]; c >= utf8.RuneSelf || c == 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// escapeLength returns the length of the escape with which a text begins: to its final letter, or
// to the end of the text that it gives a terminal.
func escapeLength(text string) int {
	if len(text) < 2 {
		return len(text)
	}
	switch text[1] {
	case '[':
		for i := 2; i < min(len(text), 40); i++ {
			if text[i] >= '@' && text[i] <= '~' {
				return i + 1
			}
		}
	case ']':
		if end := strings.IndexAny(text[2:min(len(text), 300)], "\a\x1b"); end >= 0 {
			return 2 + end + 1
		}
	}
	return 2
}

// choose returns the part of a message that says what went wrong, on one line.
func choose(text string, depth int) string {
	if depth > maxDepth {
		return firstLine(text)
	}
	if at := strings.Index(text, tracebackMark); at >= 0 {
		if document, _ := findDocument(text[:at]); document < 0 {
			before, raised := text[:at], raisedAfter(text[at:])
			return join2(lastLine(before), choose(raised, depth+1))
		}
	}
	if at, end := findDocument(text); at >= 0 {
		told := choose(tellDocument(text[at:end], depth), depth+1)
		return join2(join2(chooseLines(text[:at]), told), chooseLines(text[end:]))
	}
	return chooseLines(text)
}

func join2(a, b string) string {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// tracebackMark begins the traces of Python and of some versions of Ruby, which end with the error.
const tracebackMark = "Traceback (most recent call last)"

// raisedAfter returns the error after the last frame of a traceback, with what belongs to it.
func raisedAfter(trace string) string {
	lines := strings.Split(trace, "\n")
	last := 0
	for i, line := range lines {
		line = strings.TrimLeft(line, " |+")
		if i > 0 && (strings.HasPrefix(line, "File \"") || strings.HasPrefix(line, "from ") || strings.Contains(line, ":in `")) {
			last = i
		}
	}
	for i, line := range lines[last+1:] {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			continue // the source of the frame
		}
		return strings.Join(lines[last+1+i:], "\n")
	}
	if last == 0 {
		return lines[0]
	}
	return lines[last]
}

// chooseLines returns the first lines that tell what went wrong: one, or more as long as a line
// only announces the next one.
func chooseLines(text string) string {
	if strings.IndexByte(text, '\n') < 0 {
		return strings.TrimSpace(text)
	}
	lines := strings.Split(text, "\n")
	at := errorLine(lines)
	told, count := "", 0
	for i := at; i < len(lines) && count < maxLines; i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case isNoise(lines[i]):
			if told != "" && isFrame(lines[i]) {
				count = maxLines
			}
			continue
		case told != "" && !announces(told) && !strings.HasPrefix(line, "what():"):
			count = maxLines
			continue
		}
		told, count = join2(told, line), count+1
	}
	if cause := lastCause(lines); cause != "" && !strings.Contains(told, cause) {
		told = join2(told, "caused by: "+cause)
	}
	return told
}

// errorLine returns the index of the line with the error: the first one, or the one before the
// frames, if the first is the place in a file, as Node.js prints it.
func errorLine(lines []string) int {
	for i, line := range lines {
		if isNoise(line) {
			continue
		}
		if !isPlace(strings.TrimSpace(line)) {
			return i
		}
		before := i
		for j := i + 1; j < len(lines); j++ {
			if isFrame(lines[j]) {
				if before > i {
					return before
				}
				break
			}
			if !isNoise(lines[j]) {
				before = j
			}
		}
		return i
	}
	return 0
}

// isPlace reports whether a line is the name of a file and a line in it.
func isPlace(line string) bool {
	colon := strings.LastIndexByte(line, ':')
	return colon > 0 && colon+1 < len(line) && strings.Trim(line[colon+1:], "0123456789") == "" && !strings.Contains(line, " ") && strings.ContainsAny(line[:colon], "/\\.")
}

// isFrame reports whether a line is part of a stack.
func isFrame(line string) bool {
	trimmed := strings.TrimSpace(line)
	if trimmed == line && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "goroutine ") && !strings.HasPrefix(line, "at ") {
		return false
	}
	for _, start := range []string{"at ", "File \"", "from ", "in ", "goroutine ", "... ", "--- End of", "created by "} {
		if strings.HasPrefix(trimmed, start) {
			return true
		}
	}
	return len(trimmed) > 1 && trimmed[0] == '#' && isDigit(trimmed[1])
}

// isNoise reports whether a line does not tell what went wrong.
func isNoise(line string) bool {
	trimmed := strings.TrimSpace(line)
	if isFrame(line) || !strings.ContainsFunc(trimmed, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return true
	}
	lower := strings.ToLower(trimmed[:min(len(trimmed), 24)])
	for _, start := range []string{"stack trace:", "stacktrace:", "call stack:", "backtrace:", "note: ", "hint: ", "detail: ", "help: ", "caused by: ", "[stacktrace]", "thrown in "} {
		if strings.HasPrefix(lower, start) {
			return true
		}
	}
	return false
}

// lastCause returns the error of the last line "Caused by:", if that is complete.
func lastCause(lines []string) string {
	for i := len(lines) - 2; i >= 0; i-- {
		if cause, is := strings.CutPrefix(strings.TrimSpace(lines[i]), "Caused by: "); is {
			return strings.TrimSpace(cause)
		}
	}
	return ""
}

// announces reports whether a line says too little without the next one.
func announces(line string) bool {
	switch line[len(line)-1] {
	case ':', '{', '[', '(', ',', '=', '-', '>', '|':
		return true
	}
	lower := strings.ToLower(line)
	if strings.Contains(lower, "validation error") || strings.Contains(lower, "error(s)") || strings.Contains(lower, "errors occurred") {
		return true
	}
	return !strings.Contains(line, ": ") && len(strings.Fields(line)) <= 2 || isReason(lower)
}
