package receiver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	stdmail "net/mail"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/system/secret"
)

func newMail(key string, cfg config.Mail) (Receiver, error) {
	password, err := secret.Text(key+".password_file", cfg.PasswordFile)
	if err != nil {
		return Receiver{}, err
	}
	conf, err := secret.TLS(key, config.TLS{CA: cfg.CA})
	if err != nil {
		return Receiver{}, err
	}
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	host, port, err := net.SplitHostPort(cfg.Server)
	if err != nil {
		return Receiver{}, fmt.Errorf("%s.server: %w", key, err)
	}
	conf.ServerName = host
	n, _ := strconv.Atoi(port) // the configuration has checked it
	options := []mail.Option{mail.WithPort(n), mail.WithTLSConfig(conf), mail.WithTimeout(requestTimeout)}
	switch cfg.TLS {
	case "tls":
		options = append(options, mail.WithSSL())
	case "starttls":
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if cfg.Username != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(cfg.Username), mail.WithPassword(password))
	}
	if _, err := newMessage(cfg, notice.Notice{Alerts: []notice.Item{{}}}); err != nil {
		return Receiver{}, fmt.Errorf("%s: %w", key, err)
	}
	return Receiver{Kind: "mail", To: strings.Join(cfg.To, ", "), Send: func(ctx context.Context, n notice.Notice) (string, error) {
		client, err := mail.NewClient(host, options...) // of one mail, since a client sends one at a time
		if err != nil {
			return "", err
		}
		message, err := newMessage(cfg, n)
		if err != nil {
			return "", err
		}
		if err := client.DialAndSendWithContext(ctx, message); err != nil {
			return "", err
		}
		return cfg.Server + " took the mail", nil
	}}, nil
}

// newMessage makes the mail of a notice. Its id is the id of the notice, so that a mail system
// recognises a repeated one.
func newMessage(cfg config.Mail, n notice.Notice) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(cfg.From); err != nil {
		return nil, err
	}
	if err := m.To(cfg.To...); err != nil {
		return nil, err
	}
	domain := "watership"
	if sender, err := stdmail.ParseAddress(cfg.From); err == nil {
		domain = sender.Address[strings.LastIndex(sender.Address, "@")+1:]
	}
	m.SetMessageIDWithValue(n.ID + "@" + domain)
	m.SetDateWithValue(n.Time)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.Subject(subject(n))
	m.SetBodyString(mail.TypeTextPlain, plain(n))
	return m, nil
}
