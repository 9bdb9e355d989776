package receiver

import (
	"context"
	"fmt"
	"net/url"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
)

// newChat returns a receiver that posts notices to the incoming webhook of a chat, whose URL is a secret.
func newChat(kind, key string, cfg config.IncomingWebhook, example string, body func(notice.Notice) ([]byte, error)) (Receiver, error) {
	key += "." + kind
	address, err := secret.Text(key+".url_file", cfg.URLFile)
	if err != nil {
		return Receiver{}, err
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return Receiver{}, fmt.Errorf("%s.url_file: %s: expected the URL of an incoming webhook, such as %s", key, cfg.URLFile, example)
	}
	client, err := newClient(key, config.TLS{})
	p := poster{client: client, url: address, contentType: "application/json"}
	return Receiver{Kind: kind, To: hostOf(address), Send: func(ctx context.Context, n notice.Notice) (string, error) {
		text, err := body(n)
		if err != nil {
			return "", err
		}
		return p.post(ctx, n.ID, text)
	}}, err
}
