package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/schemas"
)

// checkKibana wants the URL of a Kibana, or none.
func checkKibana(text string) error {
	kibana, err := url.Parse(text)
	if text != "" && (err != nil || kibana.Host == "") {
		return usagef("--kibana %s: expected a URL such as http://user:password@localhost:5601", config.NewURL(text))
	}
	return nil
}

// importObjects uses Kibana's import of saved objects, which replaces those of
// the same ids (https://www.elastic.co/guide/en/kibana/8.19/saved-objects-api-import.html).
// A user and a password may be part of the URL.
func importObjects(ctx context.Context, kibana, stream string) (imported int, err error) {
	objects, err := schemas.KibanaObjects(stream)
	if err != nil {
		return 0, err
	}
	form, kind, err := importForm(objects)
	if err != nil {
		return 0, fmt.Errorf("making the import for Kibana: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	to := strings.TrimRight(kibana, "/") + "/api/saved_objects/_import?overwrite=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, form)
	if err != nil {
		return 0, fmt.Errorf("importing into Kibana at %s: %w", config.NewURL(kibana), errors.Unwrap(err)) // without its URL
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("kbn-xsrf", "watership") // Kibana refuses requests without
	return kibanaAnswer(request)
}

func importForm(objects []byte) (form *bytes.Buffer, kind string, err error) {
	form = new(bytes.Buffer)
	writer := multipart.NewWriter(form)
	file, err := writer.CreateFormFile("file", "watership.ndjson")
	if err == nil {
		_, err = file.Write(objects)
	}
	return form, writer.FormDataContentType(), errors.Join(err, writer.Close())
}

func kibanaAnswer(request *http.Request) (imported int, err error) {
	where := config.NewURL(request.URL.Scheme + "://" + request.URL.Host)
	response, err := http.DefaultClient.Do(request)
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
		return 0, fmt.Errorf("importing into Kibana at %s: %d of the objects were refused: %s", where, len(answer.Errors), cell(string(answer.Errors[0]), 300))
	case err != nil || !answer.Success:
		return 0, fmt.Errorf("importing into Kibana at %s: it answered %s: %s", where, response.Status, cell(string(text), 300))
	}
	return answer.Count, nil
}
