package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
)

// incidents sends the alerts of a notice one by one, to a service that opens an incident for each and
// resolves it by the same key.
type incidents struct {
	open, resolve func(ctx context.Context, key string, n notice.Notice, item notice.Item) (string, error)

	mu    sync.Mutex
	id    string          // of the latest notice, of which the service did not take every alert
	taken map[string]bool // keys of the alerts of that notice that it took
}

// send sends the alerts that the service has not taken when the same notice was sent before: a service that
// limits requests takes a long notice in parts. An alert that the service refuses holds up no other. A test
// is resolved at once, so that it stays open for no one.
func (s *incidents) send(ctx context.Context, n notice.Notice) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.ID != s.id {
		s.id, s.taken = n.ID, map[string]bool{}
	}
	var answer string
	var failed []error
	for _, item := range n.Alerts {
		key := incidentKey(n.Source, item.Alert)
		if s.taken[key] {
			continue
		}
		answered, err := s.sendOne(ctx, key, n, item)
		if err != nil {
			failed = append(failed, err)
			var later *notice.LaterError
			if errors.As(err, &later) || ctx.Err() != nil {
				break
			}
			continue
		}
		answer, s.taken[key] = answered, true
	}
	if len(failed) == 0 {
		return answer, nil
	}
	return "", fmt.Errorf("it took %d of %d alerts: %w", len(s.taken), len(n.Alerts), errors.Join(failed[0], lastOf(failed)))
}

// lastOf returns the last of several errors, which says when the service takes more; nil if there is one.
func lastOf(errs []error) error {
	if len(errs) == 1 {
		return nil
	}
	return errs[len(errs)-1]
}

func (s *incidents) sendOne(ctx context.Context, key string, n notice.Notice, item notice.Item) (string, error) {
	if item.Status == notice.Resolved {
		return s.resolve(ctx, key, n, item)
	}
	answer, err := s.open(ctx, key, n, item)
	if err == nil && n.Test {
		_, err = s.resolve(ctx, key, n, item)
	}
	return answer, err
}

// incidentKey returns the key of the incident of an alert, which is the same in each process and when the
// alert ends, and differs between systems that share a service.
func incidentKey(source string, a notice.Alert) string {
	sum := sha256.Sum256([]byte(source + "\n" + a.Key()))
	return "watership-" + hex.EncodeToString(sum[:12])
}

// labelsOf returns all labels of an alert, with the rule and its condition.
func labelsOf(item notice.Item) map[string]string {
	labels := map[string]string{"rule": item.Rule, "on": item.On}
	maps.Copy(labels, item.Extra)
	maps.Copy(labels, item.Labels)
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}
