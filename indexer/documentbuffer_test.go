package indexer

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// Documents of any size stay as they were encoded, and their blocks are used again.
func TestDocumentsStayValidUntilReset(t *testing.T) {
	buffer, format := documentBuffer{pool: &sync.Pool{}}, schemas.DocumentFormat{}
	for round := range 3 {
		var got, want [][]byte
		total := 0
		for n, size := range []int{0, 10, 1 << 10, 50 << 10, 1 << 10, 200 << 10, 300 << 10, 1 << 10, 100 << 10, 10} {
			for _, char := range []string{"x", "\x00", "é", `"`} { // some documents are larger than expected
				event := schemas.Event{Envelope: schemas.Envelope{Body: bytes.Repeat([]byte(char), size)}}
				event.EventID, event.Action, event.BodyIn = fmt.Sprint(round, n), schemas.Published, schemas.BodyHere
				got, want = append(got, buffer.append(format, &event)), append(want, format.Append(nil, event))
				total += len(want[len(want)-1])
			}
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("document %d of round %d has changed", i, round)
			}
		}
		if buffer.bytes != total {
			t.Errorf("%d bytes, want %d", buffer.bytes, total)
		}
		buffer.reset()
	}
}
