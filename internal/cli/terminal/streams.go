// Package terminal writes to the user of a terminal: tables, progress, questions
// and text without control characters.
package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Streams are the streams of a command: data goes to Out, all else to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// IsTerminal reports whether a stream is a file that is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Ask asks a question and returns true for y and yes, false for every other answer.
// Its only error is the end of ctx: the goroutine that reads the answer cannot be
// stopped then, and ends with the process.
func (t Streams) Ask(ctx context.Context, question string) (bool, error) {
	answer, err := t.AskText(ctx, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// AskText is Ask for a line of text.
func (t Streams) AskText(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(t.Err, "%s ", question)
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(t.In).ReadString('\n')
		answered <- strings.TrimSpace(answer)
	}()
	select {
	case answer := <-answered:
		return answer, nil
	case <-ctx.Done():
		fmt.Fprintln(t.Err)
		return "", ctx.Err()
	}
}

// Warn writes a problem to Err. The command goes on.
func (t Streams) Warn(format string, args ...any) {
	fmt.Fprintln(t.Err, SafeLines("watership: "+fmt.Sprintf(format, args...)))
}
