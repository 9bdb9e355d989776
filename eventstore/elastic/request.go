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

// Limits of the length of a response, in bytes, unpacked. A page of documents is far below: one of
// the largest messages takes about 100 MB at worst, as a request to Elasticsearch has no more
// (http.max_content_length). A response without documents is far smaller: 10,000 hits take a few megabytes.
const (
	maxResponse  = 64 << 20
	maxDocuments = 256 << 20
)

// requestJSON sends a request that can be repeated and unmarshals its response, unless
// into is nil. operation says what failed, such as "counting events".
func (c *client) requestJSON(ctx context.Context, operation string, request esapi.Request, into any) error {
	body, err := c.send(ctx, c.withRetries, operation, request)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return c.invalidResponse(operation, "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	return nil
}

// send returns the whole response, or a *eventstore.Error.
func (c *client) send(ctx context.Context, transport esapi.Transport, operation string, request esapi.Request) ([]byte, error) {
	var response bytes.Buffer
	err := c.sendInto(ctx, transport, operation, request, &response, maxResponse)
	return response.Bytes(), err
}

// sendInto replaces the content of a buffer by the response, of up to limit bytes.
func (c *client) sendInto(ctx context.Context, transport esapi.Transport, operation string, request esapi.Request, into *bytes.Buffer, limit int) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	response, err := request.Do(ctx, transport)
	if err != nil {
		return c.noResponse(operation, err)
	}
	defer response.Body.Close()
	if response.IsError() { // anything but 2xx
		// The text of the error is enough, even if the body is truncated.
		body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return c.errorResponse(operation, response.StatusCode, response.Header, body)
	}
	if err := readAll(response, into, limit); err != nil {
		return c.noResponse(operation, &truncatedError{into.Len(), err})
	}
	if into.Len() > limit {
		*into = bytes.Buffer{} // its user may keep it
		return c.invalidResponse(operation, fmt.Sprintf("gave an answer of more than %d bytes", limit))
	}
	return nil
}

// truncatedError is the error for a response that ended early.
type truncatedError struct {
	after int // bytes
	err   error
}

func (e *truncatedError) Error() string {
	return fmt.Sprintf("the answer broke off after %d bytes: %v", e.after, e.err)
}

func (e *truncatedError) Unwrap() error { return e.err }

// asJSON is the body of a request. It panics on values that JSON cannot represent.
func asJSON(value any) io.Reader {
	body, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("elastic: a request body: %v", err)) // bodies have only maps, strings and numbers
	}
	return bytes.NewReader(body)
}

// readAll reads one byte more than limit at most. It allocates the length at once if it is known,
// since pages are large.
func readAll(response *esapi.Response, into *bytes.Buffer, limit int) error {
	length, err := strconv.Atoi(response.Header.Get("Content-Length"))
	if err != nil {
		length = 0
	}
	into.Reset()
	into.Grow(min(length, limit) + bytes.MinRead) // ReadFrom needs this at the end, too
	_, err = into.ReadFrom(io.LimitReader(response.Body, int64(limit)+1))
	return err
}
