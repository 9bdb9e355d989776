package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// largestAnswer bounds what is read of an answer, in bytes. A page of events is
// far below it: one of the largest messages takes about 100 MB at worst.
const largestAnswer = 512 << 20

// request is one that Elasticsearch understands, at any node. The client's own
// requests are not used: compiling the hundreds of them takes longer than all
// of Watership. The zero value of all but method and path says nothing.
type request struct {
	method, path string // the path is escaped
	query        options
	header       http.Header
	body         []byte // JSON, unless the header says otherwise
}

type options map[string]string

// transport sends a request to a node, whose address it puts in.
type transport interface {
	Perform(*http.Request) (*http.Response, error)
}

func (r request) send(ctx context.Context, by transport) (*http.Response, error) {
	query := url.Values{}
	for name, value := range r.query {
		query.Set(name, value)
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, r.path+"?"+query.Encode(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	maps.Copy(sent.Header, r.header)
	if len(r.body) > 0 && sent.Header.Get("Content-Type") == "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	return by.Perform(sent)
}

// ask sends a request that may be sent twice and reads its answer, unless into
// is nil. doing says for errors what is being done, such as "counting events".
func (s *Store) ask(ctx context.Context, doing string, r request, into any) error {
	body, err := s.send(ctx, s.patient, doing, r)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return s.nonsense(doing, "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	return nil
}

// send returns the whole answer, or a *schemas.StoreError.
func (s *Store) send(ctx context.Context, by transport, doing string, r request) ([]byte, error) {
	var answer bytes.Buffer
	err := s.sendInto(ctx, by, doing, r, &answer)
	return answer.Bytes(), err
}

// sendInto puts the answer in the place of what is in a buffer.
func (s *Store) sendInto(ctx context.Context, by transport, doing string, r request, answer *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	response, err := r.send(ctx, by)
	if err != nil {
		return s.noAnswer(doing, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		// Only its words are wanted, so it need not arrive to the end.
		body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return s.refusal(doing, response.StatusCode, response.Header, body)
	}
	if err := readAll(response, answer); err != nil {
		return s.noAnswer(doing, fmt.Errorf("the answer broke off after %d bytes: %w", answer.Len(), err))
	}
	if answer.Len() > largestAnswer {
		return s.nonsense(doing, fmt.Sprintf("gave an answer of more than %d bytes", largestAnswer))
	}
	return nil
}

// asJSON is the body of a request. It must not be given what JSON has no form for.
func asJSON(value any) []byte {
	body, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("elastic: a request body: %v", err)) // only ever maps, texts and numbers of ours
	}
	return body
}

// readAll makes room ahead where the length is known: pages are large.
func readAll(response *http.Response, into *bytes.Buffer) error {
	length, err := strconv.Atoi(response.Header.Get("Content-Length"))
	if err != nil {
		length = 0
	}
	into.Reset()
	into.Grow(min(length, largestAnswer) + bytes.MinRead) // which reading to the end wants to have left
	_, err = into.ReadFrom(io.LimitReader(response.Body, largestAnswer+1))
	return err
}
