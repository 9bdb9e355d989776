package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
)

// fail publishes orders with some ids, whose handler fails for good.
func (s served) fail(t *testing.T, ids ...string) {
	t.Helper()
	s.broken.Store(true)
	for _, id := range ids {
		s.publish(t, id, `{}`, nil)
	}
	s.await(t, int64(len(ids)), "action: poisoned")
	s.broken.Store(false)
}

// orders returns n ids.
func orders(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%d", i+1)
	}
	return ids
}

// form returns the fields of the form with a button, with the values that a browser sends
// if nobody changes them, and where it goes.
func (d document) form(t *testing.T, button string) (action string, fields url.Values) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(d.text))
	if err != nil {
		t.Fatal(err)
	}
	for form := range root.Descendants() {
		if form.Data != "form" || !slices.Contains(buttonsOf(form), button) {
			continue
		}
		fields = url.Values{}
		for field := range form.Descendants() {
			kind := attribute(field, "type")
			_, isChecked := find(field, "checked")
			if field.Data == "input" && attribute(field, "name") != "" && (kind != "checkbox" && kind != "radio" || isChecked) {
				fields.Add(attribute(field, "name"), attribute(field, "value"))
			}
		}
		return attribute(form, "action"), fields
	}
	t.Fatalf("%s has no form with the button %q:\n%s", d.Request.URL, button, d.words(t))
	return "", nil
}

func buttonsOf(form *html.Node) (texts []string) {
	for n := range form.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "button" {
			texts = append(texts, strings.TrimSpace(n.Data))
		}
	}
	return texts
}

func find(n *html.Node, name string) (value string, found bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func attribute(n *html.Node, name string) string {
	value, _ := find(n, name)
	return value
}

// values returns the values of an attribute of all elements that have it.
func (d document) values(t *testing.T, name string) (values []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(d.text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if value, found := find(n, name); found {
			values = append(values, value)
		}
	}
	return values
}

// without checks that a page lacks some texts.
func (d document) without(t *testing.T, texts ...string) {
	t.Helper()
	words := d.words(t)
	for _, text := range texts {
		if strings.Contains(words, text) {
			t.Errorf("%s has %q:\n%s", d.Request.URL, text, words)
		}
	}
}

// link returns the address of the first link with a text, or a part of an address.
func (d document) link(t *testing.T, part string) string {
	t.Helper()
	for _, address := range d.values(t, "href") {
		if strings.Contains(address, part) {
			return address
		}
	}
	t.Fatalf("%s has no link with %q", d.Request.URL, part)
	return ""
}

func TestFailures(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.get(t, "/failures").want(t, http.StatusOK, "No unresolved failures", "All time")
	hostile := "o/1?<script>alert(1)</script>\u202e"
	s.fail(t, "order-1", "order-2", hostile)

	page := s.get(t, "/failures")
	page.want(t, http.StatusOK, "3 failures in 2 groups", "orders", "no table for order #", "Replay…", "Discard selected…")
	if strings.Contains(page.text, "<script>alert") || strings.Contains(page.text, "\u202e") {
		t.Error("a message's text is not escaped")
	}
	if labels := page.values(t, "aria-label"); !slices.Contains(labels, "2 failures, at most 2 in 1 s") && !slices.Contains(labels, "2 failures, at most 1 in 1 s") {
		t.Errorf("sparklines: %q", labels)
	}
	page.link(t, "/messages/o%2F1%3F%3Cscript%3E")
	page.link(t, "/messages/order-") // either may be the latest
	if refresh := page.values(t, "data-refresh"); !slices.Equal(refresh, []string{"30"}) {
		t.Errorf("the page refreshes after %q seconds", refresh)
	}
	s.get(t, page.link(t, "sort=last")).want(t, http.StatusOK, "3 failures in 2 groups")

	list := s.get(t, page.link(t, "view=list"))
	list.want(t, http.StatusOK, "order-1", "order-2", "no table for order")
	if selected := list.values(t, "value"); len(selected) < 3 {
		t.Errorf("%q", selected)
	}
	s.get(t, "/failures?q=message.id%3A+order-1").want(t, http.StatusOK, "1 failure in 1 group")
	s.get(t, "/failures?q=queue%3A+nowhere").want(t, http.StatusOK, "No unresolved failure matches")
	wrong := s.get(t, "/failures?q=acton%3A+poisoned&view=list")
	wrong.want(t, http.StatusBadRequest, "no field \"acton\"", "Did you mean event.action?")
	if !slices.Contains(wrong.values(t, "value"), "acton: poisoned") {
		t.Error("the query is not in its box")
	}
}

// Groups that are selected are one query for the next page.
func TestSelectedGroups(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, "a", "b", "c")
	page := s.get(t, "/failures?q=queue%3A+orders")
	_, fields := page.form(t, "Replay selected…")
	kinds := page.kinds(t)
	if len(kinds) != 3 || fields.Get("q") != "queue: orders" {
		t.Fatalf("%q, %v", kinds, fields)
	}
	for action, want := range map[string]string{"replay": "Plan: 2 messages to send", "discard": "Discard 2 failures", "resolve": "Resolve 2 groups"} {
		s.get(t, "/failures/selected?"+url.Values{"q": {"queue: orders"}, "kind": kinds[:2], "do": {action}}.Encode()).want(t, http.StatusOK, want)
	}
	s.get(t, "/failures/selected?do=resolve").want(t, http.StatusBadRequest, "no group is selected")
	s.get(t, "/failures/selected?do=replay").want(t, http.StatusBadRequest, "no group is selected")
	long := url.Values{"do": {"replay"}, "kind": slices.Repeat(kinds, 20)}
	s.get(t, "/failures/selected?"+long.Encode()).want(t, http.StatusBadRequest, "more than 4000 characters", "select fewer")
}

