package actionpage

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

// drain is an action whose preview reads a queue, and of which a form may act on the first messages alone.
func drain(previews *int, acted *[]frame.Confirmed) Flow[string, int] {
	return Flow[string, int]{
		Path: "/drain", PreviewPath: "/drain/preview", Role: access.Operator, Confirmation: frame.Confirmation{Name: "a drain", Unit: "message"},
		Read: func(_ *http.Request, form url.Values) (queue string, isSelected bool, err error) {
			if queue = form.Get("queue"); queue == "#" {
				err = frame.Unprocessable("expected the name of a queue", "")
			}
			return queue, queue != "", err
		},
		Preview: func(context.Context, string) (int, operation.Found, error) {
			*previews++
			return 300, operation.Found{Matched: 300}, nil
		},
		OnFirst: func(form url.Values) bool { return form.Get("first") != "" },
		Act: func(_ context.Context, _ operation.IdempotencyKey, queue string, shown frame.Confirmed) (frame.Response, error) {
			if queue == "gone" {
				return nil, errors.New("there is no queue")
			}
			*acted = append(*acted, shown)
			return frame.Redirect("/drained"), nil
		},
		Page: func(_ context.Context, v Shown[string, int]) (frame.Page, error) { return frame.Page{Data: v}, nil },
	}
}

// A preview that does more than reading is made when it is asked for, and not after a refusal.
func TestPreviewThatIsAskedFor(t *testing.T) {
	previews, acted := 0, []frame.Confirmed(nil)
	flow := drain(&previews, &acted)
	shown := func(response frame.Response, err error) (Shown[string, int], int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		page := response.(frame.Page)
		return page.Data.(Shown[string, int]), page.Status
	}
	if v, _ := shown(flow.form(request(access.Viewer, "queue=orders"))); v.Previewed || v.Selected != "orders" {
		t.Errorf("the form: %+v", v)
	}
	if v, status := shown(flow.preview(request(access.Operator, ""), url.Values{"queue": {"#"}})); v.Previewed || status != http.StatusUnprocessableEntity {
		t.Errorf("a mistake: %+v, %d", v, status)
	}
	if v, _ := shown(flow.preview(request(access.Operator, ""), url.Values{"queue": {"orders"}})); !v.Previewed || !v.Typed || v.Found != 300 {
		t.Errorf("the preview: %+v", v)
	}
	for form, want := range map[string]int{"queue=orders&expect=300": http.StatusUnprocessableEntity, "queue=gone&expect=3": http.StatusInternalServerError} {
		if v, status := shown(flow.act(request(access.Operator, form))); v.Previewed || v.Unread || v.Problem == nil || status != want {
			t.Errorf("%s: %+v, %d", form, v, status)
		}
	}
	if previews != 1 || acted != nil {
		t.Errorf("%d previews, done %+v", previews, acted)
	}
	for _, form := range []string{"queue=orders&expect=300&first=yes", "queue=orders&expect=300&count=300"} {
		if _, err := flow.act(request(access.Operator, form)); err != nil {
			t.Error(err)
		}
	}
	if len(acted) != 2 || *acted[0].Expect != 300 {
		t.Errorf("done %+v", acted)
	}
	if _, err := flow.act(request(access.Viewer, "queue=orders&expect=3")); err == nil {
		t.Error("a viewer acts")
	}
}
