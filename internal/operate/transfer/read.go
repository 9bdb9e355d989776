// Package transfer copies events between stores through files.
package transfer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/watershipmq/watership/schemas"
)

// Read yields the documents of an export, one for each line. Lines have no maximum
// length. An error names the line and ends the sequence.
func Read(in io.Reader) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		lines := bufio.NewReaderSize(in, 64<<10)
		for number := 1; ; number++ {
			line, err := lines.ReadBytes('\n')
			if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
				event, parseErr := schemas.ParseDocument(trimmed)
				if parseErr != nil {
					yield(schemas.Event{}, fmt.Errorf("line %d: expected a document that export wrote: %w", number, parseErr))
					return
				}
				if !yield(event, nil) {
					return
				}
			}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield(schemas.Event{}, fmt.Errorf("reading line %d: %w", number, err))
				return
			}
		}
	}
}
