package app

import "github.com/watershipmq/watership/internal/explain"

// Policies returns the policies and rules of the running server, or else of the configuration.
func (a *App) Policies() explain.Config {
	handlers := a.pipeline()
	if s := a.server.Load(); s != nil {
		handlers = *s.config.Load()
	}
	return explain.Config{Routes: handlers.Routes, Default: handlers.Default, Rules: handlers.Rules}
}
