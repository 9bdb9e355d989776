package sse

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// Responses describes a response that grows.
func Responses(contentType, text string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: text, Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

// Respond returns a response that do writes as it grows, each write within a timeout. If do
// fails, the response is cut off, so that it does not look complete.
func Respond(contentType string, timeout time.Duration, do func(ctx context.Context, to Stream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusOK)
		if err := do(hctx.Context(), NewStream(w, timeout)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}}
}

// RespondEvents returns a response of events. Its last event is problem if do fails, so
// that a browser, which connects again in any case, can show the reason.
func RespondEvents(timeout time.Duration, do func(ctx context.Context, to *Writer) error) *huma.StreamResponse {
	return Respond(ContentType, timeout, func(ctx context.Context, s Stream) error {
		to, err := NewWriter(s)
		if err != nil {
			return err
		}
		err = do(ctx, to)
		if err != nil && ctx.Err() == nil {
			err = to.Send("problem", "", problem.New(ctx, err))
		}
		return err
	})
}