// kinds are the queries of the groups that can be selected.
func (d document) kinds(t *testing.T) (kinds []string) {
	t.Helper()
	for _, value := range d.values(t, "value") {
		if strings.Contains(value, "watership.error_group") {
			kinds = append(kinds, value)
		}
	}
	return kinds
}

// Each failure can be selected, too.
func TestSelectedFailures(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(3)...)
	page := s.get(t, "/failures?view=list")
	_, fields := page.form(t, "Replay selected…")
	var ids []string
	for _, value := range page.values(t, "value") {
		if value != "" && value != "list" && value != "all" && value != "failed_queue" {
			ids = append(ids, value)
		}
	}
	if len(ids) != 3 || fields.Get("target") != "failed_queue" {
		t.Fatalf("%q, %v", ids, fields)
	}
	s.get(t, "/replays/new?"+url.Values{"target": {"failed_queue"}, "ids": ids[:2]}.Encode()).want(t, http.StatusOK, "Plan: 2 messages to send", "queue orders")
	preview := s.get(t, "/failures/discard?"+url.Values{"ids": {ids[0], "nobody"}}.Encode())
	preview.want(t, http.StatusOK, "Discard 1 failure", "order-", "1 id names no message or event:", "nobody")
	action, form := preview.form(t, "Discard 1 failure")
	form.Set("reason", "a test")
	after := s.post(t, action, form)
	after.want(t, http.StatusOK, "Discarded 1 failure.")
	if left := after.values(t, "value"); slices.Contains(left, ids[0]) || !slices.Contains(left, ids[1]) || !slices.Contains(left, ids[2]) {
		t.Errorf("of %q are left: %q", ids, left)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(101)...)
	preview := s.get(t, s.get(t, "/failures?q=queue%3A+orders").link(t, "/failures/discard"))
	preview.want(t, http.StatusOK, "Discard 101 failures", "The first 5 of 101", "Type 101 to confirm", "order-")
	action, form := preview.form(t, "Discard 101 failures")
	form.Set("reason", "test orders")

	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, `"" is not the number of failures`, "Type 101 to confirm.", "Discard 101 failures")
	form.Set("count", "100")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, `"100" is not the number of failures`)
	form.Set("count", "101")
	form.Set("reason", " ")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "a discard needs a reason")
	if n := s.count(t, "action: discarded"); n != 0 {
		t.Errorf("%d were discarded", n)
	}

	// Somebody else discards one meanwhile: nothing is done, and the new number is shown.
	other, one := s.get(t, "/failures/discard?ids=order-7").form(t, "Discard 1 failure")
	one.Set("reason", "paid by hand")
	s.post(t, other, one).want(t, http.StatusOK, "Discarded 1 failure.")
	form.Set("reason", "test orders")
	changed := s.post(t, action, form)
	changed.want(t, http.StatusConflict, "The number has changed: 100 failures now.", "Nothing was discarded.", "Discard 100 failures")
	changed.without(t, "Type")

	// Failures that happen after the preview are not part of it.
	action, form = changed.form(t, "Discard 100 failures")
	if form.Get("reason") != "test orders" {
		t.Errorf("the reason is lost: %v", form)
	}
	s.broken.Store(true)
	s.publish(t, "late", "{}", nil)
	s.await(t, 102, "action: poisoned")
	for range 2 { // the same key acts once
		s.post(t, action, form).want(t, http.StatusOK, "Discarded 100 failures.", "1 failure in 1 group", "late")
	}
	if n := s.count(t, "action: discarded"); n != 101 {
		t.Errorf("%d events, want 101", n)
	}
	if n := s.count(t, `action: discarded and error.message: "test orders (local)"`); n != 100 {
		t.Errorf("%d have the reason and the operator", n)
	}
	s.get(t, "/failures/discard?q=queue%3A+nowhere").want(t, http.StatusOK, "No unresolved failure matches")
	s.get(t, "/failures/discard").want(t, http.StatusBadRequest, "no failure is selected")
}

