package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

func newHealthcheck(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Check the health of a running server",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if cfg.HTTP.Listen == "" {
				return usagef("http.listen is not set, so serve answers no health checks")
			}
			return checkHealth(cmd.Context(), cfg.HTTP.Listen)
		},
	}
}

func checkHealth(ctx context.Context, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*vitalsTimeout)
	defer cancel()
	_, err := askServe(ctx, listen, "/healthz")
	return err
}

// askServe asks a running serve. Its error says also that serve answered no, and then
// the answer is its reason.
func askServe(ctx context.Context, listen, path string) (answer string, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", usagef("http.listen %s: %w", listen, err)
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
