package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/watershipmq/watership/internal/problem"
	"github.com/watershipmq/watership/internal/sse"
)

const ndjson = "application/x-ndjson"

func streamResponse(contentType, text string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: text, Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

// newStream returns a response that do writes as it grows. If do fails, the response is cut
// off, so that it does not look complete.
func newStream(contentType string, do func(ctx context.Context, to sse.Stream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusOK)
		if err := do(hctx.Context(), sse.NewStream(w, writeTimeout)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}}
}

// newEventStream returns a response of events. Its last event is problem if do fails, so
// that a browser, which connects again in any case, can show the reason.
func newEventStream(do func(ctx context.Context, to *sse.Writer) error) *huma.StreamResponse {
	return newStream(sse.ContentType, func(ctx context.Context, s sse.Stream) error {
		to, err := sse.NewWriter(s)
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
