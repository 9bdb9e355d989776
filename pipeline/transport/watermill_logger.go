package transport

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// logHandler lets the connection log to a Watermill logger.
type logHandler struct {
	adapter watermill.LoggerAdapter
}

func slogger(adapter watermill.LoggerAdapter) *slog.Logger {
	return slog.New(logHandler{adapter: adapter})
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	fields := watermill.LogFields{}
	var cause error
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			cause = err
		} else {
			fields[a.Key] = a.Value.Any()
		}
		return true
	})
	switch {
	case r.Level >= slog.LevelWarn:
		if cause == nil {
			cause = errors.New(r.Message)
		}
		h.adapter.Error(r.Message, cause, fields)
	case r.Level >= slog.LevelInfo:
		h.adapter.Info(r.Message, fields)
	default:
		h.adapter.Debug(r.Message, fields)
	}
	return nil
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := make(watermill.LogFields, len(attrs))
	for _, a := range attrs {
		fields[a.Key] = a.Value.Any()
	}
	return logHandler{adapter: h.adapter.With(fields)}
}

func (h logHandler) WithGroup(string) slog.Handler { return h }
