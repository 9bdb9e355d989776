package cli

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

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

// kibanaAccess says where Kibana is and how to log in, as flags give it.
type kibanaAccess struct {
	url, user, passwordFile, ca string
}

func (a *kibanaAccess) addFlags(cmd *cobra.Command) {
	addGiven(cmd.Flags(), &a.url, "kibana", "URL of the Kibana that gets the data view, searches and dashboard, or an update of them")
	addGiven(cmd.Flags(), &a.user, "kibana-user", "user of Kibana")
	addGiven(cmd.Flags(), &a.passwordFile, "kibana-password-file", "file with the password of --kibana-user")
	addGiven(cmd.Flags(), &a.ca, "kibana-ca", "file with the certificates, in PEM, of authorities to trust for Kibana")
}

// kibana is a Kibana and a client that trusts it.
type kibana struct {
	url    *url.URL // a user and a password may be part of it
	client *http.Client
}

// open checks the flags; nil without --kibana.
func (a kibanaAccess) open() (*kibana, error) {
	if a.url == "" {
		if a != (kibanaAccess{}) {
			return nil, usagef("--kibana-user, --kibana-password-file and --kibana-ca need --kibana")
		}
		return nil, nil
	}
	to, err := url.Parse(a.url)
	if err != nil || to.Host == "" {
		return nil, usagef("--kibana %s: expected a URL such as http://localhost:5601", config.NewURL(a.url))
	}
	if err := a.logIn(to); err != nil {
		return nil, err
	}
	trusted, err := tlsOf("--kibana", config.TLS{CA: a.ca})
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	return &kibana{to, &http.Client{Transport: transport}}, nil
}

// logIn puts the user and the password of the flags into the URL.
func (a kibanaAccess) logIn(to *url.URL) error {
	if (a.user == "") != (a.passwordFile == "") {
		return usagef("--kibana-user and --kibana-password-file: expected both or neither")
	}
	if a.user == "" {
		return nil
	}
	if to.User != nil {
		return usagef("--kibana-user: --kibana %s names a user too", config.NewURL(a.url))
	}
	password, err := secret("--kibana-password-file", a.passwordFile)
	to.User = url.UserPassword(a.user, password)
	return err
}

// importObjects uses Kibana's import of saved objects, which replaces those of
// the same ids (https://www.elastic.co/guide/en/kibana/8.19/saved-objects-api-import.html).
func (k *kibana) importObjects(ctx context.Context, stream string) (imported int, err error) {
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
	to := strings.TrimRight(k.url.String(), "/") + "/api/saved_objects/_import?overwrite=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, form)
	if err != nil {
		return 0, fmt.Errorf("importing into Kibana at %s: %w", config.NewURL(k.url.String()), errors.Unwrap(err)) // without its URL
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("kbn-xsrf", "watership") // Kibana refuses requests without
	return k.send(request)
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

func (k *kibana) send(request *http.Request) (imported int, err error) {
	where := config.NewURL(request.URL.Scheme + "://" + request.URL.Host)
	response, err := k.client.Do(request)
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
		return 0, fmt.Errorf("importing into Kibana at %s: %d of the objects were refused: %s", where, len(answer.Errors), terminal.Cell(string(answer.Errors[0]), 300))
	case err != nil || !answer.Success:
		return 0, fmt.Errorf("importing into Kibana at %s: it answered %s: %s", where, response.Status, terminal.Cell(string(text), 300))
	}
	return answer.Count, nil
}
