package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// CheckHealth asks the server at http.listen whether it is alive.
func CheckHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*serverTimeout)
	defer cancel()
	_, err := askServer(ctx, address, "/healthz")
	return err
}

// askServer sends a request to http.listen of a running server. The answer of a server
// that reports a problem is in the error, too.
func askServer(ctx context.Context, address, path string) (answer string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", inputErrorf("http.listen %s: %w", address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return "", fmt.Errorf("asking serve for %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
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
