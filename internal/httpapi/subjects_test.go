package httpapi_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
)

// namesSubjects returns settings with rules that name subjects.
func namesSubjects(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	settings := []string{`WATERSHIP_REDACT_RULES=[{header: x-customer, subject: true}]`}
	for name, text := range map[string]string{"HASH_KEY": strings.Repeat("0a", 32), "ORIGINAL_KEYS": "a " + strings.Repeat("0b", 32)} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "WATERSHIP_REDACT_"+name+"_FILE="+path)
	}
	return settings
}

// A subject is erased by its value, and every answer, approval and audit event has the hash alone.
func TestEraseSubject(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	if _, err := access.OpenTokenFile(tokens).Create(access.Token{Name: "first", Role: access.Viewer}); err != nil {
		t.Fatal(err)
	}
	settings := append(namesSubjects(t), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens, "WATERSHIP_APPROVALS_RULES=[{actions: [erase], roles: [admin]}]")
	inEachStore(t, func(t *testing.T, r rig) {
		const subject = "C-4711-Secret"
		found := r.post(t, "/subjects/find", `{"subject":"`+subject+`"}`)
		hashes, _ := found["hashes"].([]any)
		if len(hashes) != 1 || found["keys"] != 0.0 || found["events"] != 0.0 {
			t.Fatalf("%v", found)
		}
		hash := fmt.Sprint(hashes[0])
		if _, err := r.KeepSubjectKeys(t.Context(), map[string][]byte{hash: {1}}); err != nil {
			t.Fatal(err)
		}
		erase := `{"subject":"` + subject + `","reason":"asked"}`
		eve := r.as(t, access.Token{Name: "eve", Role: access.Admin})
		asked := r.do(t, http.MethodPost, "/subjects/erase", erase)
		asked.wantCode(t, code.NeedsApproval, "erase of 1 key")
		waiting := eve.approvals(t, "waiting")
		if len(waiting) != 1 || waiting[0]["matched"] != 1.0 || !strings.Contains(fmt.Sprint(waiting), hash) {
			t.Fatalf("%v", waiting)
		}
		answers := string(asked.body) + fmt.Sprint(waiting)
		done := eve.decide(t, waiting[0]["id"], "approve")
		if done.StatusCode != http.StatusOK || done.json(t)["state"] != "done" {
			t.Fatalf("%s %s", done.Status, done.body)
		}
		answers += string(done.body)
		if left := r.post(t, "/subjects/erase", erase); left["matched"] != 0.0 || left["done"] != 0.0 {
			t.Errorf("again: %v", left)
		}
		r.recorder.mu.Lock()
		defer r.recorder.mu.Unlock()
		audited := 0
		for _, made := range r.recorder.records {
			answers += fmt.Sprintf("%+v", made)
			if made.Action.Name == "erase subject" && made.Done() && strings.Contains(made.Action.Object, hash) && made.Action.Reason == "asked" {
				audited++
			}
		}
		if audited == 0 {
			t.Error("no audit event has the hash")
		}
		if strings.Contains(answers, subject) {
			t.Errorf("the subject is in %s", answers)
		}
	}, settings...)
}

// Who sees some queues, or only reads, erases nobody.
func TestWhoErases(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		r.as(t, access.Token{Name: "otto", Role: access.Operator}).do(t, http.MethodPost, "/subjects/erase", `{"subject":"C-1","reason":"x"}`).wantProblem(t, http.StatusForbidden, "needs admin")
		limited := r.as(t, access.Token{Name: "lena", Role: access.Admin, Queues: []string{"orders"}})
		for _, path := range []string{"/subjects/find", "/subjects/erase"} {
			limited.do(t, http.MethodPost, path, `{"subject":"C-1"}`).wantProblem(t, http.StatusForbidden, "limited")
			r.do(t, http.MethodPost, path, `{}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
			r.do(t, http.MethodPost, path, `{"hashes":["C-1"]}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
		}
		r.do(t, http.MethodPost, "/subjects/erase", `{"subject":"C-1"}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
	}, namesSubjects(t)...)
}

func TestEraseWithoutRules(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		r.do(t, http.MethodPost, "/subjects/find", `{"subject":"C-1"}`).wantProblem(t, http.StatusBadRequest, "no rule of redact.rules names the subjects")
	})
}
