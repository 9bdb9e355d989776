package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/terminal"
)

// idsIn reads the ids of --ids, one a line, and gives each once.
func idsIn(file string, in io.Reader) ([]string, error) {
	text, err := readFile(file, in)
	if err != nil {
		return nil, usagef("--ids: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, usagef("--ids %s: expected ids, one a line, and there are none", file)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

const mostUnknown = 10

// writeUnknown says which ids name nothing, so that a slip in a list is seen.
func writeUnknown(ctx context.Context, a *app.App, out io.Writer, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	unknown, err := history.UnknownIDs(ctx, store, ids)
	if err != nil || len(unknown) == 0 {
		return err
	}
	shown := make([]string, min(len(unknown), mostUnknown))
	for i := range shown {
		shown[i] = terminal.Cell(unknown[i], 80)
	}
	more := ""
	if len(unknown) > mostUnknown {
		more = ", …"
	}
	_, err = fmt.Fprintf(out, "  %6d  not found: %s%s\n", len(unknown), strings.Join(shown, ", "), more)
	return err
}
