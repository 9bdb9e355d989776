package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/pipeline/webhook"
)

func newWebhook(key string, cfg config.AlertWebhook) (Receiver, error) {
	client, err := newClient(key+".tls", cfg.TLS)
	if err != nil {
		return Receiver{}, err
	}
	p := poster{client: client, url: cfg.URL.Reveal(), contentType: cfg.ContentType, set: cfg.SetHeaders}
	for name, value := range cfg.SetHeaders {
		if t, err := target.ParseTemplate(value); err != nil || t.HasFields() {
			return Receiver{}, fmt.Errorf("%s.set_headers.%s: expected text without fields of a message, as an alert is of no single one", key, name)
		}
	}
	if p.token, err = secret.Text(key+".token_file", cfg.TokenFile); err != nil {
		return Receiver{}, err
	}
	if cfg.SecretFile != "" {
		text, err := secret.Content(key+".secret_file", cfg.SecretFile)
		if err != nil {
			return Receiver{}, err
		}
		if p.secrets, err = webhook.ParseSecrets(text); err != nil {
			return Receiver{}, fmt.Errorf("%s.secret_file: %s: %w", key, cfg.SecretFile, err)
		}
	}
	body, err := newBody(key, cfg)
	if err != nil {
		return Receiver{}, err
	}
	return Receiver{Kind: "webhook", To: hostOf(p.url), Send: func(ctx context.Context, n notice.Notice) (string, error) {
		text, err := body(n)
		if err != nil {
			return "", err
		}
		return p.post(ctx, n.ID, text)
	}}, nil
}

// newBody returns the function that makes the body of a notice: by the template, or as JSON.
func newBody(key string, cfg config.AlertWebhook) (func(notice.Notice) ([]byte, error), error) {
	setting, text := key+".template", cfg.Template
	if cfg.TemplateFile != "" {
		setting = key + ".template_file"
		content, err := secret.Content(setting, cfg.TemplateFile)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	if text == "" {
		return func(n notice.Notice) ([]byte, error) { return json.Marshal(n) }, nil
	}
	parsed, err := template.New("notice").Option("missingkey=error").Funcs(template.FuncMap{"json": toJSON, "time": formatTime}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	fill := func(n notice.Notice) ([]byte, error) {
		var out bytes.Buffer
		if err := parsed.Execute(&out, n); err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		return out.Bytes(), nil
	}
	host, _ := os.Hostname()
	_, err = fill(notice.TestNotice("source", "receiver", host, "http://localhost/", time.Now()))
	return fill, err
}

// toJSON encodes a value, for text in JSON.
func toJSON(value any) (string, error) {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
