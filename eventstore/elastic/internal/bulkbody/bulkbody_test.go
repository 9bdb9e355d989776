package bulkbody

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/watershipmq/watership/schemas"
)

func TestBody(t *testing.T) {
	docs := []schemas.Document{
		{ID: "a", Stream: schemas.Traffic, Source: []byte("{\n\"n\":\n1}")},
		{ID: `b"`, Stream: schemas.Failures, Source: []byte(strings.Repeat("x", 100))},
		{ID: "c", Stream: schemas.Traffic},
	}
	want := `{"create":{"_index":"s-traffic","_id":"a"}}` + "\n" + `{ "n": 1}` + "\n" +
		`{"create":{"_index":"s-failures","_id":"b\""}}` + "\n" + strings.Repeat("x", 100) + "\n" +
		`{"create":{"_index":"s-traffic","_id":"c"}}` + "\n\n"
	body := New("s", docs)
	if body.size != int64(len(want)) {
		t.Errorf("its length is %d, want %d", body.size, len(want))
	}
	if got, err := io.ReadAll(body); string(got) != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := io.ReadAll(iotest.OneByteReader(New("s", docs))); string(got) != want || err != nil {
		t.Errorf("read by single bytes: %q, %v", got, err)
	}
	if string(docs[0].Source) != "{\n\"n\":\n1}" {
		t.Errorf("the document was changed: %q", docs[0].Source)
	}
}

// net/http can read from a body after the request has ended.
func TestAReleasedBodyReadsNoDocument(t *testing.T) {
	body := New("s", []schemas.Document{{ID: "a", Stream: schemas.Traffic, Source: []byte("{}")}})
	body.Release()
	if n, err := body.Read(make([]byte, 100)); n != 0 || !errors.Is(err, errReleased) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
