package frame

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Client asks the API in the same process. The context of a page's request has the
// identity that the API sees, and gets the action that the server records.
type Client struct{ api http.Handler }

// NewClient returns a client of the handler of api.Prefix.
func NewClient(api http.Handler) Client { return Client{api} }

// Get reads a path below api.Prefix, in which ids are escaped (operation.Segment). out is a
// pointer to the type of the response, or to bytes. An error is a *problem.Problem, unless the response cannot be read.
func (c Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.do(ctx, http.MethodGet, path, query, "", nil, out)
}

// Post sends in as JSON. Requests with the same key act once; "": each acts.
func (c Client) Post(ctx context.Context, path, key string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing a request to %s: %w", path, err)
	}
	return c.do(ctx, http.MethodPost, path, nil, key, body, out)
}

func (c Client) do(ctx context.Context, method, path string, query url.Values, key string, body []byte, out any) error {
	to := httpapi.Prefix + path
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", path, err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set(idempotency.Header, key)
	}
	got := &answer{header: http.Header{}}
	if err := c.serve(got, request); err != nil {
		return err
	}
	return got.read(out)
}

// serve returns an error if the API cuts a response off.
func (c Client) serve(to *answer, request *http.Request) (err error) {
	defer func() {
		switch cause := recover(); {
		case cause == nil:
		case cause == http.ErrAbortHandler:
			err = &problem.Problem{Status: http.StatusGatewayTimeout, Detail: "the response was not completed in time", Remedy: "Narrow the query or its period, or see doctor."}
		default:
			panic(cause)
		}
	}()
	c.api.ServeHTTP(to, request)
	return nil
}

// Download passes the response of a path on as a file. The page shows an error instead.
func (c Client) Download(w http.ResponseWriter, r *http.Request, path string, query url.Values, name string) error {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, httpapi.Prefix+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", path, err)
	}
	passed := &attachment{ResponseWriter: w, name: name}
	c.api.ServeHTTP(passed, request)
	if passed.refused != nil {
		return passed.refused.read(nil)
	}
	return nil
}

// attachment makes a download of a response. It keeps a problem for a page.
type attachment struct {
	http.ResponseWriter
	name    string
	refused *answer
}

// WriteHeader implements http.ResponseWriter.
func (a *attachment) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.refused = &answer{status: status}
		return
	}
	a.Header().Set("Content-Disposition", `attachment; filename="`+a.name+`"`)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *attachment) Write(content []byte) (int, error) {
	if a.refused != nil {
		return a.refused.Write(content)
	}
	return a.ResponseWriter.Write(content)
}

// Unwrap gives http.ResponseController the connection.
func (a *attachment) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// answer is a response of the API in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Flush and SetWriteDeadline are for responses that grow.
func (a *answer) Flush() {}

func (a *answer) SetWriteDeadline(time.Time) error { return nil }

func (a *answer) Write(content []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(content)
}

func (a *answer) read(out any) error {
	if a.status >= http.StatusBadRequest {
		refused := &problem.Problem{}
		if err := json.Unmarshal(a.body.Bytes(), refused); err != nil {
			return fmt.Errorf("reading a problem of the API: %w", err)
		}
		return refused
	}
	switch to := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = a.body.Bytes()
		return nil
	}
	decoder := json.NewDecoder(&a.body)
	if err := decoder.Decode(out); err != nil && err != io.EOF {
		return fmt.Errorf("reading a response of the API: %w", err)
	}
	return nil
}