// Selected groups are resolved together, with a preview, a reason and the number. What happens is
// what was shown: failures that come later bring their groups back.
func TestResolveSelected(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, append(orders(101), "a", "b")...)
	page := s.get(t, "/failures")
	kinds := page.kinds(t) // of the orders, and one each of a and b
	if len(kinds) != 3 {
		t.Fatalf("%q", kinds)
	}
	action, form := page.form(t, "Resolve selected…")
	form["kind"], form["do"] = kinds[:2], []string{"resolve"}
	preview := s.get(t, action+"?"+form.Encode())
	preview.want(t, http.StatusOK, "Resolve 2 groups", "102 failures in 2 groups", "Type 102 to confirm", "no table for order #")
	action, form = preview.form(t, "Resolve 102 failures")
	form.Set("reason", "fixed")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, `"" is not the number of failures`, "Resolve 102 failures")
	form.Set("count", "102")
	form.Set("reason", " ")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "a resolution needs a reason")
	form.Set("reason", "fixed")
	if n := s.count(t, "action: discarded or action: triaged"); n != 0 {
		t.Errorf("%d events", n)
	}

	// Somebody else discards one meanwhile: nothing is done, and the new number is shown.
	other, one := s.get(t, "/failures/discard?ids=order-7").form(t, "Discard 1 failure")
	one.Set("reason", "paid by hand")
	s.post(t, other, one).want(t, http.StatusOK, "Discarded 1 failure.")
	changed := s.post(t, action, form)
	changed.want(t, http.StatusConflict, "The number has changed: 101 failures now.", "Nothing was resolved.", "Resolve 101 failures")
	action, form = changed.form(t, "Resolve 101 failures")
	form.Set("count", "101")
	s.failAgain(t, 104) // an order, which the operator does not see
	for range 2 {       // the same key acts once
		s.post(t, action, form).want(t, http.StatusOK, "Resolved 2 groups: 101 failures discarded.", "2 failures in 2 groups", "regressed")
	}
	if n := s.count(t, `action: triaged and event.reason: "fixed" and user.name: local`); n != 2 {
		t.Errorf("%d decisions", n)
	}
	s.get(t, "/failures/resolve?"+url.Values{"group": form["group"], "q": {"queue: nowhere"}}.Encode()).want(t, http.StatusOK, "No unresolved failure matches")
	s.get(t, "/failures/resolve?group=nobody").want(t, http.StatusNotFound, "no group of failures has the id")
	s.get(t, "/failures/resolve").want(t, http.StatusBadRequest, "no group is selected")
	form.Del("up_to")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "no up_to")

	// A group with failures that the query does not find stays unresolved.
	s.failAgain(t, 105)
	id, _, _ := strings.Cut(kinds[0], " ")
	action, form = s.get(t, "/failures/resolve?"+url.Values{"group": {id}, "q": {"event.sequence <= " + s.newestBut(t, 1)}}.Encode()).form(t, "Resolve 1 failure")
	form.Set("reason", "the first")
	s.post(t, action, form).want(t, http.StatusOK, "Resolved 0 groups: 1 failure discarded.", "1 group with other failures stays unresolved.")
}

