package access

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/code"
)

// Who reads bodies for a reason alone gives one with the request, by its action, or in the browser before. The audit
// event has it.
func TestBodiesForAReason(t *testing.T) {
	reader := Identity{Name: "ada", Role: Viewer, Bodies: true, BodyReasons: true}
	for name, test := range map[string]struct {
		reason, action, kept string
		want                 string // "": refused
	}{
		"none":             {"", "", "", ""},
		"blank":            {"", " \n", "", ""},
		"of the request":   {"ticket 7", "", "night shift", "ticket 7"},
		"of the action":    {"", "fixed", "night shift", "fixed"},
		"of the browser":   {"", "", "night shift", "night shift"},
		"a search, none":   {"", "", "", ""},
		"a search, a text": {"ticket 7", "", "", "ticket 7"},
	} {
		kept := &records{}
		a := &audit{recorder: kept, reason: test.reason, kept: test.kept, action: Action{Reason: test.action}}
		ctx := context.WithValue(NewContext(t.Context(), reader), auditKey{}, a)
		read := func() error { return ReadBodies(ctx, "v1:1") }
		if strings.HasPrefix(name, "a search") {
			read = func() error { return SearchBodies(ctx, parse(t, "body.text: a"), "body.text: a") }
		}
		if shows := ShowsBodies(ctx); shows != (test.want != "") {
			t.Errorf("%s: what quotes bodies is shown: %t", name, shows)
		}
		err := read()
		made := kept.take()
		switch refusal, _ := err.(*Error); {
		case test.want == "" && (refusal == nil || refusal.Code != code.NeedsReason || len(made) > 0):
			t.Errorf("%s: %v, %+v", name, err, made)
		case test.want != "" && (err != nil || len(made) != 1 || made[0].Action.Reason != test.want || made[0].Identity.Name != "ada"):
			t.Errorf("%s: %v, %+v", name, err, made)
		}
	}
	kept := &records{}
	ctx := context.WithValue(NewContext(t.Context(), Identity{Name: "ci", Role: Viewer, Bodies: true}), auditKey{}, &audit{recorder: kept})
	if err := ReadBodies(ctx, "v1:1"); err != nil || len(kept.take()) != 1 {
		t.Errorf("without reasons: %v", err)
	}
}

// An original needs the permission, which no role and no other permission implies, and a reason of the request.
func TestReadOriginals(t *testing.T) {
	for name, test := range map[string]struct {
		who          Identity
		reason, kept string
		want         code.Code // "": it is recorded
	}{
		"with a reason":         {Identity{Role: Viewer, Originals: true}, "ticket 7", "", ""},
		"without":               {Identity{Role: Viewer, Originals: true}, "", "", code.NeedsReason},
		"the browser's":         {Identity{Role: Viewer, Originals: true}, "", "night shift", code.NeedsReason},
		"an admin with bodies":  {Identity{Role: Admin, Bodies: true}, "ticket 7", "", code.Forbidden},
		"no role":               {Identity{Originals: true}, "ticket 7", "", code.Forbidden},
		"logins":                {AsOperator("ada"), "ticket 7", "", ""},
		"logins without reason": {AsOperator("ada"), "", "", code.NeedsReason},
	} {
		kept := &records{}
		a := &audit{recorder: kept, reason: test.reason, kept: test.kept}
		ctx := context.WithValue(NewContext(t.Context(), test.who), auditKey{}, a)
		err := RecordOriginals(ctx, "v1:1")
		made := kept.take()
		switch refusal, _ := err.(*Error); {
		case test.want != "" && (refusal == nil || refusal.Code != test.want || len(made) > 0):
			t.Errorf("%s: %v, %+v", name, err, made)
		case test.want == "" && (err != nil || len(made) != 1 || made[0].Action != (Action{Name: "read originals", Object: "v1:1", Reason: "ticket 7"})):
			t.Errorf("%s: %v, %+v", name, err, made)
		}
	}
	if err := RecordOriginals(NewContext(t.Context(), Identity{Role: Admin, Originals: true}), "v1:1"); err == nil {
		t.Error("a request that did not pass the handler may read originals")
	}
}

