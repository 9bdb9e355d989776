package privacy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// Logger returns a logger without what patterns of any rule find in messages, names of errors and values.
func (r *Redactor) Logger(l *slog.Logger) *slog.Logger {
	if r == nil || l == nil || len(r.patterns) == 0 {
		return l
	}
	return slog.New(logHandler{l.Handler(), r})
}

type logHandler struct {
	slog.Handler
	redactor *Redactor
}

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	redacted := slog.NewRecord(record.Time, record.Level, h.redactor.Text(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		redacted.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, redacted)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.Clone(attrs)
	for i := range attrs {
		attrs[i] = h.attr(attrs[i])
	}
	return logHandler{h.Handler.WithAttrs(attrs), h.redactor}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.redactor}
}

func (h logHandler) attr(a slog.Attr) slog.Attr {
	switch a.Value = a.Value.Resolve(); a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.redactor.Text(a.Value.String()))
	case slog.KindGroup:
		group := slices.Clone(a.Value.Group())
		for i := range group {
			group[i] = h.attr(group[i])
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		if err, isError := a.Value.Any().(error); isError {
			a.Value = slog.AnyValue(errors.New(h.redactor.Text(err.Error())))
		} else if text := fmt.Sprint(a.Value.Any()); h.redactor.Text(text) != text {
			a.Value = slog.StringValue(h.redactor.Text(text))
		}
	}
	return a
}