// newestBut returns the sequence of the failure before the newest n.
func (s served) newestBut(t *testing.T, n int) string {
	t.Helper()
	var sequences []int64
	for _, e := range s.events(t, "action: poisoned") {
		sequences = append(sequences, e.Sequence)
	}
	slices.Sort(sequences)
	return fmt.Sprint(sequences[len(sequences)-1-n])
}

// count returns the number of events that match a query.
func (s served) count(t *testing.T, query string) int {
	t.Helper()
	node, err := s.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := store.Count(t.Context(), eventstore.Selection{Query: node})
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// Viewers see failures and jobs, and no action.
func TestFailuresOfViewers(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "vera", Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "lou", Role: access.Operator, Queues: []string{"mail"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	s.fail(t, orders(2)...)
	as := func(secret, path string) document { return s.get(t, path, "Authorization", "Bearer "+secret) }
	for _, path := range []string{"/failures", "/failures?view=list"} {
		page := as(secret, path)
		page.want(t, http.StatusOK, "orders", "no table for order")
		page.without(t, "Replay…", "Replay all", "Replay selected", "Discard", "Resolve")
		if kinds := page.values(t, "type"); slices.Contains(kinds, "checkbox") {
			t.Errorf("%s: %q", path, kinds)
		}
	}
	group := strings.TrimPrefix(as(secret, "/failures").link(t, "/failures/groups/"), "/failures/groups/")
	as(secret, "/replays").want(t, http.StatusOK, "Nothing was replayed yet")
	as(secret, "/replays").without(t, "New replay")
	for _, path := range []string{"/replays/new", "/failures/discard?q=*", "/replays/x/cancel"} {
		as(secret, path).want(t, http.StatusForbidden, "vera has the role viewer", "Ask an operator.")
	}
	as(secret, "/failures/resolve?group=x").want(t, http.StatusForbidden, "vera has the role viewer")
	for _, path := range []string{"/failures/discard", "/failures/resolve?group=x", "/replays/new", "/replays/x/cancel", "/replays/x/resume"} {
		refused := s.do(t, http.MethodPost, path, nil, "Authorization", "Bearer "+secret, "Content-Type", "application/x-www-form-urlencoded")
		if refused.StatusCode != http.StatusForbidden {
			t.Errorf("POST %s: %s", path, refused.Status)
		}
	}
	as(limited, "/failures").want(t, http.StatusOK, "No unresolved failures")
	as(limited, "/failures/resolve?group="+group).want(t, http.StatusNotFound, "no group of failures has the id")
	as(limited, "/failures/discard?q=*").want(t, http.StatusOK, "No unresolved failure matches")
	as(limited, "/replays/new?q=*&target=queue&queue=orders").want(t, http.StatusForbidden, "lou may not use the queue orders")
}

// The page of an unknown group says what to do in the console, and no request of the API.
func TestUnknownGroup(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	page := s.get(t, "/failures/groups/nope")
	page.want(t, http.StatusNotFound, `no group of failures has the id "nope"`, "Look for it among the failures")
	if strings.Contains(page.text, "GET /") {
		t.Errorf("it names a request:\n%s", page.text)
	}
}
