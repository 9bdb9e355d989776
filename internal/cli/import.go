package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

func newImport(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import events from a file that export wrote",
		Long: `Create the events of a file, or of standard input, in the configured store. Events
that exist are left unchanged, so an interrupted import can be repeated. Events that
the store refuses are listed at the end; the others are imported. The file may be
compressed by gzip.`,
		Example: "  watership import acme.ndjson\n  watership import all.ndjson.gz",
		Args:    optionalFile,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in, end, err := openInput(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			return from.with(cmd, func(ctx context.Context, a *system.System) error { return importFrom(ctx, a, streamsOf(cmd), in) })
		},
	}
}

func importFrom(ctx context.Context, a *system.System, t terminal.Streams, in io.Reader) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	bar := terminal.NewBar(t.Err, 0)
	if bar.IsShown() {
		total, err := linesAhead(in)
		if err != nil {
			return err
		}
		bar.Expect(total)
	}
	i := transfer.Import{Store: store, Format: a.DocumentFormat(), Progress: bar.Show, Retention: a.Retention(), Expired: func(e schemas.Event, stream schemas.Stream) {
		setting := string(stream)
		if stream.PeriodName() != "" {
			setting = "rules"
		}
		fmt.Fprintf(t.Err, "events are older than store.retention.%s, %s: the store will remove them, such as event %s from %s\n",
			setting, wording.Duration(a.Retention()[stream]), terminal.Cell(e.EventID, 80), terminal.Time(e.Time))
	}}
	err = i.Run(ctx, in)
	bar.End()
	fmt.Fprintf(t.Out, "created %s, %d existed already\n", wording.Plural(i.Created, "event"), i.Existing)
	if i.Refused == 0 {
		return err
	}
	var reasons []quarantine.Refusal
	for _, reason := range i.Reasons {
		reasons = append(reasons, quarantine.Refusal(reason))
	}
	verb := "were"
	if i.Refused == 1 {
		verb = "was"
	}
	return errors.Join(err, fmt.Errorf("%s %s refused, the others are in the store:\n  %s",
		wording.Plural(i.Refused, "event"), verb, refusalLines(i.Refused, reasons)))
}

// refusalLines names the first refused events, one a line.
func refusalLines(refused int, reasons []quarantine.Refusal) string {
	var lines []string
	for _, reason := range reasons {
		lines = append(lines, fmt.Sprintf("event %s: %s", terminal.Cell(reason.EventID, 80), terminal.Cell(reason.Reason, 400)))
	}
	if refused > len(lines) {
		lines = append(lines, "…")
	}
	return strings.Join(lines, "\n  ")
}

// linesAhead counts the lines of a file that is not read yet; 0 for an input that can
// be read only once.
func linesAhead(in io.Reader) (int, error) {
	file, isFile := in.(*os.File)
	if !isFile {
		return 0, nil
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe
		return 0, nil
	}
	lines, buffer := 0, make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = file.Read(buffer)
		if bytes.HasPrefix(buffer[:n], []byte{0x1f, 0x8b}) { // gzip, whose lines are not these
			lines, err = 0, io.EOF
			break
		}
		lines += bytes.Count(buffer[:n], []byte{'\n'})
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	_, err = file.Seek(at, io.SeekStart)
	return lines, err
}

func openInput(in io.Reader, args []string) (io.Reader, func() error, error) {
	if len(args) == 0 || args[0] == "-" {
		return in, func() error { return nil }, nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, nil, err
	}
	return file, file.Close, nil
}
