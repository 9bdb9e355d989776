// Package transfer copies events between stores through files.
package transfer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"

	"github.com/watershipmq/watership/schemas"
)

// Read yields the documents of an export, one for each line. Lines have no maximum
// length. An error names the line and ends the sequence. The export may be compressed by gzip, and
// may begin with a byte order mark, which some editors and shells of Windows write.
func Read(in io.Reader) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		lines, err := plain(in)
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
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

// plain returns a text without compression and byte order mark.
func plain(in io.Reader) (*bufio.Reader, error) {
	const buffer = 64 << 10
	text := bufio.NewReaderSize(in, buffer)
	if begin, _ := text.Peek(2); bytes.Equal(begin, []byte{0x1f, 0x8b}) {
		inflated, err := gzip.NewReader(text)
		if err != nil {
			return nil, fmt.Errorf("reading the gzip file: %w", err)
		}
		text = bufio.NewReaderSize(inflated, buffer)
	}
	if begin, _ := text.Peek(3); string(begin) == "\ufeff" {
		_, _ = text.Discard(3) // was read
	}
	return text, nil
}
