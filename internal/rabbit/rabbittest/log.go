package rabbittest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Log records log messages, for tests that count them.
type Log struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(logHandler{l}) }

// Count returns the number of lines whose message contains the text.
func (l *Log) Count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// String returns all log lines.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

type logHandler struct{ log *Log }

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h logHandler) WithGroup(string) slog.Handler            { return h }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	h.log.lines = append(h.log.lines, line)
	return nil
}
