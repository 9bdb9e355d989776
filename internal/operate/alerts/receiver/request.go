package receiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/pipeline/webhook"
)

// poster posts bodies to a URL.
type poster struct {
	client      *http.Client
	url         string
	contentType string
	set         map[string]string // headers
	token       string            // bearer token; "": none
	username    string            // "": no login
	password    string
	secrets     [][]byte // that sign requests; none: not signed
}

// newClient returns a client that follows no redirect, which could lead a secret elsewhere.
func newClient(key string, files config.TLS) (*http.Client, error) {
	conf, err := secret.TLS(key, files)
	if err != nil {
		return nil, err
	}
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = conf
	return &http.Client{
		Transport: transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// newIncidentService returns what posts to a service of incidents.
func newIncidentService(key string, cfg config.IncidentService) (poster, error) {
	client, err := newClient(key, config.TLS{})
	return poster{client: client, url: strings.TrimSuffix(cfg.URL.Reveal(), "/"), contentType: "application/json"}, err
}

// postJSON posts a value as JSON.
func (p poster) postJSON(ctx context.Context, id string, value any) (string, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return p.post(ctx, id, body)
}

const longestAnswer = 1 << 10

// post returns the status and the beginning of the response. Its errors do not contain the
// URL, which may be a secret.
func (p poster) post(ctx context.Context, id string, body []byte) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return "", errors.New("its URL cannot be used")
	}
	for name, value := range p.set {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", p.contentType)
	request.Header.Set("Idempotency-Key", id)
	switch {
	case p.token != "":
		request.Header.Set("Authorization", "Bearer "+p.token)
	case p.username != "":
		request.SetBasicAuth(p.username, p.password)
	}
	if len(p.secrets) > 0 {
		webhook.SetSignature(request.Header, p.secrets, "msg_"+id, body)
	}
	response, err := p.client.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	answer := strings.TrimSpace(response.Status + " " + wording.OneLine(strings.TrimSpace(string(text))))
	if response.StatusCode/100 != 2 {
		return "", later(fmt.Errorf("it answered %s", answer), response.Header)
	}
	return answer, nil
}

// later adds the time of a header Retry-After to an error: seconds, or a date by the clock of the
// receiver.
func later(err error, header http.Header) error {
	value := header.Get("Retry-After")
	if seconds, bad := strconv.ParseUint(value, 10, 20); bad == nil {
		return &notice.LaterError{After: time.Duration(seconds) * time.Second, Err: err}
	}
	at, bad := http.ParseTime(value)
	if bad != nil {
		return err
	}
	now, bad := http.ParseTime(header.Get("Date"))
	if bad != nil {
		now = time.Now()
	}
	return &notice.LaterError{After: max(0, at.Sub(now)), Err: err}
}

// hostOf returns scheme and host of a URL, without path and login.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
