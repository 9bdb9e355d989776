package terminal

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/render/wording"
)

// Screen is the width of an output, and whether it has colours.
type Screen struct {
	Width  int // in characters; 0: no terminal, and so no bound
	Colour bool
}

// NewScreen returns the width and the colours of out. Colours are for terminals,
// unless NO_COLOR is set (https://no-color.org) or TERM is dumb.
func NewScreen(out io.Writer, environ []string) Screen {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Screen{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = defaultWidth
	}
	return Screen{width, variable(environ, "NO_COLOR") == "" && variable(environ, "TERM") != "dumb"}
}

// defaultWidth is for a terminal that does not report its width.
const defaultWidth = 80

// variable returns the value of an environment variable, "" where it is not set.
func variable(environ []string, name string) string {
	for _, variable := range environ {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// Colour is a control sequence of ECMA-48 (SGR).
type Colour string

// Colours, and bold.
const (
	noColour Colour = ""
	Red      Colour = "\x1b[31m"
	Green    Colour = "\x1b[32m"
	Yellow   Colour = "\x1b[33m"
	Cyan     Colour = "\x1b[36m"
	Bold     Colour = "\x1b[1m"

	// ColourEnd goes back to the colour of the terminal.
	ColourEnd = "\x1b[0m"
)

// Paint colours a text, where the screen has colours.
func (s Screen) Paint(text string, c Colour) string {
	if !s.Colour || c == noColour || text == "" {
		return text
	}
	return string(c) + text + ColourEnd
}

// Cell returns text on one line, without control characters, and cut to this number of
// columns; 0 is no bound.
func Cell(text string, width int) string {
	text = wording.OneLine(text)
	if width <= 0 || kql.Width(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += kql.Width(string(r)); taken >= width { // one column is for the mark
			return text[:i] + "…"
		}
	}
	return text
}
