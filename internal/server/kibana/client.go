package kibana

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/render/wording"
)

// Client imports saved objects into a Kibana.
type Client struct {
	url  *url.URL // with the login, where Kibana needs one
	http *http.Client
}

// NewClient returns a client for the Kibana at a URL, which may contain a login. A nil
// trusted trusts the system's certificate authorities.
func NewClient(to *url.URL, trusted *tls.Config) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	return &Client{to, &http.Client{Transport: transport}}
}

// Address is the URL of Kibana without the password.
func (c *Client) Address() string { return config.NewURL(c.url.String()).String() }

// Import imports the saved objects for data streams whose names begin with stream, with
// links to the console at an address; "": none. It replaces objects with the same ids (https://www.elastic.co/guide/en/kibana/8.19/saved-objects-api-import.html).
func (c *Client) Import(ctx context.Context, stream, console string) (imported int, err error) {
	objects, err := Objects(stream, console)
	if err != nil {
		return 0, err
	}
	form, contentType, err := importForm(objects)
	if err != nil {
		return 0, fmt.Errorf("making the import for Kibana: %w", err)
	}
	endpoint := strings.TrimRight(c.url.String(), "/") + "/api/saved_objects/_import?overwrite=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, form)
	if err != nil {
		return 0, fmt.Errorf("importing into Kibana at %s: %w", config.NewURL(c.url.String()), errors.Unwrap(err)) // without its URL
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("kbn-xsrf", "watership") // Kibana refuses requests without
	return c.sendImport(request)
}

func importForm(objects []byte) (form *bytes.Buffer, contentType string, err error) {
	form = new(bytes.Buffer)
	writer := multipart.NewWriter(form)
	file, err := writer.CreateFormFile("file", "watership.ndjson")
	if err == nil {
		_, err = file.Write(objects)
	}
	return form, writer.FormDataContentType(), errors.Join(err, writer.Close())
}

func (c *Client) sendImport(request *http.Request) (imported int, err error) {
	where := config.NewURL(request.URL.Scheme + "://" + request.URL.Host)
	response, err := c.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("importing into Kibana at %s: %w", where, errors.Unwrap(err)) // without its URL
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var answer struct {
		Success bool              `json:"success"`
		Count   int               `json:"successCount"`
		Errors  []json.RawMessage `json:"errors"`
	}
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &answer)
	}
	switch {
	case err == nil && len(answer.Errors) > 0:
		return 0, fmt.Errorf("importing into Kibana at %s: %d of the objects were refused: %.300s", where, len(answer.Errors), wording.OneLine(string(answer.Errors[0])))
	case err != nil || !answer.Success:
		return 0, fmt.Errorf("importing into Kibana at %s: it answered %s: %.300s", where, response.Status, wording.OneLine(string(text)))
	}
	return answer.Count, nil
}