// The header of a request, or a form of the console, says why bodies are read. What one person has said in a browser does not
// count for another.
func TestReasonsOfRequests(t *testing.T) {
	tokens, _ := newTokens(t)
	secrets := map[string]string{}
	for _, name := range []string{"ada", "bob"} {
		var err error
		if secrets[name], err = tokens.Create(Token{Name: name, Role: Viewer, Bodies: true, BodyReasons: true}); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, Config{Tokens: tokens})
	wantReason := func(what, want string, with header) {
		t.Helper()
		s.recorded.take()
		response, body := s.send(t, http.MethodGet, "/body", with)
		made := s.recorded.take()
		if want == "" && (response.StatusCode != http.StatusBadRequest || body != "" || len(made) > 0) {
			t.Errorf("%s: %d %q, %+v", what, response.StatusCode, body, made)
		}
		if want != "" && (body != "secret" || len(made) != 1 || made[0].Action.Reason != want || response.Header.Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %d %q, %+v", what, response.StatusCode, body, made)
		}
	}
	bearer := "Bearer " + secrets["ada"]
	wantReason("none", "", header{"Authorization": bearer})
	wantReason("a header", "ticket 7 für Ada", header{"Authorization": bearer, ReasonHeader: " ticket 7 für\tAda"})

	session := func(name string) string {
		cookie := s.signIn(t, secrets[name], "/")
		return cookie.Name + "=" + cookie.Value
	}
	ada, bob := session("ada"), session("bob")
	given := s.giveReason(t, url.Values{"reason": {"night shift"}}, header{"Cookie": ada, "Referer": s.URL + "/jobs?a=1"})
	var kept string
	for _, c := range given.Cookies() {
		if c.Name == "watership-reason" && c.HttpOnly && c.SameSite == http.SameSiteLaxMode {
			kept = c.Name + "=" + c.Value
		}
	}
	if given.StatusCode != http.StatusSeeOther || given.Header.Get("Location") != "/jobs?a=1" || kept == "" {
		t.Fatalf("%d, %v", given.StatusCode, given.Header)
	}
	wantReason("of the browser", "night shift", header{"Cookie": ada + "; " + kept})
	wantReason("of another person", "", header{"Cookie": bob + "; " + kept})
	wantReason("a cookie that the server has not made", "", header{"Cookie": ada + "; watership-reason=night"})
	for what, form := range map[string]url.Values{"none": {}, "blank": {"reason": {" "}}} {
		if got := s.giveReason(t, form, header{"Cookie": ada}); got.StatusCode != http.StatusBadRequest || len(got.Cookies()) > 0 {
			t.Errorf("%s: %d", what, got.StatusCode)
		}
	}
	if got := s.giveReason(t, url.Values{"reason": {"night shift"}}, nil); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a session: %d", got.StatusCode)
	}
	if got := s.giveReason(t, url.Values{"reason": {"night shift"}}, header{"Cookie": ada, "Origin": "https://evil.example"}); got.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another site: %d", got.StatusCode)
	}
	long := s.giveReason(t, url.Values{"reason": {strings.Repeat("<", 5000)}}, header{"Cookie": ada, "Referer": "https://evil.example//x"})
	for _, c := range long.Cookies() {
		if len(c.String()) > 4096 {
			t.Errorf("browsers drop a cookie of %d bytes", len(c.String()))
		}
	}
	if long.StatusCode != http.StatusSeeOther || long.Header.Get("Location") != "/" {
		t.Errorf("%d, %v", long.StatusCode, long.Header)
	}
}

// giveReason sends the form with a reason.
func (s *site) giveReason(t *testing.T, form url.Values, with header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+pathReason, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range with {
		r.Header.Set(name, value)
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}
