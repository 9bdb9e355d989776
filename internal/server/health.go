package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system"
)

// healthTimeout leaves a server the time to ask RabbitMQ and the store.
const healthTimeout = 2 * serverTimeout

// CheckHealth asks the server at http.listen whether it is alive.
func CheckHealth(ctx context.Context, server config.HTTP) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, err := askServer(ctx, server, "/healthz")
	return err
}

// askServer sends a request to http.listen of a running server. The answer of a server
// that reports a problem is in the error, too.
func askServer(ctx context.Context, server config.HTTP, path string) (answer string, err error) {
	host, port, err := net.SplitHostPort(server.Listen)
	if err != nil {
		return "", system.InputErrorf("http.listen %s: %w", server.Listen, err)
	}
	scheme, client := "http", http.DefaultClient
	if server.TLS.Cert != "" {
		// The certificate is for another name than this address. The request has no
		// secret.
		scheme, client = "https", &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer client.CloseIdleConnections()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return "", fmt.Errorf("asking serve for %s: %w", path, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("serve does not answer: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1024))
	answer = strings.TrimSpace(string(text))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("serve answered %s: %s", response.Status, answer)
	}
	return answer, err
}
