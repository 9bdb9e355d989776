package cli

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/watershipmq/watership/schemas/query"
)

// screen is what is known of where a command writes to.
type screen struct {
	width  int // in characters; 0: no terminal, so no bound
	colour bool
}

// screen looks at out. Colours are for terminals, unless NO_COLOR is set
// (https://no-color.org) or the terminal says that it is dumb.
func (s *settings) screen(out io.Writer) screen {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return screen{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = usualWidth
	}
	return screen{width, s.variable("NO_COLOR") == "" && s.variable("TERM") != "dumb"}
}

// usualWidth is that of a terminal which does not say.
const usualWidth = 80

// variable is an environment variable of the command; "" where it is not set.
func (s *settings) variable(name string) string {
	for _, variable := range s.environ {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// colour is a control sequence of ECMA-48 (SGR).
type colour string

const (
	plain  colour = ""
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	cyan   colour = "\x1b[36m"
	bold   colour = "\x1b[1m"

	colourEnd = "\x1b[0m"
)

func (s screen) paint(text string, c colour) string {
	if !s.colour || c == plain || text == "" {
		return text
	}
	return string(c) + text + colourEnd
}

// cell is text on one line, without what could steer a terminal, and not wider
// than so many columns; 0 is no bound.
func cell(text string, width int) string {
	text = strings.Map(harmless, strings.ToValidUTF8(text, "\ufffd"))
	if width <= 0 || query.Width(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += query.Width(string(r)); taken >= width { // one column is for the mark
			return text[:i] + "…"
		}
	}
	return text
}

// harmless also takes out what changes the direction of the text behind it, and
// so could make one value look like another.
func harmless(r rune) rune {
	switch {
	case unicode.IsControl(r):
		return ' '
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		return '\ufffd'
	}
	return r
}
