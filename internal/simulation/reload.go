package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/retry"
)

// reload lets each process read its configuration again, as SIGHUP does. It has another rule than before, which
// no error matches, so that all routes begin again.
func (w *world) reload() {
	w.mu.Lock()
	w.reloads++
	w.mu.Unlock()
	for _, p := range w.processes {
		if l := p.current(); l != nil {
			l.reload()
		}
	}
}

func (l *life) reload() {
	s := l.server.Load()
	if s == nil { // it begins
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := s.Reload(ctx)
	l.world.note(l.name, fmt.Sprintf("has reloaded its configuration: %v", err))
}

// settings reads the configuration.
func (w *world) settings() (config.Config, error) {
	c, err := config.Load(config.Sources{Environ: w.environ})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reloads > 0 {
		c.Retry.Rules = append(c.Retry.Rules, retry.Rule{Name: "rule", Text: fmt.Sprint("reload ", w.reloads), Class: "permanent"})
	}
	return c, err
}
