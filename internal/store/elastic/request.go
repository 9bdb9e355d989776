package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// largestAnswer bounds what is read of an answer, in bytes. A page of events is
// far below it: one of the largest messages takes about 100 MB at worst.
const largestAnswer = 512 << 20

// yes is for the options of esapi, where absent and false are not the same.
func yes() *bool {
	value := true
	return &value
}

// ask sends a request that may be sent twice and reads its answer, unless into
// is nil. doing says for errors what is being done, such as "counting events".
func (s *Store) ask(ctx context.Context, doing string, request esapi.Request, into any) error {
	body, err := s.send(ctx, s.patient, doing, request)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return s.nonsense(doing, "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	return nil
}

// send returns the whole answer, or a *schemas.StoreError.
func (s *Store) send(ctx context.Context, by esapi.Transport, doing string, request esapi.Request) ([]byte, error) {
	var answer bytes.Buffer
	err := s.sendInto(ctx, by, doing, request, &answer)
	return answer.Bytes(), err
}

// sendInto puts the answer in the place of what is in a buffer.
func (s *Store) sendInto(ctx context.Context, by esapi.Transport, doing string, request esapi.Request, answer *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	response, err := request.Do(ctx, by)
	if err != nil {
		return s.noAnswer(doing, err)
	}
	defer response.Body.Close()
	if response.IsError() { // anything but 2xx
		// Only its words are wanted, so it need not arrive to the end.
		body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return s.refusal(doing, response.StatusCode, response.Header, body)
	}
	if err := readAll(response, answer); err != nil {
		return s.noAnswer(doing, &brokenOffError{answer.Len(), err})
	}
	if answer.Len() > largestAnswer {
		return s.nonsense(doing, fmt.Sprintf("gave an answer of more than %d bytes", largestAnswer))
	}
	return nil
}

// brokenOffError is an answer that began and did not end.
type brokenOffError struct {
	after int // bytes
	err   error
}

func (e *brokenOffError) Error() string {
	return fmt.Sprintf("the answer broke off after %d bytes: %v", e.after, e.err)
}

func (e *brokenOffError) Unwrap() error { return e.err }

// asJSON is the body of a request. It must not be given what JSON has no form for.
func asJSON(value any) io.Reader {
	body, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("elastic: a request body: %v", err)) // only ever maps, texts and numbers of ours
	}
	return bytes.NewReader(body)
}

// readAll makes room ahead where the length is known: pages are large.
func readAll(response *esapi.Response, into *bytes.Buffer) error {
	length, err := strconv.Atoi(response.Header.Get("Content-Length"))
	if err != nil {
		length = 0
	}
	into.Reset()
	into.Grow(min(length, largestAnswer) + bytes.MinRead) // which reading to the end wants to have left
	_, err = into.ReadFrom(io.LimitReader(response.Body, largestAnswer+1))
	return err
}
