package freeport

import (
	"errors"
	"slices"
	"testing"
)

// The next port is tried while one is taken, so that a second start has the same.
func TestListen(t *testing.T) {
	taken := []string{"h:8181", "h:8182"}
	for want, addresses := range map[string][]string{
		"h:8181": nil, "h:8183": taken, "h:8190": append(taken, "h:8183", "h:8184", "h:8185", "h:8186", "h:8187", "h:8188", "h:8189"),
		"h:0": append(taken, "h:8183", "h:8184", "h:8185", "h:8186", "h:8187", "h:8188", "h:8189", "h:8190"),
	} {
		got, err := Listen("h:8181", func(address string) (string, error) {
			if slices.Contains(addresses, address) {
				return "", errors.New("taken")
			}
			return address, nil
		})
		if got != want || err != nil {
			t.Errorf("with %q taken it is %s, %v, expected %s", addresses, got, err, want)
		}
	}
	refused := errors.New("refused")
	if _, err := Listen("h:8181", func(string) (string, error) { return "", refused }); !errors.Is(err, refused) {
		t.Errorf("it is %v", err)
	}
}
