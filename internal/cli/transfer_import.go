package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/transfer"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/schemas"
)

func newImport(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "import [FILE]",
		Short: "Import events from a file that export wrote",
		Long: `Create the events of a file, or of standard input, in the configured store. Events
that exist are left unchanged, so an interrupted import can be repeated. Events that
the store refuses are listed at the end; the others are imported.`,
		Example: "  watership import acme.ndjson\n  gunzip < all.ndjson.gz | watership import",
		Args:    perhapsAFile,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in, end, err := openInput(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			return from.with(cmd, func(ctx context.Context, a *app.App) error { return importFrom(ctx, a, streamsOf(cmd), in) })
		},
	}
}

func importFrom(ctx context.Context, a *app.App, t terminal.Streams, in io.Reader) error {
	store, err := a.Store(ctx)
	if err != nil {
		return err
	}
	if store.Check(ctx) != nil { // a new store
		if err := store.Install(ctx); err != nil {
			return err
		}
	}
	bar := terminal.NewBar(t.Err, 0)
	if bar.IsShown() {
		total, err := linesAhead(in)
		if err != nil {
			return err
		}
		bar.Expect(total)
	}
	i := importing{store: store, format: a.DocumentFormat(), pause: importPause, bar: bar}
	err = i.read(ctx, in)
	bar.End()
	fmt.Fprintf(t.Out, "created %s, %d were there already\n", wording.Plural(i.created, "event"), i.there)
	return errors.Join(err, i.failed())
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

const (
	importEvents = 500
	importBytes  = 5 << 20
	importPause  = 500 * time.Millisecond // before documents that the store was too busy for are sent again
	importTries  = 20
)

// importing is the state of an import.
type importing struct {
	store   app.EventStore
	format  schemas.DocumentFormat
	pause   time.Duration
	bar     *terminal.Bar
	created int
	there   int
	refused int
	reasons []string // of the first refused documents
}

const mostReasons = 10

// read creates the documents of in, in batches.
func (i *importing) read(ctx context.Context, in io.Reader) error {
	var batch []schemas.Document
	size := 0
	for event, err := range transfer.Read(in) {
		if err != nil {
			return errors.Join(i.create(ctx, batch), err)
		}
		if why := event.Check(time.Now()); why != nil {
			i.refuse(event.EventID, why.Error())
			continue
		}
		doc := i.format.Document(event)
		batch = append(batch, doc)
		if size += len(doc.Source); len(batch) < importEvents && size < importBytes {
			continue
		}
		if err := i.create(ctx, batch); err != nil {
			return err
		}
		batch, size = batch[:0], 0
	}
	return i.create(ctx, batch)
}

// create first looks for documents that are stored already, also in older indices.
func (i *importing) create(ctx context.Context, docs []schemas.Document) error {
	ids := make([]string, len(docs))
	for n, doc := range docs {
		ids[n] = doc.ID
	}
	found, err := i.store.Find(ctx, ids)
	if err != nil {
		return err
	}
	var left []schemas.Document
	for _, doc := range docs {
		if _, there := found[doc.ID]; there {
			i.there++
			continue
		}
		left = append(left, doc)
	}
	err = i.insist(ctx, left)
	i.bar.Show(i.created + i.there + i.refused)
	return err
}

// insist sends documents again that the store is too busy for, and sends the halves of
// a batch that it refuses as a whole.
func (i *importing) insist(ctx context.Context, docs []schemas.Document) error {
	var err error
	for try := 0; len(docs) > 0 && try < importTries; try++ {
		if try > 0 {
			select {
			case <-time.After(i.pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var failed *eventstore.Error
		var busy []schemas.Document
		busy, err = i.send(ctx, docs)
		switch {
		case err == nil:
			docs = busy
		case !errors.As(err, &failed):
			return err
		case failed.Kind == eventstore.RequestTooLarge, failed.Kind == eventstore.BadRequest:
			return i.halve(ctx, docs, err)
		case failed.Kind != eventstore.Overloaded:
			return err
		}
	}
	if len(docs) > 0 && err == nil {
		err = fmt.Errorf("the store would not take %s", wording.Plural(len(docs), "event"))
	}
	return err
}

// halve finds the document for which the store refuses the batch.
func (i *importing) halve(ctx context.Context, docs []schemas.Document, why error) error {
	if len(docs) == 1 {
		i.refuse(docs[0].ID, why.Error())
		return nil
	}
	half := len(docs) / 2
	if err := i.insist(ctx, docs[:half]); err != nil {
		return err
	}
	return i.insist(ctx, docs[half:])
}

func (i *importing) send(ctx context.Context, docs []schemas.Document) (busy []schemas.Document, err error) {
	results, err := i.store.Create(ctx, docs)
	for n, result := range results {
		switch result.Status {
		case eventstore.Created:
			i.created++
		case eventstore.Conflict:
			i.there++
		case eventstore.Busy:
			busy = append(busy, docs[n])
		default:
			i.refuse(docs[n].ID, result.Reason)
		}
	}
	return busy, err
}

func (i *importing) refuse(id, why string) {
	if i.refused++; len(i.reasons) < mostReasons {
		i.reasons = append(i.reasons, fmt.Sprintf("event %s: %s", terminal.Cell(id, 80), terminal.Cell(why, 400)))
	}
}

// failed returns an error that names the refused documents; nil if there are none.
func (i *importing) failed() error {
	switch {
	case i.refused == 0:
		return nil
	case i.refused > len(i.reasons):
		i.reasons = append(i.reasons, "…")
	}
	return fmt.Errorf("%s refused, the others are in the store:\n  %s", wasOrWere(i.refused, "event"), strings.Join(i.reasons, "\n  "))
}

func wasOrWere(n int, what string) string {
	if n == 1 {
		return wording.Plural(n, what) + " was"
	}
	return wording.Plural(n, what) + " were"
}
